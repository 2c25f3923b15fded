"""What git opens by many names: refs, logs and objects, looked at before git is.

Links are entered as git enters them, each folder once; stores that lend objects are looked at too.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from patchyard.clients.foreign_git import ForeignGit
from patchyard.clients.git_files import (
    HEADS,
    MAX_TEXT_BYTES,
    content_of,
    directories_of,
    require_file,
    require_files,
    require_included,
)
from patchyard.clients.listings import Listing, Listings, Look
from patchyard.domain.errors import UsageError

TABLES = "reftable/tables.list"
OF_STORE = (
    *("info/alternates", "info/commit-graphs/commit-graph-chain"),
    "pack/multi-pack-index.d/multi-pack-index-chain",
)
"""Files of a store of objects that git reads whole; the others it maps."""
SYMBOLIC = b"ref:"
MAIN = "main-worktree/"  # begins names of the main work tree's refs, gitglossary(7)
NAME_BYTES = 4096  # of a symbolic ref: no path has more
DEEPEST = 6  # symbolic refs that lead to one another; git follows five
PART_OF_NAME = re.compile(r"[~^:?*\[\\\x00-\x20\x7f]|@\{|\.\.")  # ends what may be a ref's name
QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
ESCAPES = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))
MOST_LED = 1_000_000  # entries behind links to folders, and in stores that others lend


def require_readable(
    git: ForeignGit, top: Path, *, home: str, ref: str = "", listings: Listings | None = None
) -> None:
    """Raise UsageError naming what lies in the place of a file of git's and is none.

    `top` is the top of a checkout, `home` the user's, `ref` a name that git is going to resolve,
    `listings` what is remembered of folders. What is not there, or closed to this user, is left to
    git, which says so itself.
    """
    look = (listings or Listings()).look()
    git_dir, common_dir = directories_of(top)
    require_files(git_dir, common_dir)
    require_refs(git_dir, common_dir, look)
    require_named(git_dir, common_dir, ref)
    rest = _Folders(look)
    for folder in dict.fromkeys((git_dir / "logs", common_dir / "logs")):
        rest.require(folder)
    _require_objects(rest, common_dir / "objects")
    require_included(git, (common_dir / "config", git_dir / "config.worktree"), home)


def require_refs(git_dir: Path, common_dir: Path, look: Look) -> None:
    """Raise UsageError for what git would wait for as it reads a ref, a symbolic one's too."""
    both = dict.fromkeys((git_dir, common_dir))
    folders = _Folders(look)
    for place in (git_dir / "HEAD", *common_dir.glob(HEADS)):
        _require_followed(place, git_dir, common_dir)
    for where in both:
        for name in folders.lying_in(where / "refs", with_files=True):
            _require_followed(name, git_dir, common_dir)
        require_file(where / TABLES, MAX_TEXT_BYTES)
        folders.require(where / "reftable")


def require_named(git_dir: Path, common_dir: Path, ref: str) -> None:
    """Raise UsageError for what git would wait for in a git directory as it resolves `ref`.

    Git looks for any name there before it looks among branches and tags (gitrevisions(7)).
    """
    name = PART_OF_NAME.split(ref, maxsplit=1)[0]
    for place in _places(name, git_dir, common_dir):
        _require_followed(place, git_dir, common_dir)


def _places(name: str, git_dir: Path, common_dir: Path) -> Iterator[Path]:
    """Yield where git looks for a ref of that name outside of packed ones."""
    if not name or name.startswith("/") or "\0" in name:
        return
    names = (name, name.removeprefix(MAIN))
    places = (folder / each for folder in (git_dir, common_dir) for each in names)
    for place in dict.fromkeys(places):
        if not os.path.isdir(place):  # noqa: PTH112 - a name that is too long is none
            yield place


def _require_followed(place: str | Path, git_dir: Path, common_dir: Path) -> None:
    """Look at the file of a ref, and at those that it leads to as a symbolic one."""
    waiting = [os.fspath(place)]
    for _ in range(DEEPEST):
        further: list[str] = []
        for at in waiting:
            require_file(at, MAX_TEXT_BYTES)
            said = content_of(at, NAME_BYTES)
            if said.startswith(SYMBOLIC):
                name = os.fsdecode(said.removeprefix(SYMBOLIC).partition(b"\0")[0].strip())
                further += map(os.fspath, _places(name, git_dir, common_dir))
        if not further:
            return
        waiting = further


