"""Carries edits out in the user's work tree: staged whole, checked again, then moved into place.

Each step can be repeated: after a kill in the middle the same call finishes the work.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git
from patchyard.clients.placer import FRESH, Placer
from patchyard.clients.reader import Reader
from patchyard.domain.errors import (
    Conflict,
    PatchyardError,
    StateRefusal,
    Unavailable,
    WorkFailed,
)
from patchyard.domain.machine import FREE_SPACE, is_full_disk
from patchyard.workspaces.edits import Content, Edit, as_known, in_the_way, present

CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, kw_only=True)
class WorkTree:
    """The user's work tree, and where contents wait before they are moved in."""

    top: Path
    stage: Path  # a folder of the repository's own git directory, on the same file system
    git: Git  # looks at our store
    has_modes: bool = True  # whether the executable bit says something there

    def carry_out(self, edits: Sequence[Edit], *, like: str) -> None:
        """Make each path what its edit says.

        Raises Conflict for a third thing at a path. Each is looked at once more right before it is
        replaced; what was done until then is undone.
        """
        to_do = self._open(edits, like=like)
        if not to_do:
            return
        require_writable(self.folders_of(to_do))
        with self._staged(to_do) as places:
            if self._open(to_do, like=like) != to_do:
                raise in_the_way([edit.path for edit in to_do])
            try:
                self._move_in(to_do, places, like=like)
            except Conflict:
                self._move_back(to_do, like=like)
                raise
            except OSError as error:
                self._move_back(to_do, like=like)
                raise self._refused(error) from error

    def folders_of(self, edits: Sequence[Edit]) -> set[Path]:
        """Return the folders that `carry_out` is going to write to."""
        return {self.stage.parent, *(self._folder_of(edit.path) for edit in edits)}

    def _folder_of(self, path: str) -> Path:
        """Return the nearest folder above `path` that is there."""
        with Reader(self.top) as reader:
            while path := path.rpartition("/")[0]:
                status = reader.status(path)
                if status is not None and stat.S_ISDIR(status.st_mode):
                    return self.top / path
        return self.top

    def _move_in(self, edits: Sequence[Edit], places: Mapping[str, Path], *, like: str) -> None:
        """Remove first, so that a folder can take a file's name and the other way round."""
        placer = Placer(self.top, inherits=os.geteuid() == 0)
        going = _going(edits)
        for edit in sorted(edits, key=lambda each: each.after is not None):
            with Reader(self.top) as reader:
                if self._now(reader, edit, going, like=like) != edit.before:
                    raise in_the_way([edit.path])
            if edit.after is None:
                placer.remove(edit.path)
            else:
                placer.take(places[edit.path], edit.path)

    def _move_back(self, edits: Sequence[Edit], *, like: str) -> None:
        """Undo the part that was done when a later path could not be written."""
        _, done = self.sorted_out([edit.reversed() for edit in edits], like=like)
        with self._staged(done) as places:
            self._move_in(done, places, like=like)

    def sorted_out(self, edits: Sequence[Edit], *, like: str) -> tuple[list[Edit], list[Edit]]:
        """Return the edits that are done and those that are not; a third thing is in neither."""
        done: list[Edit] = []
        to_do: list[Edit] = []
        going = _going(edits)
        with Reader(self.top) as reader:
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
        with Reader(self.top) as reader:
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
    def _staged(self, edits: Sequence[Edit]) -> Iterator[dict[str, Path]]:
        """Write every new content into the stage. A full disk is met here, before any change."""
        places: dict[str, Path] = {}
        try:
            shutil.rmtree(self.stage, ignore_errors=True)
            self.stage.mkdir(parents=True)
            with BlobReader(self.git) as blobs:
                for number, edit in enumerate(edits):
                    if edit.after is not None:
                        places[edit.path] = self.stage / str(number)
                        self._write(blobs, edit.path, edit.after, places[edit.path])
            yield places
        except OSError as error:
            raise self._refused(error) from error
        finally:
            shutil.rmtree(self.stage, ignore_errors=True)

    def _refused(self, error: OSError) -> PatchyardError:
        message = f"{self.top} cannot be written, nothing was changed: {error}"
        if is_full_disk(str(error)):
            return Unavailable(message, hint=FREE_SPACE)
        if error.errno in CLOSED:
            return closed(self.top, is_read_only=error.errno == errno.EROFS)
        return WorkFailed(message, hint="mend what it says, then apply again")

    def _write(self, blobs: BlobReader, path: str, content: Content, place: Path) -> None:
        """Write what `path` gets; bits and owner of what lies there are kept."""
        mode, blob = content
        before = self._status(path)
        if mode == "120000":
            place.symlink_to(os.fsdecode(blobs.content(blob)))
        else:
            bits = 0o777 if mode == "100755" else 0o666  # less the umask, as git does it
            with os.fdopen(os.open(place, FRESH, bits), "wb") as file:
                file.writelines(blobs.chunks(blob))
                if before is not None and stat.S_ISREG(before.st_mode):
                    os.fchmod(file.fileno(), _kept_bits(before.st_mode, mode))
                file.flush()
                os.fsync(file.fileno())
        if os.geteuid() == 0:
            owner = before or self._above(path)
            os.chown(place, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def _status(self, path: str) -> os.stat_result | None:
        with Reader(self.top) as reader:
            return reader.status(path)

    def _above(self, path: str) -> os.stat_result:
        """Return the status of the nearest folder above that is there."""
        while path := path.rpartition("/")[0]:
            status = self._status(path)
            if status is not None:
                return status
        return self.top.stat()


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


def _going(edits: Sequence[Edit]) -> frozenset[str]:
    return frozenset(edit.path for edit in edits if edit.after is None)


def _kept_bits(before: int, mode: str) -> int:
    """The file's own bits, executable for whom it can be read by where `mode` says so."""
    bits = stat.S_IMODE(before) & 0o777
    return bits | ((bits & 0o444) >> 2) if mode == "100755" else bits & ~0o111


__all__ = ["CLOSED", "WorkTree", "closed", "require_writable"]
