"""Finds a program of this machine and has it say its version. Knows no particular one."""

from __future__ import annotations

import os
import shutil
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Tuple

ASK_S = 10.0


def program(name: str, places: Iterable[str]) -> Tuple[str, str]:
    """Return where a program lies, in `places` first, and what it says of its version.

    Without one both are empty; one that does not run says nothing.
    """
    path = next((place for place in places if os.access(place, os.X_OK)), None)
    path = path or shutil.which(name) or ""
    if not path:
        return "", ""
    try:
        answer = subprocess.run(  # a few ms
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
            timeout=ASK_S,
        )
    except (OSError, subprocess.SubprocessError):
        return path, ""
    return path, answer.stdout.decode("utf-8", "replace").strip()


__all__ = ["ASK_S", "program"]
