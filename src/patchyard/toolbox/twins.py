"""A tree that takes over what another one became: each change by descriptors, through no link.

What is written appears at once and whole, with its owner, mode and time; it is agreed from then on.
"""

from __future__ import annotations

import errno
import os
import stat

from .footing import PASSING, STAGED, raw_of
from .holes import BLOCK_BYTES, room_of, write_with_holes
from .trees import FILE, FOLDER, LINK, MODE, Entry, Tree, digest_of, record_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .footing import Path
    from .holes import Part

STAYING = frozenset([errno.ENOTEMPTY, errno.EEXIST])
NO_NAMELESS = frozenset([errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL])
NAMELESS = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
SHORT_LINK = 60  # bytes of a target that take no block of their own in ext4
NAMED = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Unfinished(Exception):
    """A file that came in pieces is not what was announced; nothing of it is there."""


class NoRoom(Exception):
    """An entry takes more than the room that is left; nothing of it is there."""


class _Coming:
    """A file that has not come as a whole yet."""

    def __init__(self, at: int, descriptor: int, stage: int, staged: bytes) -> None:
        self.at = at  # the folder it goes to
        self.descriptor = descriptor
        self.stage = stage  # the folder it lies in until then: that one, or the root
        self.staged = staged  # its name there; empty where it has none
        self.digest = digest_of()
        self.size = 0
        self.room = 0  # bytes of blocks that it takes, less those of the file that it replaces

    def close(self) -> None:
        """Give it up, or let go of it."""
        try:
            if self.staged:
                os.unlink(self.staged, dir_fd=self.stage)
        except FileNotFoundError:
            return
        finally:
            os.close(self.descriptor)
            os.close(self.at)


