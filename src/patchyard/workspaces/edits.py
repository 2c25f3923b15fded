"""What a hand-over does to each path, worked out three ways before anything is written."""

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from patchyard.clients.git import Git, text
from patchyard.clients.reader import Reader, git_mode
from patchyard.clients.scratch import scratch
from patchyard.clients.treewriter import TreeWriter, chunks_of, empty_tree, hash_blob
from patchyard.domain.changeset import Change
from patchyard.domain.errors import Conflict, UsageError, WorkFailed
from patchyard.workspaces.sight import GITLINK

Content = tuple[str, str]  # git mode and blob id in our store
MAX_MERGED_BYTES = 32 * 1024 * 1024
BINARY_LOOK_BYTES = 8000  # git's own rule: a NUL among the first bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """One path as it is and as it is to be; None: not there."""

    path: str
    before: Content | None
    after: Content | None

    def as_list(self) -> list[str]:
        """Return it for a journal: path, mode and blob before, mode and blob after."""
        return [self.path, *(self.before or ("", "")), *(self.after or ("", ""))]

    @classmethod
    def from_list(cls, row: Sequence[str]) -> "Edit":
        """Build it from what `as_list` returned."""
        path, old_mode, old_blob, mode, blob = row
        return cls(
            path=path,
            before=(old_mode, old_blob) if old_mode else None,
            after=(mode, blob) if mode else None,
        )

    def reversed(self) -> "Edit":
        """Return the edit that takes this one back."""
        return Edit(path=self.path, before=self.after, after=self.before)


