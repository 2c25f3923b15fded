"""What the kernel tells of files and folders while others use them: inotify(7), through ctypes.

Knows nothing of trees. Each thing that is watched is told of once, so that no flood of events hides
one: the queue holds two for each.
"""

import ctypes
import os
import struct

ACCESSED = 0x001  # IN_ACCESS: read, copied by the kernel or started, but not mapped
MOVED = 0x800  # IN_MOVE_SELF
OVERFLOWN = 0x4000  # IN_Q_OVERFLOW
UNFOLLOWED = 0x02000000  # IN_DONT_FOLLOW
ONCE = 0x80000000  # IN_ONESHOT
EVENT = struct.Struct("iIII")  # number, mask, cookie, length of the name behind it
MOST = 65536  # bytes read at once


class Notices:
    """A descriptor that the kernel's events of one kind wait at."""

    def __init__(self, kind: int) -> None:
        """Raises OSError where the kernel has no room for another, or no inotify at all."""
        self._library = ctypes.CDLL(None, use_errno=True)
        self._kind = kind
        try:
            self._descriptor = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError as error:
            raise OSError("this system has no inotify") from error
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "no watch can be made")

    def add(self, path: bytes) -> int:
        """Watch what lies at `path`, following no link, and return its number; one for each inode.

        Raises OSError where there is nothing, or the kernel has no room.
        """
        mask = ctypes.c_uint32(self._kind | UNFOLLOWED | ONCE)
        number = int(self._library.inotify_add_watch(self._descriptor, path, mask))
        if number < 0:
            raise OSError(ctypes.get_errno(), "it cannot be watched")
        return number

    def taken(self) -> frozenset[int] | None:
        """Return the numbers of what was told of since the last time; None: some got lost."""
        found: set[int] = set()
        is_lost = False
        while data := self._waiting():
            at = 0
            while at < len(data):
                number, mask, _, length = EVENT.unpack_from(data, at)
                at += EVENT.size + length
                is_lost = is_lost or bool(mask & OVERFLOWN)
                if mask & self._kind:
                    found.add(number)
        return None if is_lost else frozenset(found)

    def _waiting(self) -> bytes:
        try:
            return os.read(self._descriptor, MOST)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """End all watches. Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


__all__ = ["ACCESSED", "EVENT", "MOVED", "Notices"]
