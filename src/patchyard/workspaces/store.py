"""Our own git directories for a repository: the store of trees, and a history for each commit.

A history holds what one commit reaches and nothing else, so that it can be shown to an agent. The
store borrows from the histories. Objects are always copied out of the user's repository.
"""

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO

from patchyard.clients.foreign_git import ITS_OWN, ForeignGit, stand_in
from patchyard.clients.git import STREAMING, Git, text
from patchyard.clients.locks import locked
from patchyard.clients.shelves import Shelf
from patchyard.clients.syncing import put_in_place
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.workspaces.recollection import Recollection
from patchyard.workspaces.source import Source

RAW_BYTES = "* -text !eol -ident -filter !working-tree-encoding -export-ignore -export-subst\n"
"""What git does with a tree of ours, whatever the repository's own attributes ask for."""
DAMAGED = "damaged-"  # begins the names of folders with stores that were replaced
UPLOADING = " ".join(
    ("git", *(f"-c {key}={value}" for key, value in STREAMING.items()), "upload-pack")
)
MAX_BORROWED = 16  # a history that borrows from more is fetched whole
PIECE_BYTES = 256 * 1024  # of output in a file, read at once


class Store:
    """The folder of one repository under the home."""

    def __init__(
        self, git: Git, folder: Path, source: Source, *, recollection: Recollection | None = None
    ) -> None:
        """Take `folder` as the place; nothing is made yet.

        `recollection` is what is known of the checkout from earlier looks.
        """
        self.recollection = recollection or Recollection()
        self.folder = folder
        self.source = source
        self.git_dir = folder / "store.git"
        config = folder / "gitconfig"
        with store_shelf(folder.parent).using(folder.name):
            if not config.exists():
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(config, _own_config(source))
        self.user_git = ForeignGit(home=git.home, config=config, known=ITS_OWN)
        self.git = Git(home=git.home, config=config, git_dir=self.git_dir)

    def stand_in(self) -> AbstractContextManager[ForeignGit]:
        """Open the user's repository under a configuration of ours; see clients.foreign_git."""
        return stand_in(self.source, self.git.home.parent)

    def making(self) -> AbstractContextManager[None]:
        """Keep all others from putting a store or a history in its place. Raises Conflict."""
        return locked(self.folder / "lock")

    def ensure(self) -> None:
        """Make the store when it is not there."""
        with suppress(FileNotFoundError):  # it is exchanged just now
            if self.git_dir.exists():
                self._have_raw_bytes()
                return
        with self.making():
            if self.git_dir.exists():
                return
            made = _temporary(self.git_dir)
            init(self.git, made, self.source.object_format)
            (made / "info").mkdir(exist_ok=True)
            (made / "info" / "attributes").write_text(RAW_BYTES)
            self.borrow(made)
            put_in_place(made, self.git_dir)

    def _have_raw_bytes(self) -> None:
        """Write the rule anew in a store that an earlier version made, or that lost it."""
        rules = self.git_dir / "info" / "attributes"
        if not rules.exists() or rules.read_text() != RAW_BYTES:
            rules.parent.mkdir(exist_ok=True)
            write_whole(rules, RAW_BYTES)

    @property
    def like(self) -> str:
        """An object id of the kind this repository uses, for its length."""
        return "0" * (40 if self.source.object_format == "sha1" else 64)

    def keep(self, content: bytes) -> str:
        """Store one blob as it is and return its id."""
        self.ensure()
        return text(self.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=content))

    def history_place(self, commit: str) -> Path:
        """Return where the history of `commit` lies once it is made."""
        return self.folder / "history" / f"{commit}.git"

    def history(self, commit: str) -> Path:
        """Return the git directory that holds the history of `commit`; made once."""
        place = self.history_place(commit)
        if place.exists():
            return place
        self.ensure()
        with self.making():
            if not place.exists():
                self._fetch(commit, place)
                self.borrow(self.git_dir)
        return place

    def _fetch(self, commit: str, place: Path) -> None:
        place.parent.mkdir(exist_ok=True)
        made = _temporary(place)
        init(self.git, made, self.source.object_format)
        lenders = [] if self.source.is_shallow else self._lenders(commit, place.parent)
        if lenders:
            _write_alternates(made, lenders)
        fetching = self.git.streaming().at(made, extra={"GIT_ALLOW_PROTOCOL": "file"})
        with self.stand_in() as user:
            done = fetching.attempt(
                "fetch", "--quiet", "--no-tags", "--update-shallow", "--no-write-fetch-head",
                f"--upload-pack={UPLOADING}",
                "--end-of-options", str(user.home), f"+{commit}:refs/heads/base",
            )  # fmt: skip
        if done.code != 0:
            shutil.rmtree(made)
            raise UsageError(
                f"the history of {self.source.top} cannot be read: {_last_line(done.err)}",
                hint="git fsck there shows what is missing; a partial clone needs"
                " `git fetch --refetch --no-filter` first",
                details={"stderr": done.err},
            )
        put_in_place(made, place)

    def _lenders(self, commit: str, folder: Path) -> list[Path]:
        known = sorted(folder.glob("*.git"), key=os.path.getmtime, reverse=True)
        with self.stand_in() as user:
            for place in known[:8]:
                borrowed = alternates_of(place)
                if len(borrowed) >= MAX_BORROWED or (place / "shallow").exists():
                    continue
                done = user.attempt("merge-base", "--is-ancestor", place.stem, commit)
                if done.code == 0:
                    return [place / "objects", *borrowed]
        return []

    def borrow(self, git_dir: Path) -> None:
        """Let a store see every history there is, and what can still be read of damaged ones."""
        histories = sorted((self.folder / "history").glob("*.git/objects"))
        damaged = sorted(self.folder.glob(f"{DAMAGED}*/*.git/objects"))
        if git_dir.is_dir():
            _write_alternates(git_dir, [*histories, *damaged])


