"""Processes of an older version at work in a home, whose database must not change below them.

Found in two ways: by the members that the database names, which are seen from other containers
too, and by who has the database open, which finds commands that own no plan.
"""

import platform
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.locks import holders
from patchyard.domain.errors import StateRefusal
from patchyard.domain.queue import Member
from patchyard.stores import leasing
from patchyard.stores.wal import OPEN

WAIT_S = 3.0  # for commands of an older version, which may be about to end
PAUSE_S = 0.02


@dataclass(frozen=True, kw_only=True)
class OlderProcess:
    """A living process that knows the database as it is, and not as it would become."""

    pid: int
    name: str = ""  # of a worker
    version: str = ""  # of Patchyard; empty: it said none
    is_near: bool = True  # its number is one of this process's namespace

    @property
    def shown(self) -> str:
        """How a message names it."""
        what = f"worker {self.name}, process {self.pid}" if self.name else f"process {self.pid}"
        where = f"on {platform.node()}" if self.is_near else "in another container of this machine"
        return f"{what} {where}, {f'version {self.version}' if self.version else 'older'}"

    def data(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "pid": self.pid,
            "host": platform.node() if self.is_near else None,
            "worker": self.name or None,
            "version": self.version or None,
        }


def require_none(connection: sqlite3.Connection, path: Path, *, version: int, known: int) -> None:
    """Raise StateRefusal while a process lives that knows no schema above `version`.

    A command is waited for a moment; a worker would not end by itself.
    """
    deadline = time.monotonic() + WAIT_S
    while found := alive(connection, path):
        if any(each.name for each in found) or time.monotonic() > deadline:
            raise _refusal(path, found, version, known)
        time.sleep(PAUSE_S)


def _refusal(path: Path, found: Sequence[OlderProcess], version: int, known: int) -> StateRefusal:
    near = " ".join(str(each.pid) for each in found if each.is_near)
    end = f"`kill {near}` ends it" if near else "end it in its container"
    return StateRefusal(
        f"{path.parent} is a home of an older Patchyard (schema {version} of its database, here"
        f" {known}), and an older process works in it: {'; '.join(each.shown for each in found)}",
        hint=f"{end}: a worker first brings its plans to where another goes on. Then begin again;"
        " nothing was changed. Until then use the version that it is of",
        details={
            "processes": [each.data() for each in found],
            "schema": version,
            "known": known,
        },
    )


def alive(connection: sqlite3.Connection, path: Path) -> Sequence[OlderProcess]:
    """Return the other processes that live in this home."""
    here = leasing.seat_here()
    found: dict[tuple[str, int], OlderProcess] = {}
    for member in _members(connection):
        seat = member.seat
        if seat != here and not leasing.is_dead(member, here, time.monotonic()):
            found[seat.namespace, seat.pid] = OlderProcess(
                pid=seat.pid,
                name=member.name if member.is_worker else "",
                version=member.announced.skills.version if member.announced else "",
                is_near=seat.namespace == here.namespace,
            )
    shared = path.with_name(f"{path.name}-shm")
    for pid in holders(shared, byte=OPEN, kinds=("READ", "WRITE")):
        if pid != here.pid:
            found.setdefault((here.namespace, pid), OlderProcess(pid=pid))
    return list(found.values())


def _members(connection: sqlite3.Connection) -> Sequence[Member]:
    """Return the members that a database of any version names."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(members)")}
    if not columns:
        return ()
    wanted = leasing.ANNOUNCED if "announced" in columns else f"{leasing.MEMBER}, ''"
    return leasing.members(connection, columns=wanted)


__all__ = ["OlderProcess", "alive", "require_none"]
