"""Files and folders of a tree that the kernel tells of, by their paths."""

import errno
import itertools
from collections.abc import Iterable

from patchyard.clients.notices import ACCESSED, MOVED, Notices
from patchyard.toolbox.footing import Footing

NO_ROOM = frozenset({errno.ENOSPC, errno.ENOMEM})  # of inotify_add_watch(2)


class TreeLookout:
    """contracts.file_times.Lookout."""

    def __init__(self, root: Footing, paths: Iterable[str], *, kind: int) -> None:
        """Look out for events of `kind` at `paths`; an empty one is the root itself.

        Paths where nothing lies, or that may not be read, are left out. Raises nothing: without
        room for a watch the lookout is not whole.
        """
        self._names: dict[int, str] = {}
        self._further: dict[int, list[str]] = {}  # of files with several names
        self._notices: Notices | None = None
        self.is_whole = True
        try:
            self._notices = Notices(kind)
            for path in paths:
                self._add(self._notices, root, path)
        except OSError:
            self.is_whole = False

    def told(self) -> frozenset[str]:
        """See contracts.file_times."""
        if self._notices is None:
            return frozenset()
        taken = self._notices.taken()
        numbers = self._names if taken is None else taken
        known = [number for number in numbers if number in self._names]
        further = (path for number in known for path in self._further.get(number, ()))
        return frozenset(itertools.chain((self._names[number] for number in known), further))

    def close(self) -> None:
        """See contracts.file_times."""
        if self._notices is not None:
            self._notices.close()
            self._notices = None

    def _add(self, notices: Notices, root: Footing, path: str) -> None:
        try:
            at, name = root.parent(path) if path else (root.root, b".")
            number = notices.add(b"/proc/self/fd/%d/%s" % (at, name))
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            return
        if number in self._names:
            self._further.setdefault(number, []).append(path)
        else:
            self._names[number] = path


def reads_of(root: Footing, paths: Iterable[str]) -> TreeLookout:
    """Look out for reads of files, by whatever way but a map."""
    return TreeLookout(root, paths, kind=ACCESSED)


def moves_above(root: Footing, paths: Iterable[str]) -> TreeLookout:
    """Look out for moves of the folders that `paths` lie in, at any depth, and of the root."""
    return TreeLookout(root, sorted(_folders(paths)), kind=MOVED)


def _folders(paths: Iterable[str]) -> set[str]:
    found = {""}
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def lies_in(path: str, folders: frozenset[str]) -> bool:
    """Whether `path` lies in one of `folders`, at any depth; the empty one holds all."""
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        if folder in folders:
            return True
    return False


__all__ = ["TreeLookout", "lies_in", "moves_above", "reads_of"]
