"""Buses to test, each with as many ends as a test wants."""

from dataclasses import dataclass, field
from pathlib import Path

from patchyard.clients.clock import SystemClock
from patchyard.contracts.bus import Bus
from patchyard.stores.process_bus import ProcessBus
from patchyard.stores.sqlite import SQLiteJournal
from patchyard.stores.sqlite_bus import SQLiteBus

__all__ = ["LINES", "Line"]


@dataclass(kw_only=True)
class ProcessLine:
    """One bus, whoever asks for an end of it."""

    folder: Path
    size: int = 5
    _bus: Bus | None = None

    def end(self) -> Bus:
        self._bus = self._bus or ProcessBus(SystemClock(), size=self.size)
        return self._bus

    async def close(self) -> None:
        """There is nothing to close."""


@dataclass(kw_only=True)
class SQLiteLine:
    """Ends with a connection each, as processes have them."""

    folder: Path
    size: int = 5
    journals: list[SQLiteJournal] = field(default_factory=list)

    def end(self) -> Bus:
        journal = SQLiteJournal.open(self.folder / "patchyard.db")
        self.journals.append(journal)
        return SQLiteBus(journal, SystemClock(), kept=self.size, size=self.size)

    async def close(self) -> None:
        """Close all that was opened."""
        for journal in self.journals:
            await journal.close()


Line = ProcessLine | SQLiteLine
LINES: dict[str, type[ProcessLine] | type[SQLiteLine]] = {
    "process": ProcessLine,
    "sqlite": SQLiteLine,
}
