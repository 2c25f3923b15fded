"""Paths of the workspace, walked by descriptor: no link, `..` or race leads out of it."""

from __future__ import annotations

import errno
import os
import stat

from .answers import Refusal
from .denials import Denied, denied_change, denied_entry, denied_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

MAX_LINKS = 40  # as the kernel's own limit
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Place:
    """A name in an open folder of the workspace; close it, or use it as a context manager.

    `name` is empty for the workspace itself. What the system denies within it is raised as Denied.
    """

    def __init__(self, folders: list[tuple[bytes, int]], name: bytes) -> None:
        self._folders = folders
        self.name = name
        self.parent = folders[-1][1]

    @property
    def relative(self) -> str:
        """The path from the workspace, links resolved; `.` for the workspace itself."""
        parts = [name for name, _ in self._folders[1:]]
        if self.name:
            parts.append(self.name)
        return os.fsdecode(b"/".join(parts)) or "."

    def stat(self) -> os.stat_result | None:
        """Return what lies there without following a link, None when nothing does."""
        try:
            if not self.name:
                return os.fstat(self.parent)
            return os.stat(self.name, dir_fd=self.parent, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int) -> int:
        """Open it; never through a link, never waiting for a FIFO or device. Raises Denied."""
        wanted = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(self.name or b".", wanted, dir_fd=self.parent)
        except PermissionError as error:
            raise denied_entry(error, self.relative, self.parent, self.name) from error

    def open_folder(self) -> int:
        """Open it as a folder to read. Raises Refusal when it is none."""
        try:
            return self.open(os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise Refusal("DIRECTORY_NOT_FOUND", "no folder %s" % self.relative) from None
        except NotADirectoryError:
            message = "%s is no folder" % self.relative
            raise Refusal("NOT_A_DIRECTORY", message) from None

    def open_parent(self) -> int:
        """Open the folder it lies in, to read. Raises Denied."""
        try:
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.parent)
        except PermissionError as error:
            raise denied_folder(error, os.path.dirname(self.relative), self.parent) from error

    def open_file(self) -> tuple[int, os.stat_result]:
        """Open it as a regular file to read. Raises Refusal when it is none."""
        found = self.stat()
        if found is None:
            raise Refusal("FILE_NOT_FOUND", "no file %s" % self.relative)
        require_regular(found, self.relative)
        fd = self.open(os.O_RDONLY)
        opened = os.fstat(fd)
        if not stat.S_ISREG(opened.st_mode):
            os.close(fd)
            raise Refusal("NOT_A_FILE", "%s is no regular file" % self.relative)
        return fd, opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, PermissionError) and not isinstance(error, Denied):
                raise denied_change(error, self.relative, self.parent, self.name) from error
        finally:
            close_folders(self._folders)


def require_regular(found: os.stat_result, shown: str) -> None:
    """Raise Refusal when what was found is no regular file."""
    if stat.S_ISDIR(found.st_mode):
        raise Refusal("IS_A_DIRECTORY", "%s is a folder" % shown)
    if not stat.S_ISREG(found.st_mode):
        raise Refusal("NOT_A_FILE", "%s is no regular file" % shown)


def close_folders(folders: list[tuple[bytes, int]]) -> None:
    """Close each descriptor."""
    for _, fd in folders:
        os.close(fd)


class Workspace:
    """The work tree; the only place that file operations reach."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") or "/"
        names = {self.root, os.path.realpath(self.root)}
        self._roots = [_encode(name) for name in names]
        self.fd = os.open(_encode(self.root), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self.fd)

    def locate(self, path: str, *, makes_folders: bool = False, follows_last: bool = True) -> Place:
        """Walk to `path`. Raises Refusal when it leaves the workspace or a folder is missing.

        Raises Denied where the user may not pass, or not make a folder.
        Links that stay inside are followed. `makes_folders` makes the missing ones on the way;
        without `follows_last` a link at the very end is the place itself.
        """
        walk = _Walk(self, path, makes_folders=makes_folders)
        try:
            return walk.to_end(follows_last=follows_last)
        except PermissionError as error:
            names, folder = [name for name, _ in walk.folders[1:]], walk.folders[-1][1]
            denied = denied_folder(error, os.fsdecode(b"/".join(names)), folder)
            close_folders(walk.folders)
            raise denied from error
        except BaseException:
            close_folders(walk.folders)
            raise

    def parts(self, path: bytes) -> list[bytes] | None:
        """Return the components of an absolute path from the workspace, None when outside."""
        for root in self._roots:
            if path == root or path.startswith(root.rstrip(b"/") + b"/"):
                return path[len(root) :].split(b"/")
        return None


class _Walk:
    def __init__(self, workspace: Workspace, path: str, *, makes_folders: bool) -> None:
        self._workspace = workspace
        self._shown = path
        self._makes_folders = makes_folders
        self._links = 0
        self._path = _encode(path)
        if b"\0" in self._path:
            raise Refusal("VALIDATION_ERROR", "a path holds no NUL")
        self._pending: list[bytes] = []
        self.folders: list[tuple[bytes, int]] = []  # open ones; the caller closes them

    def _restart(self) -> None:
        old, self.folders = self.folders, []
        close_folders(old)
        self.folders.append((b"", os.dup(self._workspace.fd)))

    def _components(self, path: bytes) -> list[bytes]:
        """Return the components in reverse; an absolute path starts over at the root."""
        parts: list[bytes] | None = path.split(b"/")
        if path.startswith(b"/"):
            parts = self._workspace.parts(path)
            if parts is None:
                raise self._outside()
            self._restart()
        return [part for part in reversed(parts or []) if part not in (b"", b".")]

    def to_end(self, *, follows_last: bool) -> Place:
        self._restart()
        self._pending = self._components(self._path)
        while self._pending:
            name = self._pending.pop()
            if name == b"..":
                self._go_up()
                continue
            is_last = not self._pending
            if (not is_last or follows_last) and self._is_followed(name):
                continue
            if is_last:
                return Place(self.folders, name)
            self._enter(name)
        return Place(self.folders, b"")

    def _go_up(self) -> None:
        if len(self.folders) == 1:
            raise self._outside()
        os.close(self.folders.pop()[1])

    def _is_followed(self, name: bytes) -> bool:
        try:
            target = os.readlink(name, dir_fd=self.folders[-1][1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):  # no link, or nothing there
                return False
            raise
        self._links += 1
        if self._links > MAX_LINKS:
            raise Refusal("VALIDATION_ERROR", "%s: too many links" % self._shown)
        self._pending += self._components(target)
        return True

    def _enter(self, name: bytes) -> None:
        parent = self.folders[-1][1]
        try:
            fd = os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            if not self._makes_folders:
                missing = "no %s: its folder %s does not exist" % (self._shown, os.fsdecode(name))
                raise Refusal("FILE_NOT_FOUND", missing) from None
            os.mkdir(name, dir_fd=parent)
            fd = os.open(name, _FOLDER, dir_fd=parent)
        self.folders.append((name, fd))

    def _outside(self) -> Refusal:
        message = "%s is outside the workspace %s; only paths inside it can be used"
        return Refusal("PATH_OUTSIDE_WORKSPACE", message % (self._shown, self._workspace.root))


def _encode(path: str) -> bytes:
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refusal("VALIDATION_ERROR", "the path cannot be written as bytes") from None


__all__ = ["MAX_LINKS", "Place", "Workspace", "close_folders", "require_regular"]
