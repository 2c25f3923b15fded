"""The engine as a program holds it: settings once, then any number of tasks, at once too."""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from patchyard.assembly import open_equipment
from patchyard.casting import Shared, model_catalogue
from patchyard.configuration import PREFIX, READ, VARIABLES, configure
from patchyard.contracts.provider import ModelProvider
from patchyard.domain.errors import GuardRefused, UnknownName
from patchyard.execution.providers import with_provider
from patchyard.execution.requests import TaskExecutionRequest
from patchyard.execution.tasks import TaskExecutionResult, carried_on, carried_out

SETTINGS = tuple(sorted({*VARIABLES, *(name.lower() for name in READ)}))
"""What may be set by its name in small letters; see docs/reference/configuration.md."""


class Engine:
    """Carries tasks out with the settings that it was opened with. Used within one event loop.

    What is known of providers (which ones fail, how much was asked of them) is shared by its tasks.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Take all variables there are; `open` makes it."""
        self._environ = environ
        self._shared = Shared()
        self._is_open = True

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Mapping[str, Any] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Self]:
        """Yield an engine. `settings` go before `environ`, by default this process's variables.

        A setting has its name (`{"model": "ollama:qwen3-coder", "max_steps": 20, "home": PATH}`)
        or that of a variable (`{"OPENAI_API_KEY": KEY}`).
        Raises UnknownName, UsageError, StateRefusal, Unavailable.
        """
        around = dict(os.environ) if environ is None else environ
        whole = {**around, **variables_of(settings or {})}
        configure(whole)
        async with open_equipment(whole):  # refuses a home that cannot be used
            engine = cls(whole)
        try:
            yield engine
        finally:
            engine._is_open = False

    def register(self, name: str, provider: ModelProvider) -> None:
        """Add a provider of the program's own; its models are `NAME:...` from then on.

        It is never closed from here. Raises UsageError for an object that is none, and for a name
        that cannot be one or that is taken.
        """
        catalogue = model_catalogue(self._environ, shared=self._shared)
        provided = with_provider(catalogue, name, provider).provided
        self._shared = replace(self._shared, provided=provided)

    async def run(self, task: str | TaskExecutionRequest) -> TaskExecutionResult:
        """Carry a task out; see `execute_task`. A text is worked on in the current folder.

        Raises GuardRefused once the engine is closed; each other failure is a result.
        """
        self._require_open()
        request = TaskExecutionRequest(task=task) if isinstance(task, str) else task
        return await carried_out(request, self._environ, self._shared)

    async def resume(self, plan_id: str) -> TaskExecutionResult:
        """Carry a plan on from where it stopped. Raises as `run` does."""
        self._require_open()
        return await carried_on(plan_id, self._environ, self._shared)

    def _require_open(self) -> None:
        if not self._is_open:
            hint = "run tasks within `async with Engine.open(...) as engine:`"
            raise GuardRefused("the engine is closed", hint=hint)


def variables_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as the variables that say the same. Raises UnknownName."""
    found = {}
    for name, value in settings.items():
        if value is None:
            continue
        if name not in SETTINGS and not (name.isupper() and name.isidentifier()):
            raise UnknownName.among("setting", str(name), SETTINGS)
        variable = f"{PREFIX}{name.upper()}" if name in SETTINGS else name
        found[variable] = _text(value)
    return found


def _text(value: Any) -> str:
    if isinstance(value, (str, Path)):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


__all__ = ["SETTINGS", "Engine", "variables_of"]
