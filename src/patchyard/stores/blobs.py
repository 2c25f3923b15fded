"""Contents by their SHA-256 below the home: folders by the first two digits, one space a plan."""

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from patchyard.clients.syncing import sync_file_system, sync_folder
from patchyard.domain.errors import JournalBroken, Unavailable

CHUNK_BYTES = 1024 * 1024
SINGLY = 16  # so many new files are synced one by one; more at once by syncfs
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class FileBlobSpaces:
    """contracts.blobs.BlobSpaces as folders below one."""

    def __init__(self, folder: Path) -> None:
        """Take the folder; it is made when first needed."""
        self._folder = folder

    def of(self, plan_id: str) -> "FileBlobs":
        """See contracts.blobs.BlobSpaces."""
        return FileBlobs(self._folder / plan_id)

    def share(self, plan_id: str, other_id: str, digests: Collection[str]) -> None:
        """See contracts.blobs.BlobSpaces. By links: nobody ever changes a content."""
        source, target = self._folder / plan_id, self._folder / other_id
        try:
            folders = {_shared(source, target, digest) for digest in digests}
            for folder in sorted({*folders, *([target, self._folder] if folders else [])}):
                sync_folder(folder)
        except OSError as error:
            if error.errno not in FULL:
                raise
            hint = "free some space, then try again"
            raise Unavailable(f"no room for checkpoints in {target}", hint=hint) from error

    def remove(self, plan_id: str) -> None:
        """See contracts.blobs.BlobSpaces."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder / plan_id)


class FileBlobs:
    """contracts.blobs.Blobs in one folder of ours, which no agent can reach."""

    def __init__(self, folder: Path) -> None:
        """Take the folder; it is made when first needed."""
        self._folder = folder

    @contextlib.contextmanager
    def writing(self) -> Iterator["Writer"]:
        """See contracts.blobs.Blobs."""
        writer = Writer(self._folder)
        try:
            yield writer
            writer.finish()
        except OSError as error:
            writer.abandon()
            if error.errno in FULL:
                raise Unavailable(
                    f"no room for a checkpoint in {self._folder}", hint="free some space; resume"
                ) from error
            raise
        except BaseException:
            writer.abandon()
            raise

    def require(self, digest: str) -> None:
        """See contracts.blobs.Blobs."""
        self._read(digest, None)

    def copy(self, digest: str, target: int) -> None:
        """See contracts.blobs.Blobs."""
        self._read(digest, target)

    def _read(self, digest: str, target: int | None) -> None:
        place = _place(self._folder, digest)
        hashed = hashlib.sha256()
        try:
            source = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise _broken(place, "missing") from error
        try:
            while piece := os.read(source, CHUNK_BYTES):
                hashed.update(piece)
                if target is not None:
                    write_all(target, piece)
        finally:
            os.close(source)
        if hashed.hexdigest() != digest:
            raise _broken(place, "damaged")


class Writer:
    """contracts.blobs.BlobWriter: each content under a name of its own until all are synced."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of the space."""
        self.stored = 0
        self._folder = folder
        self._made: dict[str, Path] = {}  # digest to the file that waits for its name

    def keep(self, source: int) -> str:
        """See contracts.blobs.BlobWriter."""
        first = os.read(source, CHUNK_BYTES)
        second = os.read(source, CHUNK_BYTES) if len(first) == CHUNK_BYTES else b""
        if not second:
            digest = hashlib.sha256(first).hexdigest()
            if not self._has(digest):
                self._write(digest, first)
            return digest
        return self._stream(source, first + second)

    def finish(self) -> None:
        """Bring all of it to the disk, contents before names."""
        if not self._made:
            return
        if len(self._made) > SINGLY:
            sync_file_system(self._folder)
        else:
            for made in self._made.values():
                _sync(made)
        folders = set()
        for digest, made in self._made.items():
            place = _place(self._folder, digest)
            if not place.parent.exists():
                place.parent.mkdir(mode=0o700)
                folders.add(self._folder)
            made.rename(place)
            folders.add(place.parent)
        if len(folders) > SINGLY:
            sync_file_system(self._folder)
            return
        for folder in folders:
            sync_folder(folder)

    def abandon(self) -> None:
        """Delete what waits for its name."""
        for made in self._made.values():
            made.unlink(missing_ok=True)
        self._made.clear()

    def _has(self, digest: str) -> bool:
        return digest in self._made or _place(self._folder, digest).exists()

    def _fresh(self) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / f".{os.getpid()}-{os.urandom(6).hex()}"

    def _write(self, digest: str, content: bytes) -> None:
        made = self._fresh()
        self._made[digest] = made
        target = os.open(made, FRESH, 0o600)
        try:
            write_all(target, content)
        finally:
            os.close(target)
        self.stored += len(content)

    def _stream(self, source: int, piece: bytes) -> str:
        """Store a large content while it is hashed: its digest is known at its end."""
        made, hashed, size = self._fresh(), hashlib.sha256(), 0
        self._made[made.name] = made
        target = os.open(made, FRESH, 0o600)
        try:
            while piece:
                hashed.update(piece)
                write_all(target, piece)
                size += len(piece)
                piece = os.read(source, CHUNK_BYTES)
        finally:
            os.close(target)
        del self._made[made.name]
        digest = hashed.hexdigest()
        if self._has(digest):
            made.unlink()
        else:
            self._made[digest] = made
            self.stored += size
        return digest


def _shared(source: Path, target: Path, digest: str) -> Path:
    """Link one content into another space; return the folder that names it now."""
    place = _place(target, digest)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.link(_place(source, digest), place, follow_symlinks=False)
    except FileExistsError:
        return place.parent
    except FileNotFoundError as error:
        raise _broken(_place(source, digest), "missing") from error
    return place.parent


def write_all(target: int, content: bytes) -> None:
    """Write all of `content` to a descriptor."""
    view = memoryview(content)
    while view:
        view = view[os.write(target, view) :]


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _place(folder: Path, digest: str) -> Path:
    return folder / digest[:2] / digest[2:]


def _broken(place: Path, what: str) -> JournalBroken:
    return JournalBroken(
        f"the content {place.parent.name}{place.name[:10]}… of a checkpoint is {what}",
        hint="roll back to another checkpoint; nothing was changed",
    )


__all__ = ["CHUNK_BYTES", "SINGLY", "FileBlobSpaces", "FileBlobs", "Writer", "write_all"]
