"""The top of a checkout, held open while it is written to.

A folder above it may be another user's, who can put another folder or a link in its place: all
that is written goes by a descriptor, after a look whether its `.git` is the known git directory.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patchyard.clients.git_files import MAX_LINK_BYTES, named_git_dir
from patchyard.clients.reader import OPEN_FILE, OPEN_FOLDER
from patchyard.domain.errors import Conflict


@contextmanager
def held_top(top: Path, git_dir: Path) -> Iterator[Path]:
    """Yield `top` as a path by its descriptor. Raises Conflict where it is another checkout's."""
    at = os.open(top, OPEN_FOLDER & ~os.O_NOFOLLOW)
    try:
        if not _belongs(at, git_dir):
            raise Conflict(
                f"{top} was replaced while it was worked on, nothing was changed: it is not the"
                f" work tree of {git_dir}",
                hint=f"look at {top} and the folders above it, then say the same again",
                details={"top": str(top), "git_dir": str(git_dir)},
            )
        yield Path(f"/proc/self/fd/{at}")
    finally:
        os.close(at)


def _belongs(top: int, git_dir: Path) -> bool:
    """Whether `.git` in the folder is, or names, the git directory."""
    try:
        status = os.stat(".git", dir_fd=top)
        if stat.S_ISDIR(status.st_mode):
            return os.path.samestat(status, git_dir.stat())
        return stat.S_ISREG(status.st_mode) and _named(top) == git_dir.resolve()
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return False
        raise


def _named(top: int) -> Path | None:
    """Return the git directory that the file `.git` names."""
    with open(".git", "rb", opener=lambda name, _: _opened(name, top)) as file:
        said = file.read(MAX_LINK_BYTES)
    named = named_git_dir(said, Path(f"/proc/self/fd/{top}"))
    return None if named is None else named.resolve()


def _opened(name: str, top: int) -> int:
    return os.open(name, OPEN_FILE & ~os.O_NOFOLLOW, dir_fd=top)


__all__ = ["held_top"]