def store_shelf(folder: Path) -> Shelf:
    """Return the stores of one home, by repository."""
    return Shelf(folder, str(folder.parent))


def _own_config(source: Source) -> str:
    places = dict.fromkeys((source.top, source.git_dir, source.common_dir))
    lines = "".join(f"\tdirectory = {_quoted(str(place))}\n" for place in places)
    return f"[safe]\n{lines}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _temporary(place: Path) -> Path:
    """Return a fresh name beside `place`; what a killed process left under such is deleted."""
    for old in place.parent.glob(f"{place.name}.new-*"):
        shutil.rmtree(old)
    return place.with_name(f"{place.name}.new-{os.getpid()}")


def _last_line(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[-1] if lines else "no reason given"


def _write_alternates(git_dir: Path, lenders: list[Path]) -> None:
    lines = [os.fsencode(lender) for lender in lenders]
    if any(b"\n" in line for line in lines):
        raise UsageError("the home's path holds a newline", hint="choose another PATCHYARD_HOME")
    content = b"".join(line + b"\n" for line in lines)
    write_whole(git_dir / "objects" / "info" / "alternates", os.fsdecode(content))


def alternates_of(git_dir: Path) -> list[Path]:
    """Return the object folders that `git_dir` borrows from."""
    listed = git_dir / "objects" / "info" / "alternates"
    if not listed.exists():
        return []
    return [Path(os.fsdecode(line)) for line in listed.read_bytes().splitlines() if line]


def init(git: Git, place: Path, object_format: str) -> None:
    """Make an empty bare repository without hooks or templates."""
    git.at().run(
        "init", "--quiet", "--bare", "--template=", f"--object-format={object_format}",
        "--initial-branch=base", "--", str(place),
    )  # fmt: skip
    (place / "objects" / "info").mkdir(exist_ok=True)


def write_whole(path: Path, content: str) -> None:
    """Write a file so that a reader, and a later boot, sees the old content or the new."""
    made = path.with_name(f"{path.name}.new-{threading.get_native_id()}")  # threads write at once
    with made.open("wb") as file:
        file.write(os.fsencode(content))
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)


def parts(output: bytes) -> Iterator[str]:
    """Yield the NUL-terminated parts of git's output, bytes kept by surrogateescape."""
    return map(os.fsdecode, filter(None, fields(output)))


def following(fields: Iterator[str]) -> str:
    """Return the next part of an entry that has begun.

    Raises WorkFailed where there is none. A StopIteration would be lost on its way out of a thread,
    and what waits for the thread would wait without end.
    """
    for part in fields:
        return part
    raise WorkFailed("what git said ends in the middle of an entry", hint="run it again")


def listed_entries(output: bytes) -> dict[str, tuple[str, str]]:
    """Return mode and blob by path of what `ls-tree -r -z` wrote; neighbours share equal ones."""
    known, before = dict[str, tuple[str, str]](), ("", "")
    for part in parts(output):
        head, _, path = part.partition("\t")
        mode, _, blob = head.split(" ")
        if before != (mode, blob):
            before = (sys.intern(mode), blob)
        known[path] = before
    return known


def fields(output: bytes) -> Iterator[bytes]:
    """Yield what NUL ends in git's output, empty ones too; one at a time is made."""
    start = 0
    while start < len(output):
        end = output.find(b"\0", start)
        end = len(output) if end < 0 else end
        yield output[start:end]
        start = end + 1


def parts_in(output: IO[bytes]) -> Iterator[str]:
    """As `parts`, of what lies in a file."""
    rest = b""
    while piece := output.read(PIECE_BYTES):
        *whole, rest = (rest + piece).split(b"\0")
        yield from map(os.fsdecode, filter(None, whole))
    if rest:
        yield os.fsdecode(rest)


__all__ = [
    "DAMAGED",
    "Store",
    "alternates_of",
    "fields",
    "following",
    "init",
    "listed_entries",
    "parts",
    "parts_in",
    "store_shelf",
    "write_whole",
]
