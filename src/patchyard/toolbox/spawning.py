"""Starts processes that outlive who started them, with exactly the descriptors given."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence


def spawn_detached(
    argv: Sequence[str], *, env: Mapping[str, str], descriptors: Mapping[int, int]
) -> int:
    """Start `argv` in a session of its own and return its PID; the caller reaps it.

    `descriptors` maps numbers inside to descriptors here; nothing else is inherited. What is not
    among 0, 1 and 2 is /dev/null there. Raises OSError when the program cannot be started.
    """
    with contextlib.ExitStack() as stack:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, null)
        wanted = {0: null, 1: null, 2: null, **descriptors}
        above = max(wanted) + 1  # parked there, none is closed by numbering another anew
        parked = {}
        for number, descriptor in wanted.items():
            parked[number] = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above)
            stack.callback(os.close, parked[number])
        actions: list[tuple[int, int] | tuple[int, int, int]] = [
            (os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()
        ]
        actions += [(os.POSIX_SPAWN_DUP2, parked[number], number) for number in sorted(wanted)]
        return os.posix_spawn(
            argv[0],
            list(argv),
            dict(env),
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
        )


def open_contents(contents: Mapping[int, bytes], files: Mapping[int, str]) -> dict[int, int]:
    """Return descriptors to read `contents` and `files` by, for their numbers inside.

    Whoever asked closes them. Raises OSError, with none left open.
    """
    opened: dict[int, int] = {}
    try:
        for number, content in contents.items():
            opened[number] = os.memfd_create("patchyard")
            os.write(opened[number], content)
            os.lseek(opened[number], 0, os.SEEK_SET)
        for number, path in files.items():
            opened[number] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        for descriptor in opened.values():
            os.close(descriptor)
        raise
    return opened


def _inheritable() -> list[int]:
    """Return descriptors that would pass on by themselves: the engine's parent may have left."""
    found = []
    with os.scandir("/proc/self/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # the listing's own descriptor may be gone
                if os.get_inheritable(int(entry.name)):
                    found.append(int(entry.name))
    return found


__all__ = ["open_contents", "spawn_detached"]