class Rows(Sequence[list[str]]):
    """Edits as a journal has them, each row made when it is asked for: a receipt has many."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        """Hold the edits; the rows are those of `Edit.as_list`."""
        self.edits = edits

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.edits)

    @overload
    def __getitem__(self, index: int) -> list[str]: ...

    @overload
    def __getitem__(self, index: slice) -> "Rows": ...

    def __getitem__(self, index: int | slice) -> "list[str] | Rows":
        """Return one row, or the rows of a slice."""
        if isinstance(index, slice):
            return Rows(self.edits[index])
        return self.edits[index].as_list()

    def __eq__(self, other: object) -> bool:
        """Whether these are the rows of `other`, which may be a list that a journal returned."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # as a list has none

    def __repr__(self) -> str:
        """Return what a list of the rows would say."""
        return repr(list(self))


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What the change set does to one path."""

    path: str
    old: Content | None
    new: Content | None


def wanted(changes: Iterable[Change], paths: Sequence[str] = ()) -> list[Wanted]:
    """Return what `changes` do, renames as a deletion and an addition; of `paths` only if given."""
    found: dict[str, Wanted] = {}
    for change in changes:
        if paths and not any(_is_below(each, paths) for each in (change.path, change.old_path)):
            continue
        old = (change.old_mode or "", change.old_blob or "") if change.old_mode else None
        new = (change.mode or "", change.blob or "") if change.mode else None
        if change.old_path is not None:
            found[change.old_path] = Wanted(path=change.old_path, old=old, new=None)
            old = None
        found[change.path] = Wanted(path=change.path, old=old, new=new)
    return [found[path] for path in sorted(found) if GITLINK not in _modes(found[path])]


def _modes(each: Wanted) -> set[str]:
    return {content[0] for content in (each.old, each.new) if content is not None}


def _is_below(path: str | None, paths: Sequence[str]) -> bool:
    return path is not None and any(
        path == chosen or path.startswith(f"{chosen.rstrip('/')}/") for chosen in paths
    )


def present(reader: Reader, path: str, going: frozenset[str], *, like: str) -> Content | None:
    """Return what lies at `path` now; a folder of which all files are `going` counts as nothing.

    Raises Conflict for what is neither file nor link, or changes while it is read.
    """
    try:
        status = reader.status(path)
        if status is None:
            above = _no_folder_above(reader, path, going)
            if above is not None and stat.S_ISLNK(above.st_mode):
                raise in_the_way([path], "lies behind a symbolic link")
            return None
        if stat.S_ISLNK(status.st_mode):
            target = reader.target(path)
            return "120000", hash_blob(len(target), [target], like=like)
        if stat.S_ISDIR(status.st_mode) and _all_below(reader, path) <= going:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise in_the_way([path], "is no file")
        with reader.opened(path) as (descriptor, now):
            chunks = chunks_of(descriptor, now.st_size)
            return git_mode(now.st_mode), hash_blob(now.st_size, chunks, like=like)
    except OSError as error:
        raise in_the_way([path], f"cannot be read ({error.strerror})") from error
    except WorkFailed as error:  # it became shorter, or another kind of thing
        raise in_the_way([path], "was changed while it was read") from error


def as_known(now: Content | None, *known: Content | None) -> Content | None:
    """Return the one of `known` that `now` is but for its mode, where modes say nothing."""
    if now is None or not now[0].startswith("100"):
        return now
    alike = (each for each in known if each and each[0].startswith("100") and each[1] == now[1])
    return next(alike, now)


def _all_below(reader: Reader, folder: str) -> set[str]:
    found: set[str] = set()
    folders = [folder]
    while folders:
        at = folders.pop()
        for name, status in reader.names(at):
            if stat.S_ISDIR(status.st_mode):
                folders.append(f"{at}/{name}")
            else:
                found.add(f"{at}/{name}")
    return found


def require_room(reader: Reader, path: str, going: frozenset[str]) -> None:
    """Raise Conflict when something that stays, and is no folder, stands above `path`."""
    above = _no_folder_above(reader, path, going)
    if above is not None:
        raise in_the_way([path], "lies below what is no folder")


def _no_folder_above(reader: Reader, path: str, going: frozenset[str]) -> os.stat_result | None:
    folder = path.rpartition("/")[0]
    while folder and folder not in going:
        status = reader.status(folder)
        if status is not None:
            return None if stat.S_ISDIR(status.st_mode) else status
        folder = folder.rpartition("/")[0]
    return None


def in_the_way(paths: Sequence[str], why: str = "changed meanwhile") -> Conflict:
    """Return the error for newer work at these paths."""
    listed = ", ".join(sorted(paths)[:8])
    return Conflict(
        f"newer work is in the way, nothing was changed: {listed} {why}",
        hint="commit or stash it and apply again, or use --to branch",
        details={"paths": sorted(paths)},
    )


def nothing_at(paths: Sequence[str]) -> UsageError:
    """Return the error for a choice of paths that the change set has nothing of."""
    return UsageError(
        f"the change set has nothing at {', '.join(paths)}",
        hint="agents plan diff --stat lists what it has",
    )


def keep_present(git: Git, reader: Reader, paths: Iterable[str], *, like: str) -> None:
    """Store what lies at these paths now, so that it can be merged and brought back."""
    rows = sorted(set(paths))
    if not rows:
        return
    with TreeWriter(git, empty_tree(like=like)) as writer:
        for number, path in enumerate(rows):
            status = reader.status(path)
            if status is not None and stat.S_ISLNK(status.st_mode):
                target = reader.target(path)
                writer.put(f"kept/{number}", "120000", len(target), [target])
            else:
                with reader.opened(path) as (descriptor, now):
                    size = now.st_size
                    writer.put(f"kept/{number}", "100644", size, chunks_of(descriptor, size))
        writer.finish()


def resolve(
    git: Git, each: Wanted, now: Content | None, clash: Callable[[str], None]
) -> Content | None:
    """Return what `each.path` comes to, given what it is `now`; calls `clash` where it cannot."""
    if now in (each.new, each.old):
        return each.new
    if each.old is None or each.new is None or now is None:
        clash(each.path)
        return now
    mode = _one_of(each.old[0], now[0], each.new[0])
    blob = _one_of(each.old[1], now[1], each.new[1])
    is_text = all(content[0].startswith("100") for content in (each.old, now, each.new))
    if blob is None and is_text:
        blob = merge_text(git, each.old[1], now[1], each.new[1])
    if mode is None or blob is None:
        clash(each.path)
        return now
    return mode, blob


def _one_of(old: str, mine: str, theirs: str) -> str | None:
    """Return the side that changed, None when both did and differ."""
    if mine in (old, theirs):
        return theirs
    return mine if theirs == old else None


def merge_text(git: Git, old: str, mine: str, theirs: str) -> str | None:
    """Return the blob of a clean three-way merge, None where the sides overlap or are binary."""
    sizes = git.run(
        "cat-file", "--batch-check=%(objectsize)", stdin=f"{old}\n{mine}\n{theirs}\n".encode()
    )
    if any(int(size) > MAX_MERGED_BYTES for size in sizes.split()):
        return None
    with scratch(git.home.parent, "merge") as made:
        for name, blob in (("mine", mine), ("old", old), ("theirs", theirs)):
            content = git.run("cat-file", "blob", blob)
            if b"\0" in content[:BINARY_LOOK_BYTES]:
                return None
            (made / name).write_bytes(content)
        done = git.at().attempt("merge-file", "-p", "-q", "mine", "old", "theirs", cwd=made)
        if done.code != 0:
            return None
    return text(git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=done.out))


def decode(rows: Iterable[Sequence[str]]) -> list[Edit]:
    """Return the edits of a receipt."""
    if isinstance(rows, Rows):
        return list(rows.edits)
    return [Edit.from_list(row) for row in rows]


__all__ = [
    "Content",
    "Edit",
    "Rows",
    "Wanted",
    "as_known",
    "decode",
    "in_the_way",
    "keep_present",
    "merge_text",
    "nothing_at",
    "present",
    "require_room",
    "resolve",
    "wanted",
]
