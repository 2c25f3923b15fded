"""What git reads and writes in a git directory, looked at before git is: none of it may hold it up.

A stranger may have put a named pipe, a socket or a link to a device there, for which git waits
without end, or a file without an end. Opens nothing but plain files.
"""

import os
import re
import shutil
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
PREFIX = "%(prefix)/"  # begins paths below the folder that git was installed in
MOST_FILES = 64  # that one configuration includes, and those include, and so on


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
    if is_index:
        hint = "move it away; `git reset` there makes the index anew"
    else:
        hint = "git would wait for it, or read it without end: look at it and move it away"
        if not name.startswith(".git"):  # a file of rules is missed by nothing
            hint += "; `git fsck` there shows what is missing then"
    raise UsageError(f"{place} {why}", hint=hint)


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


def require_included(git: ForeignGit, configs: tuple[Path, ...], home: str) -> None:
    """Look once at each file that configurations include, whether or not its condition holds.

    `home` is the user's, to which an included `~/...` belongs. Raises UsageError naming what is no
    file, or the configuration that leads to more than MOST_FILES.
    """
    for config in configs:
        waiting, seen = [config], {config}
        while waiting:
            at = waiting.pop()
            for place in _included(git, at, home):
                require_file(place, MAX_TEXT_BYTES)
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
            if len(seen) > MOST_FILES:
                raise UsageError(
                    f"{config} includes more than {MOST_FILES} files",
                    hint="look at its `include.path`, and at those of what it includes",
                )


def _included(git: ForeignGit, config: Path, home: str) -> list[Path]:
    """Return the files that one file includes: relative to its name, or to where a link leads."""
    if not re.search(rb"\[\s*include", content_of(config), re.IGNORECASE):
        return []
    words = ("config", "--file", str(config), "--no-includes", "-z", "--get-regexp", INCLUDES)
    rows = git.attempt(*words, cwd=Path("/")).out.split(b"\0")[:-1]
    folders = dict.fromkeys((config.parent, Path(os.path.realpath(config)).parent))
    named = (_expanded(os.fsdecode(row.partition(b"\n")[2]), home) for row in rows)
    places = [folder / path for path in named for folder in folders]
    return [Path(os.path.realpath(place.parent)) / place.name for place in places]


def _expanded(path: str, home: str) -> str:
    """Return a path of a configuration as git reads it (git-config(1), `pathname`)."""
    if path.startswith("~/"):
        return home + path[1:]
    if path.startswith(PREFIX):
        program = Path(os.path.realpath(shutil.which("git") or "/usr/bin/git"))
        return f"{program.parent.parent}/{path.removeprefix(PREFIX)}"
    return os.path.expanduser(path)  # noqa: PTH111 - ~USER; one that is unknown stays as it is


__all__ = [
    "HEADS",
    "MAX_INDEX_BYTES",
    "MAX_LINK_BYTES",
    "MAX_TEXT_BYTES",
    "MOST_FILES",
    "content_of",
    "directories_of",
    "named_git_dir",
    "require_file",
    "require_files",
    "require_included",
    "require_plain",
]
