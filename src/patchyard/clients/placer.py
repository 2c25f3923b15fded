"""Writes into a tree that another user may change meanwhile: by descriptors, following no link."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from io import BufferedWriter
from pathlib import Path

from patchyard.clients.own_links import ENTRY
from patchyard.clients.reader import OPEN_FOLDER
from patchyard.toolbox.holes import BLOCK_BYTES, is_zeros

FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER_BITS = 0o755  # what git gives a checkout's folders


class Placer:
    """One tree of which entries are replaced or removed. Raises OSError where a link is in the way.

    `owner` (uid, gid) is given to what is made; None leaves the process's own, or with `inherits`
    gives it the owner of the folder it is made in. `is_exact` sets 0644 and 0755 whatever
    the umask says. `syncs` has what is put in place on the disk, and its name, before `put` ends.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        owner: tuple[int, int] | None = None,
        inherits: bool = False,
        is_exact: bool = False,
        syncs: bool = False,
    ) -> None:
        """Name the tree; nothing stays open between calls."""
        self._root = os.fspath(root)
        self._owner = owner
        self._inherits = inherits
        self._is_exact = is_exact
        self._syncs = syncs

    def take(self, place: str | os.PathLike[str], path: str) -> None:
        """Move a prepared file or link of the same file system in, also over empty folders."""
        with self._folder(path, makes=True) as (at, name):
            try:
                os.replace(place, name, dst_dir_fd=at)
            except IsADirectoryError:
                for _, folders, _, inside in os.fwalk(name, topdown=False, dir_fd=at):
                    for folder in folders:
                        os.rmdir(folder, dir_fd=inside)
                os.rmdir(name, dir_fd=at)
                os.replace(place, name, dst_dir_fd=at)

    def put(self, path: str, mode: str, chunks: Iterable[bytes]) -> None:
        """Put a file or link (git's `mode`) in place of what is no folder there, in one step."""
        with self._folder(path, makes=True) as (at, name):
            made = f".{os.getpid()}-{os.urandom(6).hex()}.new"
            try:
                self._make(at, made, mode, chunks)
                os.replace(made, name, src_dir_fd=at, dst_dir_fd=at)
                if self._syncs:
                    os.fsync(at)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(made, dir_fd=at)
                raise

    def remove(self, path: str) -> None:
        """Remove a file or link, and the folders above it that are empty then."""
        with self._folder(path) as (at, name):
            os.unlink(name, dir_fd=at)
        folder = path.rpartition("/")[0]
        while folder:
            try:
                with self._folder(folder) as (at, name):
                    os.rmdir(name, dir_fd=at)
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    def _make(self, at: int, name: str, mode: str, chunks: Iterable[bytes]) -> None:
        if mode == "120000":
            os.symlink(b"".join(chunks), os.fsencode(name), dir_fd=at)
            self._own(at, name, stat.S_IFLNK)
            return
        bits = 0o777 if mode == "100755" else 0o666
        with os.fdopen(os.open(name, FRESH, bits, dir_fd=at), "wb") as file:
            _write(file, chunks)
            if self._is_exact:
                os.fchmod(file.fileno(), 0o755 if mode == "100755" else 0o644)
            if (owner := self._owner_in(at)) is not None:
                os.fchown(file.fileno(), *owner)
            if self._syncs:
                file.flush()
                os.fsync(file.fileno())

    @contextlib.contextmanager
    def _folder(self, path: str, *, makes: bool = False) -> Iterator[tuple[int, str]]:
        *folders, name = path.split("/")
        at = os.open(self._root, OPEN_FOLDER & ~os.O_NOFOLLOW)
        try:
            for folder in folders:
                if makes:
                    self._ensure(at, folder)
                deeper = os.open(folder, OPEN_FOLDER, dir_fd=at)
                os.close(at)
                at = deeper
            yield at, name
        finally:
            os.close(at)

    def _ensure(self, at: int, folder: str) -> None:
        try:
            os.mkdir(folder, dir_fd=at)
        except FileExistsError:
            return
        self._own(at, folder, stat.S_IFDIR)

    def _own(self, at: int, name: str, kind: int) -> None:
        """Give away the folder or link that was just made, and nothing put in its place since."""
        owner = self._owner_in(at)
        has_bits = self._is_exact and kind == stat.S_IFDIR
        if owner is None and not has_bits:
            return
        made = os.open(name, ENTRY, dir_fd=at)
        own = Path(f"/proc/self/fd/{made}")
        try:
            if stat.S_IFMT(os.fstat(made).st_mode) != kind or not _is_empty(made):
                raise OSError(errno.ESTALE, "something else was put there meanwhile", name)
            if has_bits:
                own.chmod(FOLDER_BITS)
            if owner is not None:
                os.chown(own, *owner)
        finally:
            os.close(made)

    def _owner_in(self, at: int) -> tuple[int, int] | None:
        """Return who gets what is made in the folder `at`; None: whose process this is."""
        if self._owner is None and self._inherits:
            above = os.fstat(at)
            return above.st_uid, above.st_gid
        return self._owner


def _write(file: BufferedWriter, chunks: Iterable[bytes]) -> None:
    """Write all of a new file; a chunk of nothing but zeros becomes a hole, as git leaves it."""
    for chunk in chunks:
        if len(chunk) >= BLOCK_BYTES and is_zeros(chunk):
            file.seek(len(chunk), os.SEEK_CUR)
        else:
            file.write(chunk)
    file.truncate()  # it may end in a hole


def _is_empty(held: int) -> bool:
    """Whether an entry has nothing in it; a link never has."""
    if not stat.S_ISDIR(os.fstat(held).st_mode):
        return True
    with os.scandir(f"/proc/self/fd/{held}") as entries:
        return next(entries, None) is None


__all__ = ["FRESH", "Placer"]
