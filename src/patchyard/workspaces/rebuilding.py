"""Builds a tree anew from a manifest, beside the one in use, and swaps the two."""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from patchyard.clients.reader import OPEN_FOLDER
from patchyard.clients.sparse_files import fill, has_holes, parts_of
from patchyard.clients.syncing import sync, sync_file_system, sync_folder
from patchyard.contracts.blobs import Blobs
from patchyard.domain.errors import JournalBroken
from patchyard.domain.manifest import LEFT_OUT, ORIGIN, Entry, Manifest
from patchyard.workspaces.bases import run
from patchyard.workspaces.bulk import CARRIED, announce, carry
from patchyard.workspaces.materials import delete

BEGUN, WHOLE, OLD = "restoring", "restored", "discarded"  # in a workspace's own folder
FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
SINGLY = 256  # so many entries are synced one by one; more at once by syncfs
NO_RANGES = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
COPY_BYTES = 16 * 1024 * 1024


class Rebuilding:
    """One tree that is made of a manifest, in a folder that nobody else can reach."""

    def __init__(
        self,
        manifest: Manifest,
        blobs: Blobs,
        *,
        owner: tuple[int, int],
        origins: tuple[Path, ...],
        carried: Sequence[str] = (),
    ) -> None:
        """Take what to make, who it belongs to, what origins name, and what is taken over."""
        self._manifest = manifest
        self._blobs = blobs
        self._owner = owner
        self._origins = origins
        self._carried = frozenset(carried)
        self.lost: list[str] = []  # folders that were left out and are nowhere
        self._is_root = os.geteuid() == 0  # else all of it is the engine's own user's anyway
        self._is_synced_singly = len(manifest) <= SINGLY
        self._linked: dict[str, str] = {}  # from a file's mark to the first of its names

    def make(self, root: Path) -> None:
        """Make the tree at `root`, where nothing is; it is on disk then.

        Raises JournalBroken, OSError.
        """
        root.mkdir(mode=0o700)
        self._root = os.open(root, OPEN_FOLDER)
        open_folders = [("", self._root)]
        try:
            for path in sorted(self._manifest, key=lambda each: each.split("/")):
                if path:
                    self._leave_all_but(open_folders, path)
                    self._make(open_folders, path, self._manifest[path])
            self._leave_all_but(open_folders, "")
            self._finish("", self._root)
        finally:
            for _, descriptor in open_folders:
                os.close(descriptor)
        if not self._is_synced_singly:
            sync_file_system(root)

    def _leave_all_but(self, open_folders: list[tuple[str, int]], path: str) -> None:
        """Close the folders that `path` does not lie in; their times are set then."""
        while open_folders[-1][0] and not path.startswith(f"{open_folders[-1][0]}/"):
            folder, descriptor = open_folders.pop()
            try:
                self._finish(folder, descriptor)
            finally:
                os.close(descriptor)

    def _make(self, open_folders: list[tuple[str, int]], path: str, entry: Entry) -> None:
        parent, _, name = path.rpartition("/")
        above, at = open_folders[-1]
        if above != parent:
            raise JournalBroken(f"a checkpoint names {path!r}, and no folder above it")
        if entry.held == LEFT_OUT:
            self._left_out(path, f"/proc/{os.getpid()}/fd/{at}/{name}")
        elif entry.is_folder:
            os.mkdir(name, 0o700, dir_fd=at)
            open_folders.append((path, os.open(name, OPEN_FOLDER, dir_fd=at)))
        elif entry.is_file:
            self._file(at, name, path, entry)
        elif stat.S_ISLNK(entry.mode):
            os.symlink(os.fsencode(entry.held), os.fsencode(name), dir_fd=at)
            self._own_name(at, name, entry)
        elif stat.S_ISCHR(entry.mode):
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=at)  # a whiteout; an agent can make no device
        elif not stat.S_ISBLK(entry.mode):
            os.mknod(name, entry.mode, dir_fd=at)
            os.chmod(name, stat.S_IMODE(entry.mode), dir_fd=at)  # whatever the umask is
            self._own_name(at, name, entry)

    def _left_out(self, path: str, target: str) -> None:
        """Make a folder whose content was not kept as an origin of ours has it, if one does."""
        if path in self._carried:
            return
        origin = next((each for each in self._origins if (each / path).is_dir()), None)
        self.lost.append(path)
        if origin is not None:
            run("cp", "-a", "--reflink=auto", "-T", "--", str(origin / path), target)

    def _own_name(self, at: int, name: str, entry: Entry) -> None:
        """Give what cannot be opened its owner and time."""
        if self._is_root:
            os.chown(name, *self._owner, dir_fd=at, follow_symlinks=False)
        os.utime(name, ns=(entry.mtime, entry.mtime), dir_fd=at, follow_symlinks=False)

    def _file(self, at: int, name: str, path: str, entry: Entry) -> None:
        first = self._linked.setdefault(entry.link, path) if entry.link else path
        if first != path:
            os.link(first, name, src_dir_fd=self._root, dst_dir_fd=at, follow_symlinks=False)
            return
        target = os.open(name, FRESH, 0o600, dir_fd=at)
        try:
            if entry.held.startswith(ORIGIN):
                _copy(self._origins[int(entry.held[len(ORIGIN) :])] / path, target)
            else:
                self._blobs.copy(entry.held, target)
            self._own(target, entry)
        finally:
            os.close(target)

    def _finish(self, path: str, descriptor: int) -> None:
        if path in self._manifest:
            self._own(descriptor, self._manifest[path])

    def _own(self, descriptor: int, entry: Entry) -> None:
        """Set owner, attributes, permissions, and last the time."""
        if self._is_root:
            os.fchown(descriptor, *self._owner)
        for name, value in entry.attributes:
            os.setxattr(descriptor, name, value.encode("latin-1"))
        os.fchmod(descriptor, stat.S_IMODE(entry.mode))
        os.utime(descriptor, ns=(entry.mtime, entry.mtime))
        if self._is_synced_singly:
            sync(descriptor)


