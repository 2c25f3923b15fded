"""Carries edits out in the user's work tree: staged whole, checked again, then moved into place.

Each step can be repeated: after a kill in the middle the same call finishes the work.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.git import Git
from patchyard.clients.placer import Placer
from patchyard.clients.reader import Reader
from patchyard.domain.errors import WorkFailed
from patchyard.workspaces.edits import Edit, in_the_way, present


@dataclass(frozen=True, kw_only=True)
class WorkTree:
    """The user's work tree, and where contents wait before they are moved in."""

    top: Path
    stage: Path  # a folder of the repository's own git directory, on the same file system
    git: Git  # looks at our store

    def carry_out(self, edits: Sequence[Edit], *, like: str) -> None:
        """Make each path what its edit says. Raises Conflict before anything is touched."""
        to_do = self._open(edits, like=like)
        if not to_do:
            return
        with self._staged(to_do) as places:
            if self._open(to_do, like=like) != to_do:
                raise in_the_way([edit.path for edit in to_do])
            try:
                self._move_in(to_do, places)
            except OSError as error:
                self._move_back(to_do, like=like)
                raise WorkFailed(
                    f"{self.top} cannot be written, nothing was changed: {error}",
                    hint="mend the rights there, then apply again",
                ) from error

    def _move_in(self, edits: Sequence[Edit], places: Mapping[str, Path]) -> None:
        placer = Placer(self.top, inherits=os.geteuid() == 0)
        for edit in edits:
            if edit.after is None:
                placer.remove(edit.path)
        for path, place in places.items():
            placer.take(place, path)

    def _move_back(self, edits: Sequence[Edit], *, like: str) -> None:
        """Undo the part that was done when a later path could not be written."""
        with Reader(self.top) as reader:
            going = frozenset(edit.path for edit in edits if edit.before is None)
            done = [
                edit.reversed()
                for edit in edits
                if present(reader, edit.path, going, like=like) == edit.after
            ]
        with self._staged(done) as places:
            self._move_in(done, places)

    def _open(self, edits: Sequence[Edit], *, like: str) -> list[Edit]:
        """Return the edits that are not done yet. Raises Conflict where a third thing lies."""
        to_do: list[Edit] = []
        odd: list[Edit] = []
        going = frozenset(edit.path for edit in edits if edit.after is None)
        with Reader(self.top) as reader:
            for edit in edits:
                now = present(reader, edit.path, going, like=like)
                if now == edit.after:
                    continue
                (to_do if now == edit.before else odd).append(edit)
        if odd:
            raise in_the_way([edit.path for edit in odd])
        return to_do

    @contextlib.contextmanager
    def _staged(self, edits: Sequence[Edit]) -> Iterator[dict[str, Path]]:
        """Write every new content into the stage. A full disk is met here, before any change."""
        places: dict[str, Path] = {}
        try:
            shutil.rmtree(self.stage, ignore_errors=True)
            self.stage.mkdir(parents=True)
            for number, edit in enumerate(edits):
                if edit.after is not None:
                    places[edit.path] = self.stage / str(number)
                    self._write(edit, places[edit.path])
            yield places
        except OSError as error:
            raise WorkFailed(
                f"{self.top} cannot be written: {error.strerror}",
                hint="free some space or mend the rights, then apply again",
            ) from error
        finally:
            shutil.rmtree(self.stage, ignore_errors=True)

    def _write(self, edit: Edit, place: Path) -> None:
        mode, blob = edit.after or ("", "")
        if mode == "120000":
            target = self.git.run("cat-file", "blob", blob)
            place.symlink_to(os.fsdecode(target))
        else:
            with place.open("xb") as file:
                self.git.pour(blob, file)
                file.flush()
                os.fsync(file.fileno())
            place.chmod(self._bits(edit, mode))
        owner = self._owner(edit.path)
        if owner is not None:
            os.chown(place, *owner, follow_symlinks=False)

    def _bits(self, edit: Edit, mode: str) -> int:
        """Keep the file's own bits; a new one gets what git would give it."""
        before = self._status(edit.path)
        if before is None or not stat.S_ISREG(before.st_mode):
            umask = os.umask(0)
            os.umask(umask)
            return (0o777 if mode == "100755" else 0o666) & ~umask
        bits = stat.S_IMODE(before.st_mode) & 0o777
        if mode == "100755":
            return bits | ((bits & 0o444) >> 2)
        return bits & ~0o111

    def _status(self, path: str) -> os.stat_result | None:
        with Reader(self.top) as reader:
            return reader.status(path)

    def _owner(self, path: str) -> tuple[int, int] | None:
        """Return who owns what lies there, or the nearest folder; None when that is us anyway."""
        if os.geteuid() != 0:
            return None
        while path:
            status = self._status(path)
            if status is not None:
                return status.st_uid, status.st_gid
            path = path.rpartition("/")[0]
        status = self.top.stat()
        return status.st_uid, status.st_gid


__all__ = ["WorkTree"]
