"""One hand-over at a time in a checkout, whichever home it comes from: a lock in its git directory.

The kernel frees the lock when its holder ends. The file names the holder, and goes with the turn.
The git directory may be another user's, who can put a link to elsewhere in its place: it is opened
once for a turn, and the lock is made, given away and deleted in the folder that was opened.
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
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # works where its names cannot be listed, too


class Unlockable(Exception):
    """The git directory takes no lock."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who has the turn, as the lock file says."""

    pid: int
    started: int  # clock ticks since boot, as for ProcessRef
    host: str
    home: str


@dataclass(frozen=True, kw_only=True)
class _Lock:
    """The lock file, and the folder that it was opened in."""

    file: int
    folder: int

    def is_taken(self) -> bool:
        """Take the lock, and say whether this is possible now."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def delete(self) -> None:
        """Delete the file, unless another one has its name by now."""
        with contextlib.suppress(OSError):
            there = os.stat(LOCK, dir_fd=self.folder, follow_symlinks=False)
            if os.path.samestat(os.fstat(self.file), there):
                os.unlink(LOCK, dir_fd=self.folder)

    def close(self) -> None:
        """Let go of the lock."""
        os.close(self.file)
        os.close(self.folder)


@contextlib.asynccontextmanager
async def turn_in(git_dir: Path, *, home: Path, instead: Path) -> AsyncIterator[int | None]:
    """Have the turn in a checkout; yields a descriptor of its git directory for that time.

    It yields None where the git directory takes no lock (it is closed to us, or its file system has
    none): the lock `instead` keeps out those of our home then, and no process of other homes.
    Raises Conflict naming the holder when the turn does not come; a stopped one is not ended, since
    its work lies half done in the checkout.
    """
    place = git_dir / LOCK
    try:
        lock = await _taken(place)
    except Unlockable:
        lock = None
    if lock is None:
        async with locked_patiently(instead):
            yield None
        return
    try:
        _sign(lock.file, home)
        yield lock.folder
    finally:
        lock.delete()
        lock.close()


async def _taken(place: Path) -> _Lock:
    """Wait for the lock. Raises Conflict, and Unlockable where there can be none."""
    began = looked = time.monotonic()
    stopped: float | None = None  # since when its holder is seen to be stopped
    while (lock := _attempt(place)) is None:
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
    return lock


def _attempt(place: Path) -> _Lock | None:
    """Take the lock, None while another has it."""
    while True:
        folder = os.open(place.parent, FOLDER)
        try:
            file = _opened(place, folder)
        except BaseException:
            os.close(folder)
            raise
        if file is None:
            os.close(folder)
            return None
        lock = _Lock(file=file, folder=folder)
        try:
            is_taken = lock.is_taken()
            if is_taken and is_at(file, place):
                return lock
        except OSError as error:
            is_made = _is_ours_unsigned(file)
            if error.errno in UNSUPPORTED:
                if is_made:
                    lock.delete()
                lock.close()
                raise Unlockable from error
            lock.close()
            raise
        if is_taken:  # another file, or another folder, has its place by now
            lock.delete()
        lock.close()
        if not is_taken:
            return None


def _is_ours_unsigned(file: int) -> bool:
    status = os.fstat(file)
    return (status.st_size, status.st_uid) == (0, os.geteuid())


def _opened(place: Path, folder: int) -> int | None:
    """Open the lock file, made when missing; None for one that is closed to us as it is made."""
    try:
        descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | OPENED, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno in OCCUPIED:
            raise _no_lock(place) from error
        if error.errno not in CLOSED:
            raise
    else:
        _require_plain(descriptor, place)
        _share(descriptor, os.fstat(folder))
        return descriptor
    try:
        descriptor = os.open(LOCK, os.O_RDONLY | OPENED, dir_fd=folder)  # another user's
    except FileNotFoundError:
        raise Unlockable from None
    except PermissionError:
        return None
    _require_plain(descriptor, place)
    return descriptor


def _require_plain(descriptor: int, place: Path) -> None:
    """Close what is no file, or has another name too, where its content may be another's work."""
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
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None  # another user may have written anything there
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
