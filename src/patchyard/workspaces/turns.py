"""One hand-over at a time in a checkout, whichever home it comes from: a lock in its git directory.

The kernel frees the lock when its holder ends. The file names the holder, and goes with the turn.
"""

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import platform
import shlex
import stat
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

from patchyard.clients.locks import LOOK_S, PAUSE_S, holders, is_at, locked_patiently
from patchyard.clients.process import ProcessRef, identify, read_stat
from patchyard.domain.errors import Conflict, StateRefusal

LOCK = "patchyard.lock"
STOPPED_S = 10.0  # how long a holder that is stopped is waited for
BUSY_S = 600.0  # how long a holder at work is waited for
STOPPED = "Tt"  # states of a process that waits for SIGCONT or its tracer, proc(5)
MAX_NOTE_BYTES = 16 * 1024
CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
OCCUPIED = (errno.EISDIR, errno.ELOOP, errno.ENXIO)  # a folder, a link, a socket lies there
#: What flock(2) says on file systems that lock nothing, or no file that is open for reading.
UNSUPPORTED = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
OPENED = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Unlockable(Exception):
    """The git directory takes no lock."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who has the turn, as the lock file says."""

    pid: int
    started: int  # clock ticks since boot, as for ProcessRef
    host: str
    home: str


@contextlib.asynccontextmanager
async def turn_in(git_dir: Path, *, home: Path, instead: Path) -> AsyncIterator[bool]:
    """Have the turn in a checkout; yields whether processes of other homes are kept out.

    Where the git directory takes no lock (it is closed to us, or its file system has none), the
    lock `instead` keeps out those of our home. Raises Conflict naming the holder when the turn
    does not come; a stopped one is not ended, since its work lies half done in the checkout.
    """
    place = git_dir / LOCK
    try:
        descriptor = await _taken(place)
    except Unlockable:
        descriptor = None
    if descriptor is None:
        async with locked_patiently(instead):
            yield False
        return
    try:
        _sign(descriptor, home)
        yield True
    finally:
        with contextlib.suppress(OSError):
            place.unlink()
        os.close(descriptor)


async def _taken(place: Path) -> int:
    """Wait for the lock. Raises Conflict, and Unlockable where there can be none."""
    began = looked = time.monotonic()
    stopped: float | None = None  # since when its holder is seen to be stopped
    while (descriptor := _attempt(place)) is None:
        now = time.monotonic()
        if now - looked >= LOOK_S or looked == began:
            looked = now
            holder = _holder(place)
            is_stopped = holder is not None and _is_stopped(holder)
            stopped = (stopped or now) if is_stopped else None
            over = now - began > BUSY_S or (stopped is not None and now - stopped >= STOPPED_S)
            if over:
                raise _occupied(place, holder, is_stopped=is_stopped)
        await asyncio.sleep(PAUSE_S)
    return descriptor


def _attempt(place: Path) -> int | None:
    """Take the lock and return its descriptor, None while another has it."""
    while True:
        descriptor = _opened(place)
        if descriptor is None:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(descriptor, place):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                os.close(descriptor)
                raise
            _clear(descriptor, place)
            raise Unlockable from error
        os.close(descriptor)


def _clear(descriptor: int, place: Path) -> None:
    """Close a file that takes no lock, and delete it where it is ours and unsigned."""
    status = os.fstat(descriptor)
    os.close(descriptor)
    if (status.st_size, status.st_uid) == (0, os.geteuid()):
        place.unlink(missing_ok=True)


def _opened(place: Path) -> int | None:
    """Open the lock file, made when missing; None for one that is closed to us as it is made."""
    folder = place.parent.stat()
    try:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | OPENED, 0o600)
    except OSError as error:
        if error.errno in OCCUPIED:
            raise _no_lock(place) from error
        if error.errno not in CLOSED:
            raise
    else:
        _require_plain(descriptor, place)
        _share(descriptor, folder)
        return descriptor
    try:
        descriptor = os.open(place, os.O_RDONLY | OPENED)  # another user's
    except FileNotFoundError:
        raise Unlockable from None
    except PermissionError:
        return None
    _require_plain(descriptor, place)
    return descriptor


def _require_plain(descriptor: int, place: Path) -> None:
    """Close what is no file, or has another name too, where its content may be somebody's work."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise _no_lock(place)


def _no_lock(place: Path) -> StateRefusal:
    return StateRefusal(
        f"{place} is no lock file of Patchyard's, nothing was changed: it is a link, a folder or"
        " something else",
        hint=f"look at it, and move it away: mv {shlex.quote(str(place))} ELSEWHERE",
        details={"place": str(place)},
    )


def _share(descriptor: int, folder: os.stat_result) -> None:
    """Let those open the file who may enter the folder, and leave it to the folder's owner."""
    status = os.fstat(descriptor)
    bits = folder.st_mode & 0o666
    with contextlib.suppress(OSError):
        if status.st_mode & 0o777 != bits and status.st_uid == os.geteuid():
            os.fchmod(descriptor, bits)
        if os.geteuid() == 0 and status.st_uid != folder.st_uid:
            os.fchown(descriptor, folder.st_uid, folder.st_gid)


def _sign(descriptor: int, home: Path) -> None:
    """Say in the lock file who has it; one of another user's stays unsigned."""
    own = identify(os.getpid())
    started = 0 if own is None else own.started
    holder = Holder(pid=os.getpid(), started=started, host=platform.node(), home=os.fspath(home))
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode("ascii"), 0)


def _holder(place: Path) -> Holder | None:
    """Return who has signed the lock and still runs, as far as that can be seen from here."""
    try:
        with open(place, "rb", opener=lambda path, _: os.open(path, OPENED)) as file:
            row = json.loads(file.read(MAX_NOTE_BYTES))
        found = Holder(
            pid=int(row["pid"]),
            started=int(row["started"]),
            host=str(row["host"]),
            home=str(row["home"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
    is_far = found.host != platform.node()
    is_there = ProcessRef(pid=found.pid, started=found.started).is_alive
    return found if is_far or is_there else None


def _is_stopped(holder: Holder) -> bool:
    stat = read_stat(holder.pid) if holder.host == platform.node() else None
    return stat is not None and stat.started == holder.started and stat.state in STOPPED


def _occupied(place: Path, holder: Holder | None, *, is_stopped: bool) -> Conflict:
    why = "another apply or unapply is at work there"
    if holder is None:
        pids = holders(place)
        who = f"process {pids[0]}" if pids else "a process that cannot be seen from here"
        return Conflict(
            f"{place} is held by {who}, nothing was changed: {why}",
            hint="wait for it, then say the same again",
            details={"pid": pids[0] if pids else None, "home": None},
        )
    where = "" if holder.host == platform.node() else f" on {holder.host}"
    state = ", which is stopped" if is_stopped else ""
    going_on = (
        f"`kill -CONT {holder.pid}` lets it go on; or end it with `kill -9 {holder.pid}` and finish"
        f" its plan: `PATCHYARD_HOME={shlex.quote(holder.home)} agents plan resume`"
    )
    return Conflict(
        f"{place} is held by process {holder.pid}{where} of the home {holder.home}{state};"
        f" nothing was changed: {why}",
        hint=going_on if is_stopped else "wait for it, then say the same again",
        details={"pid": holder.pid, "home": holder.home, "is_stopped": is_stopped},
    )


__all__ = ["BUSY_S", "LOCK", "STOPPED_S", "Holder", "Unlockable", "turn_in"]
