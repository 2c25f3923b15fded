"""What one hand-over wrote into the user's work tree, so that it takes back that and nothing else.

Kept in a file of the home while the hand-over is not settled: an engine that goes on after a kill
knows what it had written itself. Knows no git and no content.

What is moved in, and what is going to be removed, is on the disk before the first move; each
removal is noted without a sync. A kill loses no note. A power cut may lose notes of removals, so
after one all that was going to be removed counts as removed by this hand-over where it is gone.
"""

import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.boot import boot_id
from patchyard.clients.filesystems import is_same_mount, mount_id
from patchyard.clients.syncing import sync_folder
from patchyard.toolbox.wire import loaded

TOKEN_BYTES = 16
TOKEN = re.compile(rf"[0-9a-f]{{{2 * TOKEN_BYTES}}}")


def new_token() -> str:
    """Return a name that no other hand-over has, of whichever home: of its record and its stage."""
    return os.urandom(TOKEN_BYTES).hex()


def token_of(undo: Mapping[str, Any]) -> str:
    """Return the token in the undo part of a receipt, empty for one of an earlier version."""
    token = str(undo.get("token", ""))
    return token if TOKEN.fullmatch(token) else ""  # it becomes part of a path


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """How a file or link that was moved in is known again; a rename keeps both."""

    inode: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Mark":
        """Return the mark of what lies somewhere."""
        return cls(inode=status.st_ino, mtime_ns=status.st_mtime_ns)


class Moves:
    """The paths that a hand-over put something at or removed something from."""

    def __init__(self, place: Path | None = None, *, is_whole: bool = True) -> None:
        """Read what `place` holds; without one it is kept in memory alone.

        `is_whole` is False for a hand-over that an earlier version began, of which nothing is
        known: all that looks like its work counts as its own then.
        """
        self._place = place
        self._is_whole = is_whole
        self._put: dict[str, Mark] = {}
        self._removed: set[str] = set()
        if place is not None and place.exists():
            with place.open(encoding="ascii", errors="replace") as file:
                for line in file:
                    self._read(line)

    def begins(self, marks: Mapping[str, Mark], *, going: Sequence[str] = ()) -> None:
        """Note what is about to be moved in and what is going to be removed, before the first move.

        It is on the disk then.
        """
        self._put.update(marks)
        if self._place is None:
            return
        if not self._place.parent.is_dir():
            self._place.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(self._place.parent.parent)
        put = ([path, mark.inode, mark.mtime_ns] for path, mark in marks.items())
        removed = [{"going": list(going), **_here(self._place.parent)}] if going else []
        self._write(itertools.chain(put, removed), syncs=True)
        sync_folder(self._place.parent)

    def removes(self, path: str) -> None:
        """Note that a path is about to be removed."""
        self._removed.add(path)
        self._write([[path]])

    def made(self, path: str, status: os.stat_result | None) -> bool:
        """Whether this hand-over put there what has this status; None: removed what was there."""
        if status is None:
            return path in self._removed
        return self._put.get(path) == Mark.of(status)

    def may_have_made(self, path: str, status: os.stat_result | None) -> bool:
        """As `made`; True, too, where nothing is known."""
        return not self._is_whole or self.made(path, status)

    def forget(self) -> None:
        """Delete the record: the hand-over is settled."""
        if self._place is not None:
            self._place.unlink(missing_ok=True)

    def _read(self, line: str) -> None:
        try:
            row = loaded(line)
        except ValueError:  # the end of what a power cut left, or none of ours
            return
        if isinstance(row, dict):
            if self._place is not None and not _is_here(row, self._place.parent):
                self._removed.update(row["going"])
            return
        path, *mark = row
        if mark:
            self._put[path] = Mark(inode=mark[0], mtime_ns=mark[1])
        else:
            self._removed.add(path)

    def _write(self, rows: Iterable[object], *, syncs: bool = False) -> None:
        if self._place is None:
            return
        with self._place.open("a+b") as file:
            size = os.fstat(file.fileno()).st_size
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                file.write(b"\n")  # a row that a power cut or a full disk tore would take the next
            for row in rows:
                file.write(f"{json.dumps(row)}\n".encode("ascii"))
            if syncs:
                file.flush()
                os.fsync(file.fileno())


def _here(folder: Path) -> dict[str, str]:
    """Return how this boot and this mount of a folder are known again."""
    return {"boot": boot_id(), "mount": mount_id(folder)}


def _is_here(row: Mapping[str, Any], folder: Path) -> bool:
    return row["boot"] == boot_id() and is_same_mount(row["mount"], mount_id(folder))


__all__ = ["Mark", "Moves", "new_token", "token_of"]
