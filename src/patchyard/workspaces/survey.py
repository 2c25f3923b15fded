"""Looks at a tree that an agent may have arranged, and keeps what is new since the last look.

By descriptors, following no link. An entry whose status is as before is not opened.
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from patchyard.clients.reader import MAX_DEPTH, OPEN_FILE, OPEN_FOLDER, one_of
from patchyard.clients.sparse_files import CHUNK_BYTES, room_of_file
from patchyard.contracts.blobs import BlobWriter, NoRoom
from patchyard.contracts.workspace import LookStopped, never
from patchyard.domain.machine import is_of_machine
from patchyard.domain.manifest import BELOW, LEFT_OUT, Delta, Entry, Manifest
from patchyard.workspaces.bulk import MANY, Bulk, count, look_time
from patchyard.workspaces.sight import OPAQUE, is_whiteout
from patchyard.workspaces.whole import TICKS_NS

OWN_ATTRIBUTES = ("user.", "system.posix_acl_")  # prefixes of what an agent may set itself

Known = Callable[[str, int, os.stat_result], str]
"""What an open file is a copy of, as `Entry.held` says it; empty where it must be kept itself."""


@dataclass(kw_only=True)
class Survey:
    """One look at one tree."""

    previous: Manifest
    writer: BlobWriter
    known: Known
    bulk: Bulk
    is_stopped: Callable[[], bool] = never
    present: set[str] = field(default_factory=set)
    put: dict[str, Entry] = field(default_factory=dict)
    touched: dict[str, Entry] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    is_fuzzy: bool = False
    hashed: dict[tuple[int, int], str] = field(default_factory=dict)  # of files with several names
    large: list[tuple[int, str]] = field(default_factory=list)  # files for last: bytes, path
    unkept: list[str] = field(default_factory=list)  # files that there is no room for
    started: int = field(default_factory=look_time)
    settled: int = field(default_factory=lambda: time.time_ns() - TICKS_NS)

    def of(self, root: str | os.PathLike[str]) -> Delta:
        """Look at the tree at `root`. Raises OSError when it is none."""
        at = os.open(root, OPEN_FOLDER & ~os.O_NOFOLLOW)
        try:
            self._take("", _entry(os.fstat(at), attributes=_attributes(at)))
            self._enter(at, "", 0)
            for _, path in sorted(self.large):  # the largest are left out first
                self._keep_large(at, path)
        finally:
            os.close(at)
        return Delta(
            put=self.put,
            gone=self._gone(),
            touched=self.touched,
            stored=self.writer.stored,
            is_fuzzy=self.is_fuzzy,
            unkept=self.unkept,
        )

    def _gone(self) -> list[str]:
        """Return what is there no more; of a folder left out that is said in one word."""
        missing = sorted(self.previous.keys() - self.present)
        inside = tuple(f"{path}{BELOW}" for path in self.left_out)
        if not inside:
            return missing
        left = [each for each in inside if any(path.startswith(each) for path in missing)]
        return [*left, *(path for path in missing if not path.startswith(inside))]

    def _enter(self, at: int, prefix: str, depth: int, *, is_small: bool = False) -> int:
        """Look at all that is in the folder open as `at`; return how many entries lie below.

        `is_small`: it was counted already, and nothing below can be bulk.
        """
        previous, present, folders = self.previous, self.present, []
        below = 0
        with os.scandir(at) as listed:
            for each in listed:
                try:
                    status = each.stat(follow_symlinks=False)
                except FileNotFoundError:
                    self.is_fuzzy = True
                    continue
                below += 1
                path = prefix + each.name
                before = previous.get(path)
                mode = status.st_mode
                if (
                    before is not None
                    and before.ctime == status.st_ctime_ns
                    and before.ino == status.st_ino
                    and before.size == status.st_size
                    and before.mode == mode
                ):
                    present.add(path)
                    if stat.S_ISDIR(mode):
                        folders.append(each.name)
                elif stat.S_ISDIR(mode):
                    folders.append(each.name)
                else:
                    self._look(at, path, each.name, status)
        for name in folders:
            below += self._descend(at, prefix + name, name, depth + 1, is_small=is_small)
        return below

    def _descend(self, at: int, path: str, name: str, depth: int, *, is_small: bool) -> int:
        try:
            with _opened(at, name, OPEN_FOLDER) as (inner, status):
                before = self.previous.get(path)
                was_left_out = before is not None and before.held == LEFT_OUT
                is_bulk = self.bulk.leaves_out(path, is_known=was_left_out)
                if before is None and not is_bulk and not is_small:
                    entries = count(inner)
                    is_small = entries <= MANY
                    is_bulk = self.bulk.judge(path, entries)
                if is_bulk or depth > MAX_DEPTH:
                    self._leave_out(path, status, inner)
                    self.is_fuzzy |= depth > MAX_DEPTH
                    return 0
                if before is None or was_left_out or before.ctime != status.st_ctime_ns:
                    self._take(path, _entry(status, attributes=_attributes(inner)))
                self.present.add(path)
                below = self._enter(inner, f"{path}/", depth, is_small=is_small)
                self.bulk.judge(path, below)  # it may have grown; the next look leaves it out
                return below
        except OSError as error:  # it became something else, or went, under our eyes
            self._unseen(at, path, name, error)
            return 0

    def _leave_out(self, path: str, status: os.stat_result, folder: int) -> None:
        """Take in a folder without its content, with the time of this look in place of a size."""
        entry = _entry(status, held=LEFT_OUT, attributes=_attributes(folder))
        self._take(path, entry._replace(size=self.started))
        self.left_out.append(path)

    def _look(self, at: int, path: str, name: str, status: os.stat_result) -> None:
        """Take in what is no folder and may have changed. Raises LookStopped."""
        self._watch()
        try:
            if stat.S_ISREG(status.st_mode) and status.st_size > CHUNK_BYTES:
                self.present.add(path)
                self.large.append((room_of_file(status), path))
            elif stat.S_ISREG(status.st_mode):
                self._take(path, self._file(at, path, name))
            elif stat.S_ISLNK(status.st_mode):
                target = os.fsdecode(os.readlink(os.fsencode(name), dir_fd=at))
                self._take(path, self._settled(_entry(status, held=target)))
            elif is_whiteout(status):
                self._take(path, _entry(status)._replace(mtime=0))
            else:
                self._take(path, _entry(status))
        except OSError as error:
            self._unseen(at, path, name, error)

    def _watch(self) -> None:
        if self.is_stopped():
            raise LookStopped

    def _keep_large(self, root: int, path: str) -> None:
        """Take in a large file. Raises LookStopped."""
        self._watch()
        *folders, name = path.split("/")
        at = root
        with contextlib.ExitStack() as opened:
            try:
                for folder in folders:
                    at, _ = opened.enter_context(_opened(at, folder, OPEN_FOLDER))
            except OSError as error:  # it became something else, or went, under our eyes
                if is_of_machine(error):
                    raise
                self.is_fuzzy = True
                self.present.discard(path)
                return
            try:
                self._take(path, self._file(at, path, name))
            except OSError as error:
                self.present.discard(path)
                self._unseen(at, path, name, error)

    def _unseen(self, at: int, path: str, name: str, error: OSError) -> None:
        """Take in what could not be looked at: not kept, and not gone while it is still there.

        Raises `error` where the trouble is our own store's, or the machine's.
        """
        if is_of_machine(error):
            raise error
        self.is_fuzzy = True
        try:
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            self.left_out.append(path)
        self._take(path, _entry(status, held=LEFT_OUT)._replace(ctime=0))

    def _file(self, at: int, path: str, name: str) -> Entry:
        with _opened(at, name, OPEN_FILE) as (descriptor, status):
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, "it became something else", name)
            mark = (status.st_ino, status.st_ctime_ns)
            held = self.hashed.get(mark) or self.known(path, descriptor, status)
            if not held and room_of_file(status) > self.writer.room:
                return self._lacking(path, status)
            try:
                held = held or self.writer.keep(descriptor, until=status.st_size, watch=self._watch)
            except NoRoom:
                return self._lacking(path, status)
            if status.st_nlink > 1:
                self.hashed[mark] = held
            after = os.fstat(descriptor)
            link = f"{status.st_ino}.{status.st_ctime_ns}" if status.st_nlink > 1 else ""
            entry = _entry(status, held=held, link=link, attributes=_attributes(descriptor))
        if after.st_ctime_ns != status.st_ctime_ns:
            self.is_fuzzy = True
            return entry._replace(ctime=0)
        return self._settled(entry)

    def _lacking(self, path: str, status: os.stat_result) -> Entry:
        """Return a file whose content is not kept, since there is no room for it."""
        self.is_fuzzy = True
        self.unkept.append(path)
        return _entry(status, held=LEFT_OUT)

    def _settled(self, entry: Entry) -> Entry:
        """Let what changed just now be looked at again: the same tick may hold another change."""
        return entry if entry.ctime < self.settled else entry._replace(ctime=0)

    def _take(self, path: str, entry: Entry) -> None:
        self.present.add(path)
        before = self.previous.get(path)
        if before is not None and before.is_alike(entry):
            self.touched[path] = entry
        else:
            self.put[path] = entry


def _entry(
    status: os.stat_result,
    *,
    held: str = "",
    link: str = "",
    attributes: tuple[tuple[str, str], ...] = (),
) -> Entry:
    is_folder = stat.S_ISDIR(status.st_mode)
    mtime, ctime = status.st_mtime_ns, status.st_ctime_ns
    return Entry(
        one_of(status.st_mode),
        0 if is_folder else status.st_size,
        mtime,
        mtime if ctime == mtime else ctime,  # one object of two
        status.st_ino,
        held,
        link,
        attributes,
    )


def _attributes(descriptor: int) -> tuple[tuple[str, str], ...]:
    """Return what an overlay says of a folder, and what the agent may have set itself."""
    try:
        names = os.listxattr(descriptor)
        kept = [name for name in names if name == OPAQUE or name.startswith(OWN_ATTRIBUTES)]
        return tuple((name, os.getxattr(descriptor, name).decode("latin-1")) for name in kept)
    except OSError:  # a file system without them, or one taken away meanwhile
        return ()


@contextlib.contextmanager
def _opened(at: int, name: str, flags: int) -> Iterator[tuple[int, os.stat_result]]:
    """Open an entry; one that its owner closed to itself is lent the right meanwhile."""
    try:
        descriptor = os.open(name, flags, dir_fd=at)
    except PermissionError:
        with _lent(at, name, flags) as lent:
            yield lent
        return
    try:
        yield descriptor, os.fstat(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _lent(at: int, name: str, flags: int) -> Iterator[tuple[int, os.stat_result]]:
    """As `_opened`, for an engine that is the owner and no root."""
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        status = os.fstat(place)
        handle = f"/proc/self/fd/{place}"
        Path(handle).chmod(stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
        try:
            descriptor = os.open(handle, flags & ~os.O_NOFOLLOW)
            try:
                yield descriptor, status
            finally:
                os.close(descriptor)
        finally:
            Path(handle).chmod(stat.S_IMODE(status.st_mode))
    finally:
        os.close(place)


__all__ = ["Known", "Survey"]
