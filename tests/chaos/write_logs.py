"""What a disk with a volatile cache holds after its power was cut, made of the log of its writes.

All that was written before the last flush is there. Of what came later each write is there or not,
whole or in some of its sectors: a cache empties itself in any order.
"""

import mmap
import os
import random
import subprocess
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from chaos.logged_file import ENTRY, FLUSH

__all__ = ["Cut", "Disks"]

SECTOR = 512
TORN = 0.3  # of the writes that are there: those of which some sectors are missing


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A write, or a flush, of a log."""

    begin: int  # where in the log
    offset: int  # where on the disk; FLUSH for a flush
    size: int


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What became of the writes that no flush followed."""

    at: int  # so much of the log was written
    unflushed: int  # writes since the last flush
    whole: int  # of them, those that are there
    torn: int  # and those that are there in part


class Disks:
    """Makes disks of an image and the log of what was written to it, for ever later cuts.

    The image follows: it becomes what the last flush before a cut made of it.
    """

    def __init__(self, image: Path, log: Path) -> None:
        self._image = image
        self._log = log
        self._entries = _entries(log.read_bytes())
        self._begins = [each.begin for each in self._entries]
        self._done = 0  # entries that are in the image

    def positions(self, begin: int, end: int) -> Sequence[int]:
        """Return the ends of the writes between two positions of the log, the second included."""
        first, last = bisect_left(self._begins, begin), bisect_left(self._begins, end)
        return [each.begin + ENTRY.size + each.size for each in self._entries[first:last]]

    def eves(self, begin: int, end: int) -> Sequence[int]:
        """Return, of these positions, those right before a flush that writes are waiting for."""
        ends = self.positions(begin, end)
        flushes = {each.begin for each in self._entries if each.offset == FLUSH}
        return [at for before, at in pairwise(ends) if at in flushes and before not in flushes]

    def cut(self, at: int, made: Path, rng: random.Random, *, lying_from: int = -1) -> Cut:
        """Make the disk of a cut at this position of the log; not before the one of the last call.

        With `lying_from` the disk is one that lies: flushes from there on did nothing, and nothing
        of what came later is there.
        """
        is_lying = lying_from >= 0
        stop = bisect_right(self._begins, at - ENTRY.size)
        kept = self._flushed_before(bisect_right(self._begins, lying_from) if is_lying else stop)
        share = 0.0 if is_lying else rng.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        later = [each for each in self._entries[kept:stop] if each.offset != FLUSH]
        there = [each for each in later if rng.random() < share]
        torn = [each for each in there if share < 1 and rng.random() < TORN]
        with self._log.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as log:
            with self._image.open("r+b") as image:
                for entry in self._entries[self._done : kept]:
                    _put(image.fileno(), log, entry)
            self._done = kept
            subprocess.run(["cp", "--sparse=always", self._image, made], check=True)
            with made.open("r+b") as image:
                for entry in there:
                    _put(image.fileno(), log, entry, rng if entry in torn else None)
        return Cut(at=at, unflushed=len(later), whole=len(there) - len(torn), torn=len(torn))

    def _flushed_before(self, end: int) -> int:
        """Return after which entry the last flush before the entry `end` is done."""
        flushes = [n for n in range(self._done, end) if self._entries[n].offset == FLUSH]
        return flushes[-1] + 1 if flushes else self._done


def _entries(log: bytes) -> Sequence[Entry]:
    found: list[Entry] = []
    begin = 0
    while begin + ENTRY.size <= len(log):
        offset, size = ENTRY.unpack_from(log, begin)
        found.append(Entry(begin=begin, offset=offset, size=size))
        begin += ENTRY.size + size
    return found


def _put(image: int, log: mmap.mmap, entry: Entry, rng: random.Random | None = None) -> None:
    """Write an entry to an image; with `rng` some of its sectors only."""
    if entry.offset == FLUSH:
        return
    begin = entry.begin + ENTRY.size
    step = SECTOR if rng is not None else entry.size
    for at in range(0, entry.size, step):
        if rng is None or rng.choice((True, False)):
            end = begin + min(at + step, entry.size)
            os.pwrite(image, log[begin + at : end], entry.offset + at)
