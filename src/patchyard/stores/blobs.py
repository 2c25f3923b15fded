"""Contents by their names below the home, one space a plan.

Small ones, CHUNK_BYTES at most, lie in packs; large ones in files of their own, with their holes,
in folders by their first two digits.
"""

import contextlib
import errno
import hashlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from patchyard.clients.room import explained
from patchyard.clients.sparse_files import (
    CHUNK_BYTES,
    ContentName,
    Part,
    fill,
    parts_of,
    room_of_file,
)
from patchyard.clients.syncing import sync, sync_folder
from patchyard.contracts.blobs import NoRoom, unwatched
from patchyard.domain.errors import JournalBroken, Unavailable
from patchyard.stores.packs import PACK_BYTES, Pack, Record, fresh_name, read, records, sync_packs
from patchyard.toolbox.holes import room_of

SPACE_BYTES = 8 * 1024**3  # one plan's contents; an agent could write new ones in each call
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

    def remove(self, plan_id: str) -> None:
        """See contracts.blobs.BlobSpaces."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder / plan_id)


class FileBlobs:
    """contracts.blobs.Blobs in one folder of ours, which no agent can reach."""

    def __init__(self, folder: Path) -> None:
        """Take the folder; it is made when first needed."""
        self._folder = folder
        self._packed: dict[str, Record] | None = None  # None: not looked at yet
        self._pack: Path | None = None  # this writer's own
        self._size: int | None = None  # None: not looked at yet
        self._is_made = False  # the folder's own name is on the disk
        self._synced: set[Path] = set()  # folders whose names are on the disk

    @property
    def size(self) -> int:
        """Bytes of all contents."""
        if self._size is None:
            files = (place for place in self._folder.rglob("[!.]*") if place.is_file())
            self._size = sum(room_of_file(place.stat()) for place in files)
        return self._size

    def add_size(self, stored: int) -> None:
        """Count what was stored."""
        self._size = self.size + stored

    @property
    def packed(self) -> dict[str, Record]:
        """Where the small contents lie; what an earlier writer appended is on the disk then."""
        if self._packed is None:
            sync_packs(self._folder)
            self._packed = dict(records(self._folder))
        return self._packed

    @contextlib.contextmanager
    def writing(self) -> Iterator["Writer"]:
        """See contracts.blobs.Blobs."""
        writer = Writer(self)
        try:
            yield writer
            writer.finish()
        except OSError as error:
            if error.errno in FULL:
                full = Unavailable(
                    f"no room for a checkpoint in {self._folder}: the disk is full",
                    hint="free some space; resume",
                )
                raise explained(full, [self._folder]) from error
            raise
        finally:
            writer.close()

    def require(self, digest: str) -> None:
        """See contracts.blobs.Blobs."""
        self._read(digest, None)

    def copy(self, digest: str, target: int) -> None:
        """See contracts.blobs.Blobs."""
        self._read(digest, target)

    def place(self, digest: str) -> Path:
        """Return where a large content lies."""
        return self._folder / digest[:2] / digest[2:]

    def has(self, digest: str) -> bool:
        """Whether a content is there, and its name on the disk."""
        if digest in self.packed:
            return True
        place = self.place(digest)
        if not place.exists():
            return False
        if place.parent not in self._synced:  # who gave it its name may have been killed over it
            sync_folder(place.parent)
            sync_folder(self._folder)
            self._synced.add(place.parent)
        return True

    def open_pack(self) -> Pack:
        """Return the pack to append to; a new one's name is on the disk."""
        if self._pack is not None:
            pack = Pack(self._pack)
            if pack.size < PACK_BYTES:
                return pack
            pack.close()
        self._make_folder()
        self._pack = self._folder / fresh_name()
        pack = Pack(self._pack)
        sync_folder(self._folder)
        return pack

    def fresh(self) -> Path:
        """Return the name of a file that has no place yet."""
        self._make_folder()
        return self._folder / f".{os.getpid()}-{os.urandom(6).hex()}"

    def _make_folder(self) -> None:
        """Make the folder, on the disk with its name; what a dead writer began in it goes."""
        if self._is_made:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for place in self._folder.glob(".*-*"):
            if not _is_alive(place.name[1:].partition("-")[0]):
                place.unlink(missing_ok=True)
        sync_folder(self._folder.parent)
        sync_folder(self._folder.parent.parent)
        self._is_made = True

    def _read(self, digest: str, target: int | None) -> None:
        record = self.packed.get(digest)
        try:
            is_right = (
                _copied(self.place(digest), digest, target)
                if record is None
                else _unpacked(record, digest, target)
            )
        except FileNotFoundError as error:
            raise _broken(digest, "missing") from error
        except OSError as error:
            if target is not None:  # it may be what refused
                raise
            raise _broken(digest, "unreadable") from error
        if not is_right:
            raise _broken(digest, "damaged")