def _require_objects(folders: "_Folders", store: Path) -> None:
    """Look at a store of objects, and at those it borrows from, each once."""
    folders.require(store)
    waiting = [store]
    known = {os.path.realpath(store)}
    while waiting:
        at = waiting.pop()
        for name in OF_STORE:
            require_file(at / name, MAX_TEXT_BYTES)
        for lender in _lenders(at):
            real = os.path.realpath(lender)
            if real not in known:
                known.add(real)
                folders.require(Path(real), is_led=True)
                waiting.append(Path(real))


def _lenders(store: Path) -> Iterator[Path]:
    """Yield the stores that one names in its alternates (gitrepository-layout(5))."""
    for line in content_of(store / "info" / "alternates").split(b"\n"):
        quoted = QUOTED.match(line)
        named = ESCAPED.sub(_unescaped, quoted[1]) if quoted else line
        named = named.partition(b"\0")[0]
        if named and not line.startswith(b"#"):
            yield Path(os.path.realpath(store), os.fsdecode(named))


def _unescaped(found: re.Match[bytes]) -> bytes:
    said = found[1]
    return bytes([int(said, 8) & 255 if len(said) > 1 else ESCAPES.get(said[0], said[0])])


class _Folders:
    """Folders that were looked at, however many names lead there."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._known: set[tuple[int, int]] = set()  # device and inode
        self._led = 0

    def require(self, folder: Path, *, is_led: bool = False) -> None:
        """Raise UsageError for what is neither file nor folder below a folder, at any depth."""
        for place in self.lying_in(folder, is_led=is_led):
            require_file(Path(place))

    def lying_in(
        self, folder: Path, *, with_files: bool = False, is_led: bool = False
    ) -> Iterator[str]:
        """Yield what is below a folder and neither file nor folder, or no folder.

        Links to folders are entered. Raises UsageError where they lead to more than MOST_LED
        entries, and for a path that is too long to look at.
        """
        waiting = [(os.fspath(folder), is_led)]
        while waiting:
            at, is_led = waiting.pop()
            status = status_of(at)
            if status is None or not self._is_new(status):
                continue
            listing = lying_in(self._look, at, None if with_files else status)
            if is_led:
                self._count(listing.count, folder)
            waiting += [(f"{at}/{name}", is_led) for name in listing.folders]
            if with_files:
                yield from (f"{at}/{name}" for name in (*listing.files, *listing.dotted))
            for name in listing.others:
                place = f"{at}/{name}"
                if os.path.isdir(place):  # noqa: PTH112 - a link; of a name, one of many
                    waiting.append((place, True))
                else:
                    yield place

    def _is_new(self, status: os.stat_result) -> bool:
        key = (status.st_dev, status.st_ino)
        is_new = key not in self._known
        self._known.add(key)
        return is_new

    def _count(self, number: int, folder: Path) -> None:
        self._led += number
        if self._led > MOST_LED:
            raise UsageError(
                f"links in {folder}, or what objects are borrowed from, lead to more than"
                f" {MOST_LED:,} files: git would look for its own among them",
                hint="take those links away; `git fsck` there shows what is missing then",
            )


def status_of(folder: str) -> os.stat_result | None:
    """Return what `stat` says of a folder, None for one that is closed or not there.

    Raises UsageError for a path that is too long to look at.
    """
    try:
        return os.stat(folder)  # noqa: PTH116 - of a name, one of very many
    except OSError as error:
        _require_short(folder, error)
        return None


def lying_in(look: Look, folder: str, status: os.stat_result | None) -> Listing:
    """Return what lies in a folder of that status, nothing for one that is closed or not there.

    Without a status it is listed anew, with its files. Raises UsageError for a path that is too
    long to look at.
    """
    try:
        if status is None:
            return look.anew(folder, with_files=True)
        return look.within(folder, status)
    except OSError as error:
        _require_short(folder, error)
        return Listing()


def _require_short(path: str, error: OSError) -> None:
    """Raise UsageError for a path that we cannot look at by its length, as git may."""
    if error.errno == errno.ENAMETOOLONG:
        raise UsageError(
            f"{path[:200]}… is a path too long to look at", hint="move it away"
        ) from error


__all__ = [
    "MOST_LED",
    "lying_in",
    "require_named",
    "require_readable",
    "require_refs",
    "status_of",
]
