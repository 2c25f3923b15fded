"""What git reads and writes in a git directory, looked at before git is: none of it may hold it up.

A stranger may have put a named pipe, a socket or a link to a device there, for which git waits
without end, or a file without an end. Opens nothing but plain files.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
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
FOLDERS = ("logs", "objects", "refs", "reftable")  # with files that git opens by many names
HEADS = "worktrees/*/HEAD"  # read to know where a branch is checked out
INCLUDES = r"^include(if\..*)?\.path$"
NULL = os.makedev(1, 3)  # the device that files without content are linked to
MAX_DEPTH = 10  # of files that a configuration includes, as git has it


def require_readable(git: ForeignGit, top: Path, *, home: str) -> None:
    """Raise UsageError naming what lies in the place of a file of git's and is none.

    `top` is the top of a checkout, `home` the user's, to which an included `~/...` belongs. What
    is not there, or closed to this user, is left to git, which says so itself.
    """
    git_dir = _git_dir(top)
    common_dir = _below(git_dir, _text(git_dir / "commondir")) or git_dir
    limits = {git_dir / name: most for name, most in OF_WORK_TREE.items()}
    limits |= {common_dir / name: most for name, most in OF_REPOSITORY.items()}
    limits |= dict.fromkeys(common_dir.glob(HEADS), MAX_TEXT_BYTES)
    for place, most in limits.items():
        _require_file(place, most)
    for folder in dict.fromkeys((git_dir / "logs", *(common_dir / name for name in FOLDERS))):
        for place in _others(folder):
            _require_file(place)
    for config in (common_dir / "config", git_dir / "config.worktree"):
        _require_included(git, config, home, MAX_DEPTH)


def require_plain(place: Path, status: os.stat_result, *, most: int | None = None) -> None:
    """Raise UsageError for what is no file, or has more than `most` bytes."""
    is_index = "index" in place.name
    if not stat.S_ISREG(status.st_mode):
        why = "is no file"
    elif most is not None and status.st_size > most:
        why = f"is larger than any {'index' if is_index else place.name}"
    else:
        return
    raise UsageError(
        f"{place} {why}",
        hint="move it away; `git reset` there makes the index anew"
        if is_index
        else "git would wait for it, or read it without end: look at it and move it away;"
        " `git fsck` there shows what is missing then",
    )


def named_git_dir(content: bytes, top: Path) -> Path | None:
    """Return the git directory that the content of a file `.git` in `top` names."""
    if not content.startswith(LINKED):
        return None
    return _below(top, content.removeprefix(LINKED))


def _git_dir(top: Path) -> Path:
    place = top / ".git"
    if place.is_dir():
        return place
    _require_file(place, MAX_LINK_BYTES)
    return named_git_dir(_text(place), top) or place


def _below(folder: Path, named: bytes) -> Path | None:
    line = os.fsdecode(named.rstrip(b"\r\n"))
    return folder / line if line else None


def _require_file(place: Path, most: int | None = None) -> None:
    try:
        status = place.stat()
    except OSError:
        return
    if status.st_rdev != NULL:
        require_plain(place, status, most=most)


def _text(place: Path) -> bytes:
    """Return the beginning of a plain file, nothing where there is none."""
    try:
        with open(place, "rb", opener=_opened) as file:
            is_plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(MAX_TEXT_BYTES) if is_plain else b""
    except OSError:
        return b""


def _opened(name: str, _flags: int) -> int:
    return os.open(name, OPEN_FILE & ~os.O_NOFOLLOW)


def _others(folder: Path) -> Iterator[Path]:
    """Yield what is below a folder, at any depth, and neither file nor folder; enters no link."""
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        try:
            with os.scandir(at) as listed:
                for entry in listed:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False) and not _leads_to_folder(entry):
                        yield Path(entry.path)
        except OSError:
            continue


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and entry.is_dir()


def _require_included(git: ForeignGit, config: Path, home: str, depth: int) -> None:
    """Look at the files that a configuration includes, whether or not their condition holds."""
    if not depth or not re.search(rb"\[\s*include", _text(config), re.IGNORECASE):
        return
    words = ("config", "--file", str(config), "--no-includes", "-z", "--get-regexp", INCLUDES)
    for row in git.attempt(*words, cwd=Path("/")).out.split(b"\0")[:-1]:
        named = os.fsdecode(row.partition(b"\n")[2])
        if named.startswith("~/"):
            named = home + named[1:]
        place = Path(os.path.realpath(config)).parent / named
        _require_file(place, MAX_TEXT_BYTES)
        _require_included(git, place, home, depth - 1)


__all__ = [
    "MAX_INDEX_BYTES",
    "MAX_LINK_BYTES",
    "named_git_dir",
    "require_plain",
    "require_readable",
]
