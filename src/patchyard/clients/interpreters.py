"""The Python that runs the toolbox inside: the system's, else the engine's own."""

import functools
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

from patchyard.domain.environment import Mount

SYSTEM_PYTHON = "/usr/bin/python3"
OLDEST = (3, 8)
VERSION = re.compile(r"python(\d+)\.(\d+)\Z")


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python and what must be visible for it."""

    path: str
    mounts: tuple[Mount, ...] = ()


def choose_interpreter(
    *, resolve: Callable[[str], str], executable: str, prefix: str
) -> Interpreter:
    """Return the system's Python when its name says 3.8 or newer, else the one given. Pure.

    `executable` and `prefix` are those of the installation itself, never of a virtual
    environment.
    """
    version = VERSION.search(resolve(SYSTEM_PYTHON))
    if version and (int(version[1]), int(version[2])) >= OLDEST:
        return Interpreter(path=SYSTEM_PYTHON)
    if prefix == "/usr" or prefix.startswith(("/usr/", "/opt/")):
        return Interpreter(path=executable)
    real = resolve(prefix)
    targets = dict.fromkeys((prefix, real))
    return Interpreter(
        path=executable, mounts=tuple(Mount(source=real, target=target) for target in targets)
    )


@functools.cache
def toolbox_interpreter() -> Interpreter:
    """Return the Python for the toolbox on this machine."""
    return choose_interpreter(
        resolve=os.path.realpath,
        executable=str(getattr(sys, "_base_executable", sys.executable)),
        prefix=sys.base_prefix,
    )


__all__ = ["OLDEST", "SYSTEM_PYTHON", "Interpreter", "choose_interpreter", "toolbox_interpreter"]
