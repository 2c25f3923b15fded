"""The limits that plans share, as settings and project contexts say them at the moment."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchyard.configuration import user_file, user_layers, variable_layers
from patchyard.contracts.clock import Clock
from patchyard.contracts.journal import Journal
from patchyard.domain.booking import Bound
from patchyard.domain.ceilings import Budget, bounds
from patchyard.domain.effective import Layer
from patchyard.engine.catalogue import Catalogue

FRESH_S = 1.0  # how long what was read counts


class SettingsBudgets:
    """contracts.purse.Budgets: variables, then the project's context, then the user's file.

    Never a repository's file: it would decide over plans of others.
    """

    def __init__(self, environ: Mapping[str, str], journal: Journal, clock: Clock) -> None:
        self._typed = _budgets(variable_layers(environ))
        self._environ = environ
        self._catalogue = Catalogue(journal, clock)
        self._read_at = float("-inf")
        self._file: tuple[tuple[int, int, int] | None, list[Budget]] = (None, [])
        self._projects: Mapping[str, Budget] = {}

    async def bounds(self, project: str, day: str) -> Sequence[Bound]:
        """See contracts.purse.Budgets."""
        if time.monotonic() - self._read_at > FRESH_S:
            await self._read()
        own = self._projects.get(project)
        layers = [*self._typed, *([own] if own else []), *self._file[1]]
        return bounds(layers, project, day) if layers else ()

    async def _read(self) -> None:
        holdings = await self._catalogue.holdings()
        self._projects = {name: p.budget for name, p in holdings.projects.items() if p.budget}
        seen = _print(user_file(self._environ))
        if seen != self._file[0]:
            self._file = (seen, _budgets(user_layers(self._environ)))
        self._read_at = time.monotonic()


def _print(path: Path) -> tuple[int, int, int] | None:
    """What tells whether a file is another than it was; None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _budgets(layers: Sequence[Layer]) -> list[Budget]:
    return [layer.settings.budget for layer in layers if layer.settings.budget]


__all__ = ["FRESH_S", "SettingsBudgets"]
