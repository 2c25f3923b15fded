"""The write-ahead log that a killed engine left, damaged, cut or deleted: never a silent rewind."""

import io
import itertools
import os
import random
import shutil
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from patchyard.contracts.journal import NewEvent
from patchyard.domain.chain import faults
from patchyard.domain.errors import JournalBroken, PatchyardError
from patchyard.engine.integrity import intact
from patchyard.stores.sqlite import SQLiteJournal
from patchyard.stores.wal import AT_ONCE, HEADER, first_damaged, require_whole
from timing import IS_SOAK

pytestmark = pytest.mark.anyio

SEED = int(os.environ.get("PATCHYARD_SEED", "20261124"))
EVENTS = 30
FRAME = 24 + 4096
KILLED = """
import asyncio, os, sys
from pathlib import Path
from patchyard.contracts.journal import NewEvent
from patchyard.stores.sqlite import SQLiteJournal

async def main():
    journal = SQLiteJournal.open(Path(sys.argv[1]))
    for number in range(int(sys.argv[2])):
        event = NewEvent(type="Noted", schema=1, at=1.0, body={"text": f"{number} {'x' * 300}"})
        await journal.append("P", number, [event])
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a journal whose engine was killed after its last event."""
    folder = tmp_path_factory.mktemp("killed")
    words = [sys.executable, "-c", KILLED, str(folder / "patchyard.db"), str(EVENTS)]
    subprocess.run(words, check=False)
    assert (folder / "patchyard.db-wal").stat().st_size > EVENTS * FRAME
    return folder


@pytest.fixture
def home(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "home"))


async def said(folder: Path) -> str:
    """What opening the journal and taking up its plan says; nothing where all of it is there."""
    before = contents(folder)
    try:
        journal = SQLiteJournal.open(folder / "patchyard.db")
    except PatchyardError as error:
        assert contents(folder) == before
        return error.message
    try:
        assert len(await intact(journal, "P")) == EVENTS
        assert faults(await journal.entries("P"), noted=await journal.noted("P")) == ()
    except PatchyardError as error:
        return error.message
    finally:
        await journal.close()
    return ""


def contents(folder: Path) -> dict[str, bytes]:
    return {place.name: place.read_bytes() for place in folder.glob("patchyard.db*")}


