"""Finds programs of this machine: by name, with what one says of its version; and a Python."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

ASK_S = 10.0
SYSTEM_PYTHON = "/usr/bin/python3"


def program(name: str, places: Iterable[str]) -> tuple[str, str]:
    """Return where a program lies, in `places` first, and what it says of its version.

    Without one both are empty; one that does not run says nothing.
    """
    path = next((place for place in places if os.access(place, os.X_OK)), None)
    path = path or shutil.which(name)
    if not path:
        return "", ""
    path = os.path.abspath(path)  # an entry of PATH can be relative
    try:
        answer = subprocess.run(  # a few ms
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
            cwd="/",  # not where a stranger may have prepared something
            timeout=ASK_S,
        )
    except (OSError, subprocess.SubprocessError):
        return path, ""
    return path, answer.stdout.decode("utf-8", "replace").strip()


def python(agent: int | None) -> str:
    """Return the Python that runs a toolbox; one that becomes `agent` reads parts of it later.

    Raises RuntimeError where no other user than this one can read any.
    """
    own = sys.executable or SYSTEM_PYTHON
    if agent is None or all(map(_is_open, (own, os.__file__))):
        return own
    if _is_open(SYSTEM_PYTHON) and os.access(SYSTEM_PYTHON, os.X_OK):
        return SYSTEM_PYTHON
    where = os.path.dirname(os.path.realpath(os.__file__))
    raise RuntimeError(
        "python3 lies in %s, which another user cannot read; install one as %s"
        % (where, SYSTEM_PYTHON)
    )


def _is_open(path: str) -> bool:
    """Whether every user can read a file."""
    real = os.path.realpath(path)
    try:
        while real != "/":
            needed = stat.S_IXOTH if os.path.isdir(real) else stat.S_IROTH
            if not os.stat(real).st_mode & needed:
                return False
            real = os.path.dirname(real)
    except OSError:
        return False
    return True


__all__ = ["ASK_S", "SYSTEM_PYTHON", "program", "python"]
