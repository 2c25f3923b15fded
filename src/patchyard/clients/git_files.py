"""What git reads and writes in a git directory, looked at before git is: none of it may hold it up.

A stranger may have put a named pipe, a socket or a link to a device there, for which git waits
without end, or a file without an end. Opens nothing but plain files.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from patchyard.clients.foreign_git import ForeignGit
from patchyard.clients.reader import OPEN_FILE
from patchyard.domain.errors import UsageError

LINKED = b"gitdir: "  # begins the file `.git` of linked work trees, gitrepository-layout(5)
MAX_LINK_BYTES = 8192
MAX_INDEX_BYTES = 4 * 1024**3  # about thirty million files
MAX_TEXT_BYTES = 16 * 1024**2
OF_WORK_TREE: Mapping[str, int] = {
    "HEAD": MAX_TEXT_BYTES,
    "commondir": MAX_TEXT_BYTES,
    "config.worktree": MAX_TEXT_BYTES,
    "index": MAX_INDEX_BYTES,
}
"""Files that each work tree has of its own, with the most bytes that are read of them."""
OF_REPOSITORY: Mapping[str, int] = {
    "HEAD": MAX_TEXT_BYTES,
    "config": MAX_TEXT_BYTES,
    "info/attributes": MAX_TEXT_BYTES,
    "info/exclude": MAX_TEXT_BYTES,
    "info/grafts": MAX_TEXT_BYTES,
    "packed-refs": MAX_INDEX_BYTES,
    "shallow": MAX_TEXT_BYTES,
}
"""Files that all work trees share, likewise."""
PARTS = "sharedindex.*"  # of an index, beside it
HEADS = "worktrees/*/HEAD"  # read to know where a branch is checked out
INCLUDES = r"^include(if\..*)?\.path$"
NULL = os.makedev(1, 3)  # the device that files without content are linked to
MAX_DEPTH = 10  # of files that a configuration includes, as git has it


def require_files(git_dir: Path, common_dir: Path) -> None:
    """Raise UsageError naming what lies in the place of a file that git opens by one name."""
    limits = {git_dir / name: most for name, most in OF_WORK_TREE.items()}
    limits |= {common_dir / name: most for name, most in OF_REPOSITORY.items()}
    limits |= dict.fromkeys(git_dir.glob(PARTS), MAX_INDEX_BYTES)
    limits |= dict.fromkeys(common_dir.glob(HEADS), MAX_TEXT_BYTES)
    for place, most in limits.items():
        require_file(place, most)


def require_plain(place: str | Path, status: os.stat_result, *, most: int | None = None) -> None:
    """Raise UsageError for what is no file, or has more than `most` bytes."""
    is_plain = stat.S_ISREG(status.st_mode)
    if is_plain and (most is None or status.st_size <= most):
        return
    name = Path(place).name
    is_index = "index" in name
    why = f"is larger than any {'index' if is_index else name}" if is_plain else "is no file"
    raise UsageError(
        f"{place} {why}",
        hint="move it away; `git reset` there makes the index anew"
        if is_index
        else "git would wait for it, or read it without end: look at it and move it away;"
        " `git fsck` there shows what is missing then",
    )


def require_file(place: str | Path, most: int | None = None) -> None:
    """Raise UsageError for what is no file behind its links, or has more than `most` bytes.

    What is not there, or cannot be looked at, is left to git.
    """
    try:
        status = os.stat(place)  # noqa: PTH116 - of a name, of which there may be very many
    except OSError:
        return
    if status.st_rdev != NULL:
        require_plain(place, status, most=most)


def directories_of(top: Path) -> tuple[Path, Path]:
    """Return the git directory of the checkout at `top`, and the one it shares with others.

    Raises UsageError where a file that names one of them is none.
    """
    git_dir = _git_dir(top)
    require_file(git_dir / "commondir", MAX_TEXT_BYTES)
    return git_dir, _below(git_dir, content_of(git_dir / "commondir")) or git_dir


def named_git_dir(content: bytes, top: Path) -> Path | None:
    """Return the git directory that the content of a file `.git` in `top` names."""
    if not content.startswith(LINKED):
        return None
    return _below(top, content.removeprefix(LINKED))


def _git_dir(top: Path) -> Path:
    place = top / ".git"
    if place.is_dir():
        return place
    require_file(place, MAX_LINK_BYTES)
    return named_git_dir(content_of(place), top) or place


def _below(folder: Path, named: bytes) -> Path | None:
    line = os.fsdecode(named.partition(b"\0")[0].rstrip(b"\r\n"))
    return folder / line if line else None


def content_of(place: str | Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """Return the first `most` bytes of a plain file, nothing where there is none."""
    try:
        descriptor = os.open(place, OPEN_FILE & ~os.O_NOFOLLOW)
        try:
            status = os.fstat(descriptor)
            is_plain = stat.S_ISREG(status.st_mode)
            return os.read(descriptor, min(most, status.st_size)) if is_plain else b""
        finally:
            os.close(descriptor)
    except OSError:
        return b""


def require_included(git: ForeignGit, config: Path, home: str, depth: int = MAX_DEPTH) -> None:
    """Look at the files that a configuration includes, whether or not their condition holds."""
    if not depth or not re.search(rb"\[\s*include", content_of(config), re.IGNORECASE):
        return
    words = ("config", "--file", str(config), "--no-includes", "-z", "--get-regexp", INCLUDES)
    for row in git.attempt(*words, cwd=Path("/")).out.split(b"\0")[:-1]:
        named = os.fsdecode(row.partition(b"\n")[2])
        if named.startswith("~/"):
            named = home + named[1:]
        place = Path(os.path.realpath(config)).parent / named
        require_file(place, MAX_TEXT_BYTES)
        require_included(git, place, home, depth - 1)


__all__ = [
    "MAX_INDEX_BYTES",
    "MAX_LINK_BYTES",
    "MAX_TEXT_BYTES",
    "content_of",
    "directories_of",
    "named_git_dir",
    "require_file",
    "require_files",
    "require_included",
    "require_plain",
]
