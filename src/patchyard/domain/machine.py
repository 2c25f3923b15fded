"""What the machine refused (space, rights, descriptors), as an error that names the cure."""

import errno
import os

from patchyard.domain.errors import PatchyardError, Unavailable

ROOM = "free some space (or files, where `df -i` shows none left)"
CURES = {
    errno.ENOSPC: f"{ROOM} and resume; nothing is lost",
    errno.EDQUOT: "free some of your quota and resume; nothing is lost",
    errno.EROFS: "that file system is read-only: set PATCHYARD_HOME and WORKSPACE_DIR elsewhere",
    errno.EACCES: "give this user the right to it, or set PATCHYARD_HOME to a folder of yours",
    errno.EPERM: "give this user the right to it, or set PATCHYARD_HOME to a folder of yours",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
    errno.ENFILE: "raise the limit of open files: sysctl fs.file-max",
    errno.ENOMEM: "free some memory and resume",
    errno.EIO: "look for a failing disk (dmesg); resume when it is well",
}
FILES_OWN = frozenset({errno.EACCES, errno.EPERM})  # more often of one file than of the machine
OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
FREE_SPACE = f"{ROOM}, then do the same again; nothing is lost"
FULL_DISK = ("no space left on device", "disk quota exceeded", "out of diskspace")
ENGINE_ROOM = (
    "free some space where the container engine keeps its data: `docker system df` shows it, and"
    " `docker system prune` returns what no container uses"
)


FAILING_DISK = ("Input/output error", "disk I/O error", "or a failing disk")


UNSYNCED = "unsynced"  # detail of a failure by which writes may be lost


class Unsynced(OSError):
    """The disk did not take what was written: what was not synced before may be lost.

    The kernel tells it once and takes the pages for clean then: a second sync would succeed.
    """


def has_lost_writes(error: BaseException | None) -> bool:
    """Whether an error, or what it was caused by, says that a disk failed to write or to sync."""
    seen: list[BaseException] = []
    found = [error]
    while found:
        one = found.pop()
        if one is None or any(one is other for other in seen):  # an error can be its own cause
            continue
        if isinstance(one, Unsynced) or getattr(one, "errno", None) == errno.EIO:
            return True
        if any(words in str(one) for words in FAILING_DISK):
            return True
        seen.append(one)
        found += [one.__cause__, one.__context__]
    return False


def read_only(home: str) -> Unavailable:
    """Return the error of whatever needs to write into a home that cannot be written to."""
    return Unavailable(
        f"the home {home} is read-only: its plans can be looked at, and nothing can be changed",
        hint="`agents plan list`, `status`, `diff`, `verify` and `export` work; for all else"
        " mount it writable, or set PATCHYARD_HOME to a folder that you can write to",
    )


def is_of_machine(error: OSError) -> bool:
    """Whether the trouble is no single file's: no room, no descriptors, a disk that fails."""
    return error.errno in CURES and error.errno not in FILES_OWN


def is_full_disk(said: str) -> bool:
    """Whether a program that failed says that there was no room left."""
    return any(words in said.lower() for words in FULL_DISK)


def refused_by_machine(error: OSError) -> Unavailable:
    """Return the error that `error` stands for; the cause is in its `__cause__` when raised so."""
    number = error.errno or _number_in(str(error))
    reason = os.strerror(number) if number else str(error)[:300]
    if number == errno.ENOENT and not error.filename:
        reason = error.strerror or reason  # `tempfile` lists the folders that it has tried
    # Of a copy the second name is the one that is written.
    named = (error.filename2 if number in OF_WRITING else None) or error.filename
    place = f"{os.fsdecode(named)}: " if isinstance(named, (str, bytes)) else ""
    return Unavailable(
        f"{place}{reason}",
        hint=CURES.get(number, "`agents doctor` shows what works here"),
        details={"path": os.fsdecode(named)} if place else {},
    )


def refusal_of(error: PatchyardError | OSError) -> PatchyardError:
    """Return `error` as one of ours, with its cause and cure."""
    return refused_by_machine(error) if isinstance(error, OSError) else error


def _number_in(text: str) -> int:
    """Return the number that an error made of several ones speaks of, 0 when it is none of ours."""
    return next((number for number in CURES if os.strerror(number) in text), 0)


__all__ = [
    "CURES",
    "ENGINE_ROOM",
    "FAILING_DISK",
    "FREE_SPACE",
    "FULL_DISK",
    "OF_WRITING",
    "UNSYNCED",
    "Unsynced",
    "has_lost_writes",
    "is_full_disk",
    "is_of_machine",
    "read_only",
    "refusal_of",
    "refused_by_machine",
]
