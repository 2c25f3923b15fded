"""The user's terminal: written to, typed into, steered by what is printed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import termios

from .kit import LIBC, done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

PASTE = 0x541C  # TIOCLINUX
WIDER = 1 << 32  # the kernel reads 32 bits of a request, a filter might compare more


def write(given: Given) -> None:
    """Write to a terminal of the machine."""
    descriptor = os.open(given["terminal"], os.O_WRONLY | os.O_NOCTTY)
    os.write(descriptor, given["token"].encode())
    os.close(descriptor)


def type_into(given: Given) -> None:
    """Type into a terminal of the machine, as its user would."""
    _typing(given, termios.TIOCSTI)


def type_by_wide_request(given: Given) -> None:
    """The same by a number that only the kernel takes for the same."""
    _typing(given, termios.TIOCSTI | WIDER)


def _typing(given: Given, request: int) -> None:
    _in_session(given)
    descriptor = os.open(given["terminal"], os.O_RDWR)
    for letter in given["token"] + "\n":
        _ioctl(descriptor, request, letter.encode())


def _ioctl(descriptor: int, request: int, data: bytes) -> None:
    if request < WIDER:
        fcntl.ioctl(descriptor, request, data)
        return
    kept = ctypes.create_string_buffer(data)
    if LIBC.ioctl(descriptor, ctypes.c_ulong(request), kept) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def controlling(given: Given) -> None:
    """Open the terminal that we were started from."""
    if given["control"]:
        _in_session(given)
        os.close(os.open(given["terminal"], os.O_RDWR))
    os.close(os.open("/dev/tty", os.O_RDWR))
    done(given)


def _in_session(given: Given) -> None:
    """Have no terminal, so that the next one that is opened is ours."""
    if os.getsid(0) != os.getpid():
        if os.fork():
            os.wait()
            os._exit(0)
        os.setsid()
    print("session of " + given["token"][:4], flush=True)


def escape(given: Given) -> None:
    """Print what changes a terminal's title, its clipboard and its colours."""
    token = given["token"]
    print("\x1b]0;%s\x07\x1b]52;c;%s\x07\x1b[31m\x9b31m\r%s" % (token, token, token))


__all__ = [
    "PASTE",
    "WIDER",
    "controlling",
    "escape",
    "type_by_wide_request",
    "type_into",
    "write",
]
