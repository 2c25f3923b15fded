"""The frames of a write-ahead log, looked at before SQLite does: damage in the middle has a name.

SQLite takes a log up to its first wrong frame and drops the rest without a word, as is right for
the end of a write that was cut off. Behind damage lie commits that were synced: a commit that
another frame follows was on the disk before that frame was begun. The format of the log:
sqlite.org/fileformat2.html#walformat
"""

import os
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from patchyard.clients.locks import is_held
from patchyard.domain.errors import JournalBroken

MAGIC = {0x377F0682: "little", 0x377F0683: "big"}  # byte order of what the checksums cover
HEADER, FRAME = 32, 24  # bytes of the log's header, and of each frame's
PAGE = 4096  # of our databases
PAGES = frozenset(1 << power for power in range(9, 17))
OPEN = 128  # byte of the shared memory that each connection locks: UNIX_SHM_DMS in os_unix.c
MASK = 0xFFFFFFFF
AT_ONCE = 64  # frames: a quarter of a megabyte
BACK = (
    "restore the database and its log from a backup; nothing was changed. To go on from before the"
    " damage, move the log away: plans that have lost events then say so"
)

Sums = tuple[int, int]


class Log:
    """A log, read a frame at a time with one byte order and size of pages.

    Where it is cut meanwhile, what is gone follows nothing.
    """

    def __init__(self, file: BinaryIO, header: bytes, order: str, page: int) -> None:
        self._file = file
        self._order = order
        self._step = FRAME + page
        self._header = header
        self.salts = header[16:24]
        self.sums = _sums_in(header[24:])
        self.frames = (file.seek(0, os.SEEK_END) - HEADER) // self._step

    @property
    def is_headed(self) -> bool:
        """Whether the header is as it was written."""
        return self._sum(self._header[:24], (0, 0)) == self.sums

    def sums_of(self, frame: int) -> Sums:
        """Return the checksums that a frame carries, of itself and all before it."""
        return _sums_in(self._read(self._begin(frame) + 16, 8))

    def is_commit(self, frame: int) -> bool:
        """Whether a transaction ends with a frame."""
        return any(self._read(self._begin(frame) + 4, 4))

    def follow(self, frames: range, before: Sums) -> bool:
        """Whether frames follow one another, the first of them what carries these checksums.

        One large number has a lane of 64 bits for each frame, in which its checksums are added up
        beside those of the others: a quarter of the time that a loop over their words takes.
        """
        data = self._read(self._begin(frames.start), len(frames) * self._step)
        heads = [data[at : at + FRAME] for at in range(0, len(data), self._step)]
        if len(data) < len(frames) * self._step or not all(
            any(head[:4]) and head[8:16] == self.salts for head in heads
        ):
            return False
        sums = [before, *(_sums_in(head[16:]) for head in heads)]
        low = _lanes([MASK] * len(frames))
        one, two = (_lanes(each[:-1]) for each in zip(*sums, strict=True))
        for pair in self._pairs(data):
            one = (one + (pair & low) + two) & low
            two = (two + (pair >> 32 & low) + one) & low
        return [one, two] == [_lanes(each[1:]) for each in zip(*sums, strict=True)]

    def _pairs(self, data: bytes) -> Iterator[int]:
        """Yield what the checksums cover, two words of each frame at a time."""
        if self._order == "big":
            words = array("I", data)
            words.byteswap()
            data = words.tobytes()
        pairs = array("Q", data)
        count = self._step // 8
        for number in (0, *range(FRAME // 8, count)):
            yield int.from_bytes(pairs[number::count].tobytes(), "little")

    def _begin(self, frame: int) -> int:
        return HEADER + frame * self._step

    def _read(self, begin: int, size: int) -> bytes:
        self._file.seek(begin)
        return self._file.read(size)

    def _sum(self, covered: bytes, before: Sums) -> Sums:
        words = array("I", covered)
        if self._order != sys.byteorder:
            words.byteswap()
        one, two = before
        for first, second in zip(words[::2], words[1::2], strict=True):
            one = (one + first + two) & MASK
            two = (two + second + one) & MASK
        return one, two


def require_whole(database: Path) -> None:
    """Raise JournalBroken where damage in the log would hide commits behind it.

    While another connection has the database open its log is in use, and not looked at.
    """
    log = database.with_name(f"{database.name}-wal")
    try:
        before = _state(log)
        if log.stat().st_size <= HEADER or _is_open(database):
            return
        damaged = _first_damaged_of(log)
        if damaged is None or _first_damaged_of(log) != damaged or _state(log) != before:
            return  # the first look may have met a log that another had begun to write
    except FileNotFoundError:
        return
    where = f"in its frame {damaged}" if damaged else "at its beginning"
    raise JournalBroken(
        f"the write-ahead log {log} is damaged {where}: what was written behind that would be lost",
        hint=BACK,
    )


def _first_damaged_of(log: Path) -> int | None:
    with log.open("rb") as file:
        return first_damaged(file)


def _state(log: Path) -> tuple[int, int, int]:
    status = log.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def first_damaged(file: BinaryIO) -> int | None:
    """Return the number of the damaged frame that commits lie behind, None where there is none.

    0: the log's header.
    """
    header = file.read(HEADER)
    if len(header) < HEADER:  # cut since it was looked at
        return None
    magic, _, page = struct.unpack(">III", header[:12])
    if magic in MAGIC and page in PAGES:
        log = Log(file, header, MAGIC[magic], page)
        if log.is_headed:
            return _damaged(log)
    guesses = [Log(file, header, order, PAGE) for order in MAGIC.values()]
    return 0 if any(_has_frames(log) for log in guesses) else None


def _damaged(log: Log) -> int | None:
    before = log.sums
    for begin in range(0, log.frames, AT_ONCE):
        group = range(begin, min(begin + AT_ONCE, log.frames))
        if not log.follow(group, before):
            break
        before = log.sums_of(group[-1])
    else:
        return None
    for frame in group:
        if not log.follow(range(frame, frame + 1), before):
            return frame + 1 if _hides(log, range(frame, log.frames - 1)) else None
        before = log.sums_of(frame)
    return None  # another process writes the log


def _hides(log: Log, frames: Sequence[int]) -> bool:
    """Whether a commit is among the frames that another frame was written behind."""
    return any(log.is_commit(each) and _follows(log, each + 1) for each in frames)


def _has_frames(log: Log) -> bool:
    """Whether frames were written behind a header, which was synced before them."""
    return any(_follows(log, frame) for frame in range(log.frames))


def _follows(log: Log, frame: int) -> bool:
    before = log.sums_of(frame - 1) if frame else log.sums
    return log.follow(range(frame, frame + 1), before)


def _lanes(values: Sequence[int]) -> int:
    """Return a number of 64 bits for each value."""
    return int.from_bytes(struct.pack(f"<{len(values)}Q", *values), "little")


def _sums_in(data: bytes) -> Sums:
    one, two = struct.unpack(">II", data.ljust(8, b"\0"))
    return one, two


def _is_open(database: Path) -> bool:
    """Whether a connection, of this process too, has the database open.

    The shared memory is not opened: closing it would let go of this process's own locks (fcntl(2)).
    """
    shared = database.with_name(f"{database.name}-shm")
    return is_held(shared, byte=OPEN, kinds=("READ", "WRITE"))


__all__ = ["AT_ONCE", "HEADER", "OPEN", "Log", "first_damaged", "require_whole"]
