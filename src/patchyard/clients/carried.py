"""A Python of this machine that runs in any image of its architecture, whatever that holds.

Its program, the libraries it loads and the loader for them are copied to a shelf; the standard
library is shown as it lies. Nothing of the image is needed, not even a C library.
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.copies import is_dated, open_to_all
from patchyard.clients.syncing import put_in_place
from patchyard.clients.toolbox import TOOLBOX_FOLDER
from patchyard.domain.environment import Mount
from patchyard.domain.errors import EnvironmentUnavailable

FACTS = "facts.json"
LIBRARIES = "so"  # folder of what the loader finds
LOADERS = ("ld-", "ld64.")  # glibc's and musl's, by how their names begin
ASK_S = 30.0
ASK = """
import ctypes, hashlib, importlib, json, os, pkgutil, sys, zlib
sys.path.append(sys.argv[1])
import toolbox
for each in pkgutil.iter_modules(toolbox.__path__):
    importlib.import_module("toolbox." + each.name)
class Loaded(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
files = []
Each = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Loaded), ctypes.c_size_t, ctypes.c_void_p)
ctypes.CDLL(None).dl_iterate_phdr(
    Each(lambda found, size, data: files.append(os.fsdecode(found.contents.name)) or 0), None
)
print(json.dumps({
    "program": os.readlink("/proc/self/exe"),
    "libraries": sorted({name for name in files if name.startswith("/")}),
    "library": os.path.dirname(os.__file__),
    "below": "%s/python%d.%d" % (getattr(sys, "platlibdir", "lib"), *sys.version_info[:2]),
}))
"""
"""Said by the Python itself, with all of the toolbox loaded: dl_iterate_phdr(3) has the names that
libraries are asked for by."""


@dataclass(frozen=True, kw_only=True)
class CarriedPython:
    """What is mounted, and how it is started."""

    folder: str  # on the shelf: bin/python3 and its libraries
    library: str  # the standard library, as it lies on this machine
    below: str  # where that belongs, relative to the folder: lib/python3.11
    loader: str  # name of the loader among the libraries

    def mounts(self, target: str) -> Sequence[Mount]:
        """Return what to show, read-only, so that all of it lies at `target`."""
        return (
            Mount(source=self.folder, target=target),
            Mount(source=self.library, target=f"{target}/{self.below}"),
        )

    def command(self, target: str) -> list[str]:
        """Return the words that start it, seen at `target`; a Python's own words follow."""
        libraries = f"{target}/{LIBRARIES}"
        return [
            *(f"{libraries}/{self.loader}", "--inhibit-cache", "--library-path", libraries),
            f"{target}/bin/python3",
        ]


def carried_python(shelf: Path, interpreter: str) -> CarriedPython:
    """Return what carries `interpreter`, put together on `shelf` once.

    Raises EnvironmentUnavailable where it cannot be carried.
    """
    place = shelf / f"python-{_version(interpreter)}"
    if not is_dated(place):
        _put_together(place, _facts(interpreter))
    facts = json.loads((place / FACTS).read_bytes())
    return CarriedPython(
        folder=str(place),
        library=facts["library"],
        below=facts["below"],
        loader=facts["loader"],
    )


@functools.cache
def _version(interpreter: str) -> str:
    real = os.path.realpath(interpreter)
    facts = Path(real).stat()
    digest = hashlib.sha256(f"{real} {facts.st_size} {facts.st_mtime_ns}".encode())
    for path in sorted(TOOLBOX_FOLDER.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _facts(interpreter: str) -> dict[str, Any]:
    try:
        said = subprocess.run(
            [interpreter, "-I", "-S", "-B", "-c", ASK, str(TOOLBOX_FOLDER.parent)],
            check=True,
            capture_output=True,
            timeout=ASK_S,
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for us
            env={"PATH": os.defpath},
        ).stdout
        facts: dict[str, Any] = json.loads(said)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise EnvironmentUnavailable(
            f"{interpreter} does not say what it consists of: {error}",
            hint="install Python 3.8 or newer as /usr/bin/python3",
        ) from error
    names = [os.path.basename(path) for path in facts["libraries"]]  # noqa: PTH119 - no path of ours
    loader = next((name for name in names if name.startswith(LOADERS)), None)
    if loader is None:
        raise EnvironmentUnavailable(
            f"{interpreter} was not loaded by a loader that can be carried along",
            hint="install Python 3.8 or newer as /usr/bin/python3",
        )
    return {**facts, "loader": loader}


def _put_together(place: Path, facts: Mapping[str, Any]) -> None:
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        own = f"{facts['library']}/"  # shown with the standard library
        for folder in ("bin", LIBRARIES, facts["below"]):
            (made / folder).mkdir(parents=True)
        shutil.copyfile(facts["program"], made / "bin" / "python3")
        for source in facts["libraries"]:
            if not source.startswith(own):
                shutil.copyfile(source, made / LIBRARIES / Path(source).name)
        (made / FACTS).write_text(json.dumps(facts))
        open_to_all(made)
        for program in (made / "bin" / "python3", made / LIBRARIES / facts["loader"]):
            program.chmod(0o755)
        put_in_place(made, place)
    except OSError:
        if not place.is_dir():  # else another engine was quicker
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


__all__ = ["ASK_S", "FACTS", "LIBRARIES", "LOADERS", "CarriedPython", "carried_python"]
