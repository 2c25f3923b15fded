"""Leases, members and slots as rows: what claims and the queue both do within a transaction."""

import json
import os
import sqlite3
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from patchyard.clients.boot import boot_id
from patchyard.clients.process import ProcessRef, identify
from patchyard.domain.announcing import Announcement, announcement_of
from patchyard.domain.errors import FencedOff
from patchyard.domain.queue import Errand, Lease, Member, Seat, is_silent
from patchyard.toolbox.wire import loaded

MEMBER = "member, name, boot, namespace, pid, started, beat, since, concurrency, is_draining"
ANNOUNCED = f"{MEMBER}, announced"
SEAT_KINDS = (str, str, int, int, float)  # of boot to beat in a row, as SQLite returns them
NOWHERE = Seat(boot="", namespace="", pid=0, started=0)

Connection = sqlite3.Connection


def require(connection: Connection, lease: Lease) -> None:
    """Raise FencedOff unless `lease` is the one that counts."""
    found = connection.execute(
        "SELECT generation, member FROM leases WHERE job = ?", (lease.job_id,)
    ).fetchone()
    if found != (lease.generation, lease.member_id):
        raise FencedOff(details={"job": lease.job_id, "generation": lease.generation})


def grant(connection: Connection, job_id: str, member_id: str, errand: Errand) -> int:
    """Give the lease of a job to a member and return its generation."""
    (generation,) = connection.execute(
        "INSERT INTO leases (job, generation, member, errand) VALUES (?, 1, ?, ?)"
        " ON CONFLICT (job) DO UPDATE SET generation = generation + 1, member = excluded.member,"
        " errand = CASE WHEN excluded.errand = '' THEN errand ELSE excluded.errand END"
        " RETURNING generation",
        (job_id, member_id, errand),
    ).fetchone()
    return int(generation)


def give_back(connection: Connection, lease: Lease, *, is_done: bool) -> bool:
    """End a lease and free its slots; where its work `is_done` nobody goes on with it.

    Returns False, and changes nothing, when it counts no more.
    """
    ended = connection.execute(
        "UPDATE leases SET member = NULL, errand = CASE WHEN ? THEN '' ELSE errand END"
        " WHERE job = ? AND generation = ? AND member = ?",
        (is_done, lease.job_id, lease.generation, lease.member_id),
    )
    if ended.rowcount == 0:
        return False
    connection.execute("DELETE FROM slots WHERE job = ?", (lease.job_id,))
    return True


def dismiss(connection: Connection, member_id: str) -> bool:
    """Take a member out that owns nothing; return whether it is out."""
    gone = connection.execute(
        "DELETE FROM members WHERE member = ? AND NOT EXISTS"
        " (SELECT 1 FROM leases WHERE leases.member = members.member)",
        (member_id,),
    )
    return gone.rowcount == 1


def enrol(connection: Connection, member: Member) -> None:
    """Enter a member; one that is entered stays as it is."""
    seat = member.seat
    connection.execute(
        f"INSERT OR IGNORE INTO members ({MEMBER}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - ours
        (
            *(member.member_id, member.name, seat.boot, seat.namespace, seat.pid, seat.started),
            *(member.beat, member.since, member.concurrency, member.is_draining),
        ),
    )


def members(
    connection: Connection, where: str = "TRUE", *values: object, columns: str = ANNOUNCED
) -> Sequence[Member]:
    """Return the entered members that `where` selects, living or not, oldest first."""
    rows = connection.execute(
        f"SELECT {columns} FROM members WHERE {where} ORDER BY since, member",  # noqa: S608 - ours
        values,
    ).fetchall()
    return [_member(row) for row in rows]


def _member(row: Sequence[Any]) -> Member:
    """Return the member of a row; one that is damaged is of no seat and silent, and so dead.

    It is buried as others are, so that it hides none of them. A process that lives under it is
    told at its next sign of life, and begins again.
    """
    seat, beat = NOWHERE, float("-inf")
    if tuple(map(type, row[2:7])) == SEAT_KINDS and isfinite(row[6]):
        seat, beat = Seat(boot=row[2], namespace=row[3], pid=row[4], started=row[5]), row[6]
    return Member(
        member_id=row[0],
        name=str(row[1]),
        seat=seat,
        beat=beat,
        since=row[7] if type(row[7]) is float else 0.0,
        concurrency=row[8] if type(row[8]) is int else 0,
        is_draining=bool(row[9]),
        announced=_announced(row[10]),
    )


def _announced(text: str) -> Announcement | None:
    """Return what a worker said of itself; what cannot be read is nothing said."""
    try:
        return announcement_of(loaded(text)) if text else None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def announce(connection: Connection, said: Announcement) -> None:
    """Keep what a member says of itself. Raises FencedOff when it is known no more."""
    kept = connection.execute(
        "UPDATE members SET announced = ? WHERE member = ?",
        (json.dumps(said.data()), said.member_id),
    )
    if kept.rowcount == 0:
        raise FencedOff


def owner_of(connection: Connection, job_id: str) -> Member | None:
    """Return the member that holds the lease of a job, living or not."""
    found = members(connection, "member = (SELECT member FROM leases WHERE job = ?)", job_id)
    return found[0] if found else None


def is_dead(member: Member, here: Seat, now: float) -> bool:
    """Whether a member is silent for too long, or its process has ended."""
    if is_silent(member, now, here.boot):
        return True
    seat = member.seat
    if seat.namespace != here.namespace:
        return False  # its number means another process here, or none
    return not ProcessRef(pid=seat.pid, started=seat.started).is_alive


def seat_here() -> Seat:
    """Return the seat of this very process."""
    own = identify(os.getpid())
    return Seat(
        boot=boot_id(),
        namespace=str(Path("/proc/self/ns/pid").readlink()),
        pid=os.getpid(),
        started=own.started if own else 0,
    )


def bury(connection: Connection, member: Member) -> None:
    """Take from a dead member what it owned. Its jobs wait again, its other plans are orphans."""
    owned = "DELETE FROM slots WHERE job IN (SELECT job FROM leases WHERE member = ?)"
    connection.execute(owned, (member.member_id,))
    connection.execute(
        "UPDATE leases SET errand = '' WHERE member = ? AND job IN (SELECT job FROM jobs)",
        (member.member_id,),
    )
    connection.execute(
        "UPDATE jobs SET member = NULL, deaths = deaths + 1 WHERE member = ?", (member.member_id,)
    )
    connection.execute("UPDATE leases SET member = NULL WHERE member = ?", (member.member_id,))
    connection.execute("DELETE FROM members WHERE member = ?", (member.member_id,))


__all__ = [
    "ANNOUNCED",
    "MEMBER",
    "NOWHERE",
    "SEAT_KINDS",
    "Connection",
    "announce",
    "bury",
    "dismiss",
    "enrol",
    "give_back",
    "grant",
    "is_dead",
    "members",
    "owner_of",
    "require",
    "seat_here",
]