class Writer:
    """contracts.blobs.BlobWriter: what is new is synced at the end, once for all small ones."""

    def __init__(self, blobs: FileBlobs) -> None:
        """Take the space."""
        self.stored = 0
        self._blobs = blobs
        self._pack: Pack | None = None
        self._added: dict[str, Record] = {}  # that are known once they are synced
        self._last = ""  # kept; files that are alike often follow each other

    def keep(
        self,
        source: int,
        *,
        until: int | None = None,
        like: str = "",
        watch: Callable[[], object] = unwatched,
    ) -> str:
        """See contracts.blobs.BlobWriter."""
        found, begun, size = parts_of(source, until=until), [], 0
        for part in found:
            begun.append(part)
            size += part if isinstance(part, int) else len(part)
            if size > CHUNK_BYTES:
                return self._stream(chain(begun, found), ContentName(like=like), watch)
        content = b"".join(bytes(part) if isinstance(part, int) else part for part in begun)
        digest = hashlib.sha256(content).hexdigest()
        if digest == self._last:
            return self._last
        if digest not in self._added and not self._blobs.has(digest):
            if room_of(content) > self.room:
                raise NoRoom
            if self._pack is None:
                self._pack = self._blobs.open_pack()
            self._added[digest] = self._pack.append(digest, content)
            self.stored += self._added[digest].size
        self._last = digest
        return digest

    @property
    def room(self) -> int:
        """See contracts.blobs.BlobWriter."""
        return SPACE_BYTES - self._blobs.size - self.stored

    def finish(self) -> None:
        """Bring all of it to the disk."""
        self._blobs.add_size(self.stored)
        if self._pack is not None:
            self._pack.sync()
            self._blobs.packed.update(self._added)

    def close(self) -> None:
        """Let go of what is open."""
        if self._pack is not None:
            self._pack.close()

    def _stream(
        self, content: Iterable[Part], name: ContentName, watch: Callable[[], object]
    ) -> str:
        """Store a large content while it is named: its name is known at its end."""
        made, room, took = self._blobs.fresh(), self.room, 0

        def wrote(size: int) -> None:
            nonlocal took
            took += size
            if took > room:
                raise NoRoom

        target = os.open(made, FRESH, 0o600)
        try:
            fill(target, name.passing(content, watch), wrote=wrote)
            digest = str(name)
            if not self._blobs.has(digest):
                sync(target)
                _put(made, self._blobs.place(digest))
                self.stored += took
        finally:
            os.close(target)
            made.unlink(missing_ok=True)
        return digest


def _is_alive(pid: str) -> bool:
    return pid.isdecimal() and Path("/proc", pid).exists()


def _put(made: Path, place: Path) -> None:
    """Give a synced file its name, which is on the disk then."""
    if not place.parent.exists():
        place.parent.mkdir(mode=0o700)
        sync_folder(place.parent.parent)
    made.rename(place)
    try:
        sync_folder(place.parent)
    except OSError:
        place.unlink()  # who finds it would take its name for synced
        raise


def _copied(place: Path, digest: str, target: int | None) -> bool:
    """Write a file to `target`, where there is one; whether it matched its name."""
    name = ContentName(like=digest)
    source = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        content = name.passing(parts_of(source))
        if target is None:
            deque(content, maxlen=0)
        else:
            fill(target, content)
    finally:
        os.close(source)
    return str(name) == digest


def _unpacked(record: Record, digest: str, target: int | None) -> bool:
    """As `_copied`, for what lies in a pack."""
    content = read(record, digest)
    if content is not None and target is not None:
        fill(target, [content])
    return content is not None


def _broken(digest: str, what: str) -> JournalBroken:
    return JournalBroken(
        f"the content {digest[:12]}… of a checkpoint is {what}",
        hint="nothing was changed; take another checkpoint: of `plan rollback`, or for `fork --at`",
        details={"how": what},
    )


__all__ = ["CHUNK_BYTES", "SPACE_BYTES", "FileBlobSpaces", "FileBlobs", "Writer"]
