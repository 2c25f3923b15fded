"""The limits that plans share, as settings and project contexts say them at the moment."""

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchyard.configuration import user_file, user_layers, variable_layers
from patchyard.contracts.clock import Clock
from patchyard.contracts.journal import Journal
from patchyard.domain.booking import Bound
from patchyard.domain.ceilings import Budget, bounds
from patchyard.domain.effective import Layer
from patchyard.domain.errors import UsageError
from patchyard.engine.catalogue import Catalogue

TOTAL_USD = "total_usd"
FRESH_S = 1.0  # how long what was read counts


class SettingsBudgets:
    """contracts.purse.Budgets: variables, then the project's context, then the user's file.

    Never a repository's file: it would decide over plans of others.
    """

    def __init__(self, environ: Mapping[str, str], journal: Journal, clock: Clock) -> None:
        self._environ = environ
        self._catalogue = Catalogue(journal, clock)
        self._read_at = float("-inf")
        self._file: tuple[tuple[int, int, int] | None, _Said] = (None, _Said())
        self._projects: Mapping[str, Budget] = {}

    @functools.cached_property
    def _typed(self) -> "_Said":
        """What the variables say, read at first use: `doctor` opens stores beside wrong ones."""
        return _said(variable_layers(self._environ))

    async def bounds(self, project: str, day: str) -> Sequence[Bound]:
        """See contracts.purse.Budgets."""
        if time.monotonic() - self._read_at > FRESH_S:
            await self._read()
        own = self._projects.get(project)
        typed, file = self._typed, self._file[1]
        said = [*typed.budgets, *([own] if own else []), *file.budgets]
        layers = _capped(said, (*typed.most_usd, *file.most_usd))
        return bounds(layers, project, day) if layers else ()

    async def _read(self) -> None:
        holdings = await self._catalogue.holdings()
        self._projects = {name: p.budget for name, p in holdings.projects.items() if p.budget}
        seen = _print(user_file(self._environ))
        if seen != self._file[0]:
            self._file = (seen, self._file_said())
        self._read_at = time.monotonic()

    def _file_said(self) -> "_Said":
        """Return what the user's file says; what it said last while it is being edited."""
        try:
            return _said(user_layers(self._environ))
        except UsageError:
            if self._read_at == float("-inf"):
                raise
            return self._file[1]


def _print(path: Path) -> tuple[int, int, int] | None:
    """What tells whether a file is another than it was; None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, kw_only=True)
class _Said:
    """What some places say of shared limits."""

    budgets: Sequence[Budget] = ()  # the first that says a limit wins
    most_usd: tuple[float, ...] = ()  # of safety profiles: the least wins over all of them


def _said(layers: Sequence[Layer]) -> _Said:
    settings = [layer.settings for layer in layers]
    profiles = [each.safety for each in settings if each.safety is not None]
    return _Said(
        budgets=tuple(each.budget for each in settings if each.budget),
        most_usd=tuple(p.max_total_cost for p in profiles if p.max_total_cost is not None),
    )


def _capped(layers: Sequence[Budget], most_usd: Sequence[float]) -> Sequence[Budget]:
    """Return `layers` with a total that no safety profile is below."""
    if not most_usd:
        return layers
    said = [layer[TOTAL_USD] for layer in layers if TOTAL_USD in layer][:1]
    return [{TOTAL_USD: min(*most_usd, *said, float("inf"))}, *layers]


__all__ = ["FRESH_S", "TOTAL_USD", "SettingsBudgets"]
