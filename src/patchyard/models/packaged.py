"""Makes the provider that `kind: MODULE:NAME` of the user's own models.yaml names.

The module is an installed package's: one that only lies in the current folder is not loaded, as
that may be a repository.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchyard.contracts.provider import ModelProvider
from patchyard.domain.errors import ModelUnavailable, PatchyardError, UsageError
from patchyard.models.answer_shapes import require_provider
from patchyard.models.keys import Key, hide

SAID = 300  # characters of what a package raised


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """A provider by the name of its class, and what it is made with."""

    name: str  # of the provider
    kind: str  # MODULE:NAME
    options: Mapping[str, Any] = field(default_factory=dict)  # keyword arguments
    key: Key  # given as `api_key` where it is named

    def require(self) -> Callable[..., Any]:
        """Return what makes it. Raises UsageError where there is no such module or name."""
        module, _, attribute = self.kind.partition(":")
        _require_installed(self.name, module)
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"the provider {self.name}: {module} cannot be imported: {_said(error)}",
                hint=f"`{sys.executable} -c 'import {module}'` shows it whole",
            ) from error
        if not callable(found):
            raise UsageError(
                f"the provider {self.name}: the module {module} has no class {attribute!r}",
                hint="write `kind: MODULE:CLASS` in models.yaml, as the package's documents say",
            )
        maker: Callable[..., Any] = found
        return maker

    async def made(self) -> ModelProvider:
        """Return a new object of it. Raises ModelUnavailable, UsageError."""
        maker, own = self.require(), {}
        if self.key.is_named:
            await self.key.read()
            value = self.key.headers("key").get("key", "")
            if not value:
                raise ModelUnavailable(
                    f"{self.name} needs a key",
                    hint=f"put it into {self.key.place}",
                    details={"kind": "no_key", "provider": self.name},
                )
            own["api_key"] = value
        try:
            provider = maker(**{**self.options, **own})
        except PatchyardError:
            raise
        except (Exception, SystemExit) as error:
            raise ModelUnavailable(
                f"the provider {self.name} cannot be made: {self.key.hide(_said(error))}",
                hint=f"`options` of {self.name} in models.yaml are what {self.kind} is called with",
                details={"provider": self.name},
            ) from error
        require_provider(self.name, provider)
        made: ModelProvider = provider
        return made


def _require_installed(name: str, module: str) -> None:
    """Raise UsageError for a module that is not there, or only in the current folder."""
    top = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise UsageError(
            f"the provider {name}: there is no module {top!r}",
            hint=f"install the package that has it: {sys.executable} -m pip install PACKAGE",
        )
    places = [*(spec.submodule_search_locations or ())] or [spec.origin or ""]
    roots = {str(Path(os.path.realpath(place)).parent) for place in places if place}
    if os.path.realpath(os.curdir) in roots:
        raise UsageError(
            f"the provider {name}: the module {top!r} lies in the current folder",
            hint=f"install it ({sys.executable} -m pip install PACKAGE), or work in another folder",
        )


def _said(error: BaseException) -> str:
    return hide(" ".join(f"{type(error).__name__}: {error}".split()))[:SAID]


__all__ = ["Packaged"]
