"""What it costs to have an event on disk, and to read a plan's state back."""

import asyncio
import tempfile
from pathlib import Path

from benchmarks.measuring import measured, median_ms_async
from patchyard.contracts.journal import NewEvent
from patchyard.stores.sqlite import SQLiteJournal

EVENT = NewEvent(type="Noted", schema=1, at=1.0, body={"text": "x" * 1500})


async def _append_ms() -> float:
    with tempfile.TemporaryDirectory() as folder:
        journal = SQLiteJournal.open(Path(folder, "journal.sqlite"))
        version = 0

        async def append() -> None:
            nonlocal version
            version = await journal.append("plan", version, [EVENT])

        try:
            return await median_ms_async(append, repeats=200)
        finally:
            await journal.close()


async def _read_ms() -> float:
    with tempfile.TemporaryDirectory() as folder:
        journal = SQLiteJournal.open(Path(folder, "journal.sqlite"))
        try:
            await journal.append("plan", 0, [EVENT] * 1000)
            return await median_ms_async(lambda: journal.read("plan"), repeats=10)
        finally:
            await journal.close()


@measured("event of 1.5 KB, synced", target=0.4)
def track_event_synced() -> float:
    return asyncio.run(_append_ms())


@measured("reading 1,000 events", target=50)
def track_events_read() -> float:
    return asyncio.run(_read_ms())