class Twin(Tree):
    """A tree that can be changed after another's."""

    def __init__(
        self, root: str, *, owner: tuple[int, int] | None = None, is_one_mount: bool = False
    ) -> None:
        """Open the root; `owner` is given to all that is made, where we may.

        In `is_one_mount` what is not whole yet lies at the root, where `sweep` finds it.
        """
        super().__init__(root)
        self.room: int | None = None  # bytes of blocks that may still be written; None: no bound
        self.frees: Callable[[Path], int] = _nothing  # bytes of blocks that go with a path's file
        self._owner = owner
        self._is_one_mount = is_one_mount
        self._coming: dict[Path, _Coming] = {}

    def close(self) -> None:
        """Release what is open, and give up what has not come whole."""
        self.give_up()
        super().close()

    def give_up(self) -> None:
        """Drop every file that has not come as a whole."""
        while self._coming:
            self._abandon(self._coming.popitem()[1])

    def remove(self, paths: list[Path]) -> None:
        """Take these away, those below others first. A folder that holds more stays."""
        try:
            for path in sorted(paths, key=lambda each: (-each.count("/"), each)):
                self._remove(path)
                self.agreed.pop(path, None)
        finally:
            self.give_back()

    def _remove(self, path: Path) -> None:
        try:
            at, name = self.parent(path)
            self._writable(at)
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(name, dir_fd=at)
            else:
                os.unlink(name, dir_fd=at)
        except OSError as error:
            known = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
            if error.errno not in known and error.errno not in STAYING:
                raise

    def put(self, path: Path, entry: Entry) -> None:
        """Make a folder or a link; a folder is open to its owner until `finish`.

        Raises NoRoom, OSError.
        """
        try:
            at, name = self._way(path)
            self._writable(at)
            if entry.kind == FOLDER:
                self._folder_at(at, name)
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
                now = entry._replace(mode=status.st_mode & MODE)
                self.agreed[path] = record_of(now, status)
            else:
                self._take_room(BLOCK_BYTES if len(raw_of(entry.mark)) >= SHORT_LINK else 0)
                self._clear(at, name)
                os.symlink(raw_of(entry.mark), name, dir_fd=at)
                self._own_name(at, name)
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
                self.agreed[path] = record_of(entry, status)
        finally:
            self.give_back()

    def _way(self, path: Path) -> tuple[int, bytes]:
        """Return where `path` goes, its folders made anew where somebody took them away."""
        try:
            return self.parent(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
        above = path.rpartition("/")[0]
        for end in [*(at for at, char in enumerate(above) if char == "/"), len(above)]:
            self._remake(above[:end])
        return self.parent(path)

    def _remake(self, folder: Path) -> None:
        at, name = self.parent(folder)
        self._writable(at)
        status = self._status(at, name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            return
        before = self.agreed.get(folder)
        is_known = before is not None and before.entry.kind == FOLDER
        self._folder_at(at, name)
        self.finish(folder, before.entry if before and is_known else Entry(FOLDER, 0o755, 0, 0, ""))

    def _folder_at(self, at: int, name: bytes) -> None:
        status = self._status(at, name)
        if status is None or not stat.S_ISDIR(status.st_mode):
            self._take_room(BLOCK_BYTES)
            self._clear(at, name)
            os.mkdir(name, 0o700, dir_fd=at)
            self._own_name(at, name)

    def finish(self, path: Path, entry: Entry) -> None:
        """Give a folder its mode, once all that goes into it is there. Raises OSError."""
        try:
            at, name = self.parent(path)
            folder = self.opened(at, name, PASSING)
            try:
                os.chmod("/proc/self/fd/%d" % folder, entry.mode & MODE)
                status = os.fstat(folder)
            finally:
                os.close(folder)
            self.agreed[path] = record_of(entry._replace(mode=status.st_mode & MODE), status)
        finally:
            self.give_back()

    def write(self, path: Path, entry: Entry, offset: int, data: Part) -> None:
        """Take in a piece of a file, or a number of zeros; with the last one it is there.

        Raises Unfinished, NoRoom, OSError.
        """
        try:
            coming = self._coming.pop(path, None) if offset else self._begin(path)
            if coming is None:
                raise Unfinished(path)
            try:
                self._add(coming, path, entry, offset, data)
            except BaseException:
                self._abandon(coming)
                raise
        finally:
            self.give_back()

    def _begin(self, path: Path) -> _Coming:
        old = self._coming.pop(path, None)
        if old is not None:
            self._abandon(old)
        at, _ = self._way(path)
        folder = os.dup(at)
        try:
            stage = self.root if self._is_one_mount else folder
            self._writable(stage)
            descriptor, staged = _fresh(stage)
        except BaseException:
            os.close(folder)
            raise
        coming = _Coming(folder, descriptor, stage, staged)
        if self.room is not None:
            coming.room = -self.frees(path)
            self._give_room(-coming.room)
        return coming

    def _add(self, coming: _Coming, path: Path, entry: Entry, offset: int, data: Part) -> None:
        length = data if isinstance(data, int) else len(data)
        if coming.size != offset or length < 0 or offset + length > entry.size:
            raise Unfinished(path)
        if not isinstance(data, int):
            room = room_of(data)
            self._take_room(room)
            coming.room += room
            write_with_holes(coming.descriptor, data, offset)
        coming.digest.take(data)
        coming.size += length
        if coming.size < entry.size:
            if not data:
                raise Unfinished(path)
            self._coming[path] = coming
            return
        if coming.digest.hexdigest() != entry.mark:
            raise Unfinished(path)
        self._place(coming, path, entry)

    def _take_room(self, size: int) -> None:
        if self.room is not None:
            if size > self.room:
                raise NoRoom
            self.room -= size

    def _give_room(self, size: int) -> None:
        if self.room is not None:
            self.room += size

    def _abandon(self, coming: _Coming) -> None:
        """Give up what has not come as a whole, or let go of what has."""
        self._give_room(coming.room)
        coming.close()

    def _place(self, coming: _Coming, path: Path, entry: Entry) -> None:
        name = raw_of(path).rpartition(b"/")[2]
        descriptor, at = coming.descriptor, coming.at
        if self._owner is not None:
            os.fchown(descriptor, *self._owner)
        os.fchmod(descriptor, entry.mode & MODE)
        os.ftruncate(descriptor, entry.size)  # it may end in a hole
        os.utime(descriptor, ns=(entry.mtime, entry.mtime))
        self._writable(at)
        self._writable(coming.stage)
        if not coming.staged:
            coming.staged = STAGED + os.urandom(8).hex().encode("ascii")
            os.link("/proc/self/fd/%d" % descriptor, coming.staged, dst_dir_fd=coming.stage)
        status = self._status(at, name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            self._clear(at, name)
        os.replace(coming.staged, name, src_dir_fd=coming.stage, dst_dir_fd=at)
        coming.room = 0  # it stays
        status = os.fstat(descriptor)
        now = entry._replace(mode=status.st_mode & MODE, mtime=status.st_mtime_ns)
        self.agreed[path] = record_of(now, status)
        coming.close()

    def adjust(self, path: Path, entry: Entry) -> bool:
        """Give a file whose content is right its mode and time; False where it is another."""
        before = self.agreed.get(path)
        if before is None or before.entry.kind != FILE or before.entry.mark != entry.mark:
            return False
        try:
            at, name = self.parent(path)
            descriptor = self.opened(at, name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(descriptor)
                if not before.is_as(status):
                    return False
                os.fchmod(descriptor, entry.mode & MODE)
                os.utime(descriptor, ns=(entry.mtime, entry.mtime))
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            now = entry._replace(mode=status.st_mode & MODE, mtime=status.st_mtime_ns)
            self.agreed[path] = record_of(now, status)
        except OSError:
            return False
        finally:
            self.give_back()
        return True

    def _status(self, at: int, name: bytes) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _clear(self, at: int, name: bytes) -> None:
        """Take away what stands where another kind of entry goes, with all that is in it."""
        status = self._status(at, name)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=at)
            return
        folder = self.opened(at, name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            self._writable(folder)
            for inner in os.listdir(folder):
                self._clear(folder, os.fsencode(inner))
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=at)

    def _writable(self, at: int) -> None:
        """Let us change a folder's entries, where its owner closed it to itself."""
        if not os.fstat(at).st_mode & stat.S_IWUSR or not os.fstat(at).st_mode & stat.S_IXUSR:
            try:
                self.lend(at)
            except PermissionError:
                return  # it is somebody else's, and says so itself

    def _own_name(self, at: int, name: bytes) -> None:
        if self._owner is not None:
            os.chown(name, self._owner[0], self._owner[1], dir_fd=at, follow_symlinks=False)


def _nothing(_path: Path) -> int:
    """Say that replacing a file makes no room."""
    return 0


def _fresh(folder: int) -> tuple[int, bytes]:
    """Return a new open file in the folder, and its name where the file system needs one."""
    try:
        # A descriptor that only names a folder cannot be opened in; its entry `.` can.
        return os.open(".", NAMELESS, 0o600, dir_fd=folder), b""
    except OSError as error:
        if error.errno not in NO_NAMELESS:
            raise
    staged = STAGED + os.urandom(8).hex().encode("ascii")
    return os.open(staged, NAMED, 0o600, dir_fd=folder), staged


__all__ = ["FILE", "LINK", "SHORT_LINK", "NoRoom", "Twin", "Unfinished"]
