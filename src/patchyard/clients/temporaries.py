"""What processes that were killed have left half made: known by its name and its owner."""

import asyncio
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchyard.clients.git_files import content_of
from patchyard.clients.removal import GONE, remove_tree, set_aside, size_of
from patchyard.domain.retention import Family, Found

HALF = re.compile(
    r"\.gone-\d+-.+|\.[0-9a-f]+(?:\.git[0-9a-f-]*)?\.new|(?:store|[0-9a-f]+)\.git\.new-\d+"
)
PROBE = re.compile(r"\.probe-\w{8}")  # beside workspaces: whether an overlay can be mounted
COPY = re.compile(r"tmp\w{8}")  # among environments: a copy of the toolbox, a machine's files
OUTSIDE = re.compile(r"patchyard-(?:bench|build|check|git|probe)-\w{8}")  # as `tempfile` names them
OWNED = re.compile(r"patchyard-(?:build|sandbox|ssh)-(\d+)-\w{8}")  # of a process, by its number
DEMO = re.compile(r"patchyard-demo-\w{8}")  # a repository of a home that is named in it
MARK = ".patchyard-home"
SCRATCH = re.compile(r"(\d+)-.+")


class TemporaryKeeper:
    """contracts.leftovers.Keeper over half-made things in folders of ours.

    The home and its folders are ours alone; in `outside`, which all may write to, only what carries
    our name, is a folder of this user and closed to others counts; of demos, those of this home.
    """

    family = Family.TEMPORARY

    def __init__(self, *, home: Path, workspaces: Path, outside: Path) -> None:
        self._home = home
        self._workspaces = workspaces
        self._outside = outside

    async def found(self) -> Sequence[Found]:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(lambda: [*self._found()])

    def _found(self) -> Iterator[Found]:
        scratch = self._home / "scratch"
        for name in _listed(scratch):
            owner = SCRATCH.fullmatch(name)
            if owner is not None:
                yield _one(scratch / name, is_live=_is_there(owner[1]))
        for folder, shape in self._folders():
            for name in _listed(folder):
                if shape.fullmatch(name):
                    yield _one(folder / name, is_live=False)
        for name in _listed(self._outside):
            is_ours = OUTSIDE.fullmatch(name) or (DEMO.fullmatch(name) and self._made(name))
            if is_ours and _is_closed_folder(self._outside / name):
                yield _one(self._outside / name, is_live=False)
            owned = OWNED.fullmatch(name)
            if owned is not None and _is_closed_folder(self._outside / name):
                yield _one(self._outside / name, is_live=_is_there(owned[1]))

    def _folders(self) -> Iterator[tuple[Path, re.Pattern[str]]]:
        """Yield where something is made under another name and then moved, and such names."""
        home = self._home
        yield self._workspaces, PROBE
        shelf = home / "run" / "toolbox"
        yield from ((folder, COPY) for folder in (home / "run", shelf, shelf / "vm"))
        yield from ((folder, HALF) for folder in (shelf, shelf / "vm"))
        yield from ((folder, HALF) for folder in (self._workspaces, home / "trees"))
        yield self._workspaces / ".layers", HALF
        yield from ((home / name, HALF) for name in ("checkpoints", "clones"))
        yield from ((home / "bases" / owner, HALF) for owner in _listed(home / "bases"))
        for key in _listed(home / "trees"):
            yield home / "trees" / key, HALF
            yield home / "trees" / key / "history", HALF

    def _made(self, name: str) -> bool:
        """Whether a demo is of this home."""
        own = os.fsencode(self._home.absolute())  # any user may have put anything there
        return content_of(self._outside / name / MARK, len(own) + 1) == own

    async def size(self, found: Found) -> int:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(size_of, Path(found.place))

    async def give_back(self, found: Found, *, unused_since: float) -> bool:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(_give_back, Path(found.place), unused_since)


def _give_back(place: Path, unused_since: float) -> bool:
    try:
        if _used(place) > unused_since:
            return False
        remove_tree(place if place.name.startswith(GONE) else set_aside(place))
    except FileNotFoundError:
        return True
    return True


def _one(place: Path, *, is_live: bool) -> Found:
    try:
        used = _used(place)
    except FileNotFoundError:
        used = time.time()
    return Found(
        family=Family.TEMPORARY, name=place.name, place=str(place), used=used, is_live=is_live
    )


def _used(place: Path) -> float:
    """Return when it, or something right in it, was last changed; no time of ours can be set."""
    times = [place.lstat().st_ctime]
    if stat.S_ISDIR(place.lstat().st_mode):
        times += [(place / name).lstat().st_ctime for name in _listed(place)]
    return max(times)


def _is_there(pid: str) -> bool:
    return Path("/proc", pid).exists()


def _is_closed_folder(place: Path) -> bool:
    try:
        facts = place.lstat()
    except FileNotFoundError:
        return False
    mine = facts.st_uid == os.geteuid()
    return mine and stat.S_ISDIR(facts.st_mode) and not facts.st_mode & stat.S_IWOTH


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(place.name for place in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def make_sandbox_folder() -> Path:
    """Return a fresh folder that may be passed and not read; of a killed process it is returned."""
    made = Path(tempfile.mkdtemp(prefix=f"patchyard-sandbox-{os.getpid()}-"))
    made.chmod(0o711)
    return made


__all__ = ["MARK", "TemporaryKeeper", "make_sandbox_folder"]