def flip(path: Path, offset: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


class Cut(io.FileIO):
    """A log that another process cuts at its second reading behind a place."""

    def __init__(self, log: Path, place: int) -> None:
        super().__init__(log)
        self._log, self._place, self._reads = log, place, 0

    def read(self, size: int | None = -1, /) -> bytes:
        self._reads += self.tell() > self._place
        if self._reads > 1:
            os.truncate(self._log, self._place)
        return super().read(size)


def written(order: Literal["little", "big"], frames: int) -> bytes:
    """Return a log of which each frame is a transaction, as sqlite.org/fileformat2.html has it."""
    magic = {"little": 0x377F0682, "big": 0x377F0683}[order]
    made = struct.pack(">IIIIII", magic, 3007000, 4096, 0, 0x01020304, 0x05060708)
    one, two = added(made, (0, 0), order)
    made += struct.pack(">II", one, two)
    for number in range(1, frames + 1):
        head, page = struct.pack(">II", number, number), random.Random(number).randbytes(4096)
        one, two = added(head + page, (one, two), order)
        made += head + struct.pack(">IIII", 0x01020304, 0x05060708, one, two) + page
    return made


def added(data: bytes, sums: tuple[int, int], order: Literal["little", "big"]) -> tuple[int, int]:
    one, two = sums
    for at in range(0, len(data), 8):
        one = (one + int.from_bytes(data[at : at + 4], order) + two) % 2**32
        two = (two + int.from_bytes(data[at + 4 : at + 8], order) + one) % 2**32
    return one, two


async def test_the_log_of_a_killed_engine_is_taken_as_it_is(home: Path) -> None:
    assert await said(home) == ""


async def test_damage_in_the_middle_of_the_log_is_named_before_it_is_dropped(home: Path) -> None:
    log = home / "patchyard.db-wal"
    flip(log, 32 + 20 * FRAME + 2000, 3)
    with log.open("rb") as file:
        assert first_damaged(file) == 21
    with pytest.raises(JournalBroken, match="damaged in its frame 21") as caught:
        SQLiteJournal.open(home / "patchyard.db")
    assert str(log) in caught.value.message
    assert "backup" in caught.value.hint


@pytest.mark.parametrize("length", [0, 11, 31, 32])
def test_a_log_that_was_cut_while_it_is_read_hides_nothing(length: int) -> None:
    assert first_damaged(io.BytesIO(bytes(length))) is None


async def test_a_log_is_looked_at_in_memory_that_does_not_grow_with_it(home: Path) -> None:
    log = home / "patchyard.db-wal"
    with log.open("r+b") as file:  # frames of an earlier round follow, as after a large write
        size = file.seek(0, os.SEEK_END)
        file.truncate(size + 5_000 * FRAME)
    tracemalloc.start()
    try:
        require_whole(home / "patchyard.db")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("frame", [0, 10, 20, 21, 29])
async def test_a_log_that_is_cut_during_a_look_hides_nothing(home: Path, frame: int) -> None:
    log = home / "patchyard.db-wal"
    flip(log, 32 + 20 * FRAME + 2000, 3)
    with Cut(log, 32 + frame * FRAME + 10) as file:
        assert first_damaged(file) in {None, 21}


def test_each_frame_of_a_log_is_looked_at_in_either_byte_order() -> None:
    for order in "little", "big":
        log = written(order, AT_ONCE + 4)
        assert first_damaged(io.BytesIO(log)) is None
        for frame in 0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1:
            for byte in 3, 8, 17, 24, FRAME - 1:  # page, salt, checksum, first and last of the page
                damaged = bytearray(log)
                damaged[HEADER + frame * FRAME + byte] ^= 0x40
                assert first_damaged(io.BytesIO(damaged)) == frame + 1
        last = bytearray(log)
        last[-1] ^= 1
        assert first_damaged(io.BytesIO(last)) is None


async def test_a_log_that_was_deleted_is_missed(home: Path) -> None:
    database, before = home / "patchyard.db", home / "before.db"
    journal = SQLiteJournal.open(database)
    await journal.close()
    shutil.copy(database, before)
    journal = SQLiteJournal.open(database)
    event = NewEvent(type="Noted", schema=1, at=1.0, body={"text": "in the log alone"})
    await journal.append("P", EVENTS, [event])
    await journal.close()
    before.replace(database)

    journal = SQLiteJournal.open(database)
    with pytest.raises(JournalBroken, match=f"event {EVENTS + 1} is lost"):
        await intact(journal, "P")
    await journal.close()


async def test_a_log_cut_anywhere_is_missed(home: Path, tmp_path: Path) -> None:
    size = (home / "patchyard.db-wal").stat().st_size
    cuts = range(0, size, 4001 if IS_SOAK else 60_000)
    for cut in cuts:
        place = Path(shutil.copytree(home, tmp_path / f"cut{cut}"))
        os.truncate(place / "patchyard.db-wal", cut)
        assert await said(place), cut


def flips(frames: int) -> Iterator[tuple[int, int]]:
    """A bit in each part of each frame: number, salts, checksum, page; of some frames by seed."""
    chance = random.Random(SEED)
    chosen = range(frames) if IS_SOAK else sorted(chance.sample(range(frames), 8))
    for frame in chosen:
        for part in ((0, 4), (4, 8), (8, 16), (16, 24), (24, FRAME)):
            yield 32 + frame * FRAME + chance.randrange(*part), chance.randrange(8)


async def test_a_bit_flipped_in_any_frame_is_named_and_nothing_is_written_over(
    home: Path, tmp_path: Path
) -> None:
    frames = ((home / "patchyard.db-wal").stat().st_size - 32) // FRAME
    header = [(offset, offset % 8) for offset in range(32)]
    last = [(32 + (frames - 1) * FRAME + 500, 1)]
    silent = []
    place = tmp_path / "flipped"
    for offset, bit in itertools.chain(header if IS_SOAK else header[::5], last, flips(frames)):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(home, place)
        flip(place / "patchyard.db-wal", offset, bit)
        if not await said(place):
            silent.append(offset)
    assert silent == []


async def test_a_log_in_use_is_left_to_who_uses_it(tmp_path: Path) -> None:
    first = SQLiteJournal.open(tmp_path / "patchyard.db")
    event = NewEvent(type="Noted", schema=1, at=1.0, body={"text": "x"})
    for number in range(3):
        await first.append("P", number, [event])
    flip(tmp_path / "patchyard.db-wal", 32 + 100, 1)

    second = SQLiteJournal.open(tmp_path / "patchyard.db")

    assert len(await first.read("P")) == 3
    await second.close()
    await first.close()
