"""Copies of the toolbox's code, compiled for the Python that runs it and readable by the agent.

The package's own folder may be closed to the agent, and is read-only where it is mounted, so that
Python would compile it anew at each start.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from patchyard.clients.syncing import put_in_place
from patchyard.clients.toolbox_options import TOOLBOX_FOLDER

COMPILE = """
import compileall, marshal, os, py_compile, sys
unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
compileall.compile_dir(sys.argv[1], quiet=2, invalidation_mode=unchecked)
for entry in os.scandir(os.path.join(sys.argv[1], "__pycache__")):
    try:
        with open(entry.path, "rb") as file:
            marshal.loads(file.read()[16:])
    except (EOFError, TypeError, ValueError):
        os.unlink(entry.path)
"""
"""What a Python does in a folder. It does not see that a full disk took a part of a file alone
(importlib looks at no count of bytes), and no later start could read that."""
COMPILE_TIMEOUT_S = 30.0


def compiled_toolbox(shelf: Path, interpreter: str) -> Path:
    """Return a folder that holds `toolbox`, made on `shelf` once per version and interpreter."""
    place = shelf / _version(interpreter)
    if is_dated(place):
        return place
    shelf.mkdir(mode=0o755, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=shelf))
    try:
        shutil.copytree(
            TOOLBOX_FOLDER,
            made / "toolbox",
            ignore=shutil.ignore_patterns("__pycache__"),
            copy_function=shutil.copyfile,
        )
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # it is slower without
            subprocess.run(
                [interpreter, "-I", "-S", "-c", COMPILE, str(made / "toolbox")],
                check=True,
                process_group=0,  # Ctrl-C is for us
                timeout=COMPILE_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={"PATH": os.defpath},
            )
        open_to_all(made)
        with contextlib.suppress(OSError):  # another engine was quicker
            put_in_place(made, place)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return place


def is_dated(place: Path) -> bool:
    """Date the use of what is kept there, for the janitor; False where nothing is."""
    try:
        os.utime(place)
    except FileNotFoundError:
        return False
    except PermissionError:  # root's, made for everybody
        return place.is_dir()
    return True


def open_to_all(folder: Path) -> None:
    """Let everybody read what lies there, and only its owner write."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _version(interpreter: str) -> str:
    digest = hashlib.sha256(os.fsencode(os.path.realpath(interpreter)))
    for path in sorted(TOOLBOX_FOLDER.glob("*.py")):
        facts = path.stat()
        digest.update(f"{path.name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


__all__ = ["COMPILE", "COMPILE_TIMEOUT_S", "compiled_toolbox", "is_dated", "open_to_all"]