def _copy(source: Path, target: int) -> None:
    """Copy a file of ours, whatever the two file systems can do between them."""
    opened = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if has_holes(opened):
            fill(target, parts_of(opened))
            return
        while os.copy_file_range(opened, target, COPY_BYTES):
            continue
    except OSError as error:
        if error.errno not in NO_RANGES:
            raise
        os.lseek(opened, os.lseek(target, 0, os.SEEK_CUR), os.SEEK_SET)
        with open(opened, "rb", closefd=False) as from_, open(target, "wb", closefd=False) as to:
            shutil.copyfileobj(from_, to, COPY_BYTES)
    finally:
        os.close(opened)


def tidy(current: Path, own: Path) -> None:
    """Finish a swap that a kill cut short, and delete what a restore left behind."""
    if (own / WHOLE).is_dir() and not current.exists():
        (own / WHOLE).rename(current)
    if (own / OLD).is_dir():
        carry(own / OLD, current, own)
    (own / CARRIED).unlink(missing_ok=True)
    for name in (BEGUN, WHOLE, OLD):
        delete(own / name)


def swap_in(
    current: Path, own: Path, make: Callable[[Path], None], carried: Sequence[str] = ()
) -> None:
    """Let `make` build a tree, and put it in place of `current` once it is whole on disk.

    The folders `carried` are taken over from the old one.

    `own` lies on the same file system. Nobody may use `current`; it is deleted.
    """
    tidy(current, own)
    make(own / BEGUN)
    (own / BEGUN).rename(own / WHOLE)
    announce(own, carried)
    sync_folder(own)
    if current.exists():
        current.rename(own / OLD)
    (own / WHOLE).rename(current)
    sync_folder(own)
    sync_folder(current.parent)
    carry(own / OLD, current, own)
    delete(own / OLD)


__all__ = ["BEGUN", "OLD", "WHOLE", "Rebuilding", "swap_in", "tidy"]
