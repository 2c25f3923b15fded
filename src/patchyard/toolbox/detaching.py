"""A folder as a mount of its own that lies nowhere: who is given it reaches nothing beside it.

A descriptor of a folder as such would lead out of every sandbox, by `..`.
"""

from __future__ import annotations

import array
import ctypes
import os
import socket

OPEN_TREE = 428  # open_tree(2), by this number on all machines
CLONE, CLOEXEC = 1, os.O_CLOEXEC  # of its flags, linux/mount.h
RECURSIVE = 0x8000  # AT_RECURSIVE: a user's namespace may not leave anything out
AT_FDCWD = -100
NEW_NAMESPACES = 0x10000000 | 0x00020000  # CLONE_NEWUSER, CLONE_NEWNS


def detached(folder: str) -> int:
    """Return a descriptor of it, which its receiver may list and write below. Raises OSError."""
    if os.geteuid() == 0:
        return _cloned(folder)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with here, there:
        child = os.fork()
        if child == 0:
            _hand_over(folder, there)
        there.close()
        try:
            _, ancillary, _, _ = here.recvmsg(1, socket.CMSG_LEN(4), socket.MSG_CMSG_CLOEXEC)
        finally:
            os.waitpid(child, 0)
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            return array.array("i", data[:4])[0]
    raise OSError("this user may not make a mount of a folder")


def _hand_over(folder: str, there: socket.socket) -> None:
    """Make it in namespaces of our own, where an ordinary user may, and end."""
    status = 1
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(NEW_NAMESPACES) == 0:
            rights = array.array("i", [_cloned(folder)])
            there.sendmsg([b"T"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            status = 0
    finally:
        os._exit(status)


def _cloned(folder: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    flags = CLONE | CLOEXEC | RECURSIVE
    tree = libc.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(folder), flags)
    if tree < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), folder)
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=tree)
    finally:
        os.close(tree)


__all__ = ["detached"]
