"""Carries edits out in the user's work tree: staged whole, checked again, then moved into place.

Each step can be repeated: after a kill in the middle the same call finishes the work.
"""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git
from patchyard.clients.placer import FRESH, Placer
from patchyard.clients.reader import Reader
from patchyard.clients.sparse_files import fill
from patchyard.clients.stages import stage
from patchyard.clients.syncing import sync_file_system, sync_folders_above
from patchyard.domain.errors import (
    Conflict,
    PatchyardError,
    StateRefusal,
    Unavailable,
    WorkFailed,
)
from patchyard.domain.machine import FREE_SPACE, is_full_disk
from patchyard.workspaces.edits import Content, Edit, as_known, in_the_way, present
from patchyard.workspaces.holding_tops import held_top
from patchyard.workspaces.moves import Mark, Moves

MANY = 200  # files whose contents are synced together
CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, kw_only=True)
class WorkTree:
    """The user's work tree, and where contents wait before they are moved in."""

    top: Path
    stage: Path  # a folder of the repository's own git directory, on the same file system
    git: Git  # looks at our store
    has_modes: bool = True  # whether the executable bit says something there
    moves: Moves = field(default_factory=Moves)  # what the hand-over wrote
    held: Path | None = None  # `top` by its descriptor, while it is written to

    @property
    def _ground(self) -> Path:
        return self.held or self.top

    def carry_out(
        self, edits: Sequence[Edit], *, like: str, check: Callable[[], None] = lambda: None
    ) -> list[Edit]:
        """Make each path what its edit says, and return what was done here and now.

        Raises Conflict for a third thing at a path. Each is looked at once more right before it is
        replaced; what was done until then is undone. `check` is called before the first move, and
        raises what stands against it. All names are on the disk then, those too that were right.
        """
        to_do = self._open(edits, like=like)
        open_paths = {edit.path for edit in to_do}
        self._sync_names([edit for edit in edits if edit.path not in open_paths])
        if not to_do:
            return []
        require_writable(self.folders_of(to_do))
        with self._holding() as tree:
            tree.bring_in(to_do, like=like, check=check)
        return to_do

    def _sync_names(self, done: Sequence[Edit]) -> None:
        """Have on the disk what a life that was killed may have moved in without a sync."""
        try:
            if done:
                sync_folders_above((edit.path for edit in done), self._ground)
        except OSError as error:
            raise self._refused(error) from error

    @contextlib.contextmanager
    def _holding(self) -> Iterator["WorkTree"]:
        """Yield this work tree with its top held open."""
        if self.held is not None:
            yield self
            return
        with held_top(self.top, self.stage.parent) as held:
            yield replace(self, held=held)

    def bring_in(self, to_do: list[Edit], *, like: str, check: Callable[[], None]) -> None:
        """Stage all contents, look at each path again, and move them in."""
        with self._staged(to_do, "in") as staged:
            still = self._open(to_do, like=like)
            if still != to_do:
                left = {edit.path for edit in still}
                raise in_the_way([edit.path for edit in to_do if edit.path not in left])
            check()
            self.moves.begins(
                {
                    edit.path: Mark.of(os.lstat(f"{staged}/{number}"))
                    for number, edit in _coming(to_do)
                },
                going=sorted(_going(to_do)),
            )
            done: list[Edit] = []
            try:
                self._move_in(to_do, staged, done, like=like)
                sync_folders_above((edit.path for edit in done), self._ground)
            except Conflict as error:
                raise self.undone(error, done, like=like) from error
            except OSError as error:
                raise self.undone(self._refused(error), done, like=like) from error

    def undone(self, error: PatchyardError, done: Sequence[Edit], *, like: str) -> PatchyardError:
        """Undo what was done and return `error`, which names what could not be undone."""
        left = self.take_back(done, like=like)
        if not left:
            return error
        but = f"what was written is taken back, but for {', '.join(sorted(left)[:8])}"
        message = error.message.replace("nothing was changed", but)
        return type(error)(message, hint=error.hint, details={**error.details, "left": left})

    def folders_of(self, edits: Sequence[Edit]) -> set[Path]:
        """Return the folders that `carry_out` is going to write to."""
        return {self.stage.parent, *(self._folder_of(edit.path) for edit in edits)}

    def _folder_of(self, path: str) -> Path:
        """Return the nearest folder above `path` that is there."""
        with Reader(self._ground) as reader:
            while path := path.rpartition("/")[0]:
                status = reader.status(path)
                if status is not None and stat.S_ISDIR(status.st_mode):
                    return self.top / path
        return self.top

    def _move_in(self, edits: Sequence[Edit], staged: str, done: list[Edit], *, like: str) -> None:
        """Remove first, so that a folder can take a file's name and the other way round."""
        placer = Placer(self._ground, inherits=os.geteuid() == 0)
        going = _going(edits)
        for number, edit in itertools.chain(_leaving(edits), _coming(edits)):
            with Reader(self._ground) as reader:
                if self._now(reader, edit, going, like=like) != edit.before:
                    raise in_the_way([edit.path])
            if edit.after is None:
                self.moves.removes(edit.path)
                placer.remove(edit.path)
            else:
                placer.take(f"{staged}/{number}", edit.path)
            done.append(edit)

    def take_back(self, done: Sequence[Edit], *, like: str) -> list[str]:
        """Undo what `carry_out` did here and now, and return the paths where that cannot be.

        What another put at such a path meanwhile is left, also where it has the same content.
        """
        left = {edit.path for edit in done}
        back = [edit.reversed() for edit in done]
        with contextlib.suppress(OSError, PatchyardError), self._holding() as tree:
            tree.bring_back(back, left, like=like)
        return sorted(left)

    def bring_back(self, back: Sequence[Edit], left: set[str], *, like: str) -> None:
        """Do what `back` says where it is ours, and take its paths out of `left`."""
        going = _going(back)
        placer = Placer(self._ground, inherits=os.geteuid() == 0)
        with self._staged(back, "back") as staged:
            for number, edit in itertools.chain(_leaving(back), _coming(back)):
                if not self._is_ours(edit, going, like=like):
                    continue
                if edit.after is None:
                    placer.remove(edit.path)
                else:
                    placer.take(f"{staged}/{number}", edit.path)
                left.discard(edit.path)
            sync_folders_above((edit.path for edit in back), self._ground)

    def _is_ours(self, edit: Edit, going: frozenset[str], *, like: str) -> bool:
        """Whether what lies at a path is what this hand-over put there, and no twin of it."""
        with Reader(self._ground) as reader, contextlib.suppress(Conflict):
            is_made = self.moves.made(edit.path, _seen(reader, edit))
            return is_made and self._now(reader, edit, going, like=like) == edit.before
        return False

    def of_others(self, edits: Sequence[Edit], *, like: str) -> list[Edit]:
        """Return the edits that are done, and not by this hand-over."""
        done, _ = self.sorted_out(edits, like=like)
        with Reader(self._ground) as reader:
            return [
                edit
                for edit in done
                if not self.moves.may_have_made(edit.path, _seen(reader, edit.reversed()))
            ]

    def sorted_out(self, edits: Sequence[Edit], *, like: str) -> tuple[list[Edit], list[Edit]]:
        """Return the edits that are done and those that are not; a third thing is in neither."""
        done: list[Edit] = []
        to_do: list[Edit] = []
        going = _going(edits)
        with Reader(self._ground) as reader:
            for edit in edits:
                with contextlib.suppress(Conflict):  # neither file nor link: not of our making
                    now = self._now(reader, edit, going, like=like)
                    if now in (edit.before, edit.after):
                        (done if now == edit.after else to_do).append(edit)
        return done, to_do

    def _open(self, edits: Sequence[Edit], *, like: str) -> list[Edit]:
        """Return the edits that are not done yet. Raises Conflict where a third thing lies."""
        to_do: list[Edit] = []
        odd: list[Edit] = []
        going = _going(edits)
        with Reader(self._ground) as reader:
            for edit in edits:
                now = self._now(reader, edit, going, like=like)
                if now != edit.after:
                    (to_do if now == edit.before else odd).append(edit)
        if odd:
            raise in_the_way([edit.path for edit in odd])
        return to_do

    def _now(
        self, reader: Reader, edit: Edit, going: frozenset[str], *, like: str
    ) -> Content | None:
        now = present(reader, edit.path, going, like=like)
        return now if self.has_modes else as_known(now, edit.after, edit.before)

    @contextlib.contextmanager
    def _staged(self, edits: Sequence[Edit], name: str) -> Iterator[str]:
        """Write every new content into the stage, and yield its folder.

        Each content has the number of its edit as its name. A full disk is met here, before any
        change. They are on the disk then, many by one sync of the file system instead of one each.
        """
        is_many = len(edits) > MANY
        try:
            with stage(self.stage, name) as folder:
                with BlobReader(self.git) as blobs:
                    for number, edit in _coming(edits):
                        self._write(blobs, edit, folder / str(number), is_synced=not is_many)
                if is_many:
                    sync_file_system(folder)
                yield str(folder)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> PatchyardError:
        message = f"{self.top} cannot be written, nothing was changed: {error}"
        if is_full_disk(str(error)):
            return Unavailable(message, hint=FREE_SPACE)
        if error.errno in CLOSED:
            return closed(self.top, is_read_only=error.errno == errno.EROFS)
        return WorkFailed(message, hint="mend what it says, then apply again")

    def _write(self, blobs: BlobReader, edit: Edit, place: Path, *, is_synced: bool) -> None:
        """Write what a path gets; bits and owner of what lies there are kept."""
        mode, blob = edit.after or ("", "")
        before = self._status(edit.path)
        if mode == "120000":
            place.symlink_to(os.fsdecode(blobs.content(blob)))
        else:
            bits = 0o777 if mode == "100755" else 0o666  # less the umask, as git does it
            with os.fdopen(os.open(place, FRESH, bits), "wb") as file:
                fill(file.fileno(), blobs.chunks(blob))
                if before is not None and stat.S_ISREG(before.st_mode):
                    os.fchmod(file.fileno(), _kept_bits(before.st_mode, mode))
                if is_synced:
                    os.fsync(file.fileno())
        if os.geteuid() == 0:
            owner = before or self._above(edit.path)
            os.chown(place, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def _status(self, path: str) -> os.stat_result | None:
        with Reader(self._ground) as reader:
            return reader.status(path)

    def _above(self, path: str) -> os.stat_result:
        """Return the status of the nearest folder above that is there."""
        while path := path.rpartition("/")[0]:
            status = self._status(path)
            if status is not None:
                return status
        return self._ground.stat()


def require_writable(folders: Iterable[Path]) -> None:
    """Raise StateRefusal naming the first folder that cannot be written."""
    for folder in sorted(folders):
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise closed(folder, is_read_only=bool(os.statvfs(folder).f_flag & os.ST_RDONLY))


def closed(folder: Path, *, is_read_only: bool) -> StateRefusal:
    """Return the refusal for a folder of the user's that this process cannot write to."""
    why = "lies on a file system mounted read-only" if is_read_only else "is closed to you"
    cure = "remount it" if is_read_only else f"make it writable for UID {os.geteuid()}"
    return StateRefusal(
        f"{folder} cannot be written, nothing was changed: it {why}",
        hint=f"{cure} and apply again, or write the change elsewhere: --to patch --name FILE",
        details={"folder": str(folder)},
    )


def _seen(reader: Reader, edit: Edit) -> os.stat_result | None:
    """Return the status of what lies at a path; None for a folder where nothing is expected."""
    status = reader.status(edit.path)
    is_folder = status is not None and stat.S_ISDIR(status.st_mode)
    return None if is_folder and edit.before is None else status


def _leaving(edits: Sequence[Edit]) -> Iterator[tuple[int, Edit]]:
    """Yield the edits that remove their path, each with its number."""
    return ((number, edit) for number, edit in enumerate(edits) if edit.after is None)


def _coming(edits: Sequence[Edit]) -> Iterator[tuple[int, Edit]]:
    """Yield the edits that put something at their path, each with its number."""
    return ((number, edit) for number, edit in enumerate(edits) if edit.after is not None)


def _going(edits: Sequence[Edit]) -> frozenset[str]:
    return frozenset(edit.path for edit in edits if edit.after is None)


def _kept_bits(before: int, mode: str) -> int:
    """The file's own bits, executable for whom it can be read by where `mode` says so."""
    bits = stat.S_IMODE(before) & 0o777
    return bits | ((bits & 0o444) >> 2) if mode == "100755" else bits & ~0o111


__all__ = ["CLOSED", "WorkTree", "closed", "require_writable"]
