"""One hand-over at a time in a checkout, whichever home it comes from: a lock in its git directory.

The kernel frees the lock when its holder ends. The file names the holder, and goes with the turn.
The git directory may be another user's, who can put a link to elsewhere in its place: it is opened
once for a turn, and the lock is made, given away and deleted in the folder that was opened. That
user can move any file to the place of the lock, too: only a file that was made for the turn is
written to or given away, and only a file that reads as the lock of an ended turn is replaced.
"""

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import platform
import re
import shlex
import stat
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

from patchyard.clients.locks import LOOK_S, PAUSE_S, holders, is_at, locked_patiently
from patchyard.clients.process import ProcessRef, identify, read_stat
from patchyard.domain.errors import Conflict, StateRefusal
from patchyard.toolbox.wire import loaded

LOCK = "patchyard.lock"
STOPPED_S = 10.0  # how long a holder that is stopped is waited for
BUSY_S = 600.0  # how long a holder at work is waited for
STOPPED = "Tt"  # states of a process that waits for SIGCONT or its tracer, proc(5)
MAX_NOTE_BYTES = 16 * 1024
MOVES = 100  # how often what lies there may change before the next pause
NOTE = re.compile(rb'\{"pid": \d+, "started": \d+, "host": ".*", "home": ".*"\}')
CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
OCCUPIED = (errno.EISDIR, errno.ELOOP, errno.ENXIO)  # a folder, a link, a socket lies there
#: What flock(2) says on file systems that lock nothing, or no file that is open for reading.
UNSUPPORTED = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
MADE = os.O_CREAT | os.O_EXCL
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
    is_new: bool  # whether this process made it

    def is_taken(self) -> bool:
        """Take the lock, and say whether this is possible now. Raises Unlockable."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            if self.is_new:
                self.delete()
            raise Unlockable from error
        return True

    def is_settled(self, place: Path) -> bool:
        """Whether the taken lock can be kept; one that was left is deleted for a new one.

        One that cannot be deleted is kept as it is. Raises StateRefusal for what is no lock.
        """
        if not is_at(self.file, place):  # another file, or another folder, has its place by now
            if self.is_new:
                self.delete()
            return False
        if self.is_new:
            return True
        if not self._is_left():
            raise _no_lock(place)
        return not self.delete()

    def _is_left(self) -> bool:
        """Whether the file is one that a turn left behind: a note, or an empty file of ours."""
        status = os.fstat(self.file)
        if not status.st_size:
            return status.st_uid in (os.geteuid(), os.fstat(self.folder).st_uid)
        if status.st_size > MAX_NOTE_BYTES:
            return False
        with contextlib.suppress(OSError):  # the time of the last reading stays, where we may
            fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_NOATIME)
        return NOTE.fullmatch(os.pread(self.file, MAX_NOTE_BYTES, 0)) is not None

    def delete(self) -> bool:
        """Delete the file, unless another has its name by now; False where it is kept from us."""
        try:
            there = os.stat(LOCK, dir_fd=self.folder, follow_symlinks=False)
            if os.path.samestat(os.fstat(self.file), there):
                os.unlink(LOCK, dir_fd=self.folder)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

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
        if lock.is_new:
            _sign(lock.file, home)
            _share(lock.file, os.fstat(lock.folder))
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
    for _ in range(MOVES):
        lock = _opened(place)
        if lock is None:
            return None
        with contextlib.ExitStack() as closing:
            closing.callback(lock.close)
            if not lock.is_taken():
                return None
            if lock.is_settled(place):
                closing.pop_all()
                return lock
    return None


def _opened(place: Path) -> _Lock | None:
    """Open the lock file, made when missing; None for one that is closed to us or goes just now."""
    folder = os.open(place.parent, FOLDER)
    with contextlib.ExitStack() as closing:
        closing.callback(os.close, folder)
        is_new = True
        try:
            file = os.open(LOCK, os.O_RDWR | MADE | OPENED, 0o600, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, *CLOSED):
                raise
            is_new = False
            try:
                file = _found(place, folder)
            except FileNotFoundError:
                if error.errno in CLOSED:
                    raise Unlockable from None
                return None
            except PermissionError:
                return None
        closing.pop_all()
    return _Lock(file=file, folder=folder, is_new=is_new)


def _found(place: Path, folder: int) -> int:
    """Open what lies in the place of the lock; for writing where NFS locks nothing else."""
    try:
        try:
            descriptor = os.open(LOCK, os.O_RDWR | OPENED, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ETXTBSY, *CLOSED):
                raise
            descriptor = os.open(LOCK, os.O_RDONLY | OPENED, dir_fd=folder)
    except OSError as error:
        if error.errno in OCCUPIED:
            raise _no_lock(place) from error
        raise
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
        f"{place} is no lock file of Patchyard's, nothing was changed: it is a link, a folder,"
        " or another file that was put there",
        hint=f"look at it, and move it away: mv {shlex.quote(str(place))} ELSEWHERE",
        details={"place": str(place)},
    )


def _share(descriptor: int, folder: os.stat_result) -> None:
    """Let those open the new file who may enter the folder, and leave it to the folder's owner."""
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, folder.st_mode & 0o666)
        if os.geteuid() == 0:
            os.fchown(descriptor, folder.st_uid, folder.st_gid)


def _sign(descriptor: int, home: Path) -> None:
    """Say in the new lock file who has it."""
    own = identify(os.getpid())
    started = 0 if own is None else own.started
    holder = Holder(pid=os.getpid(), started=started, host=platform.node(), home=os.fspath(home))
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode("ascii"), 0)


def _holder(place: Path) -> Holder | None:
    """Return who has signed the lock and still runs, as far as that can be seen from here."""
    try:
        with open(place, "rb", opener=lambda path, _: os.open(path, OPENED)) as file:
            row = loaded(file.read(MAX_NOTE_BYTES))
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
