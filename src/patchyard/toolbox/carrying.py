"""Puts a Python together that runs in any image of its architecture, whatever that holds.

Its program, the libraries it loads and the loader for them are copied; the standard library stays
where it lies. Nothing of the image is needed, not even a C library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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


def facts_of(interpreter: str, code: str) -> dict[str, Any]:
    """Return what an interpreter consists of; `code` holds the toolbox that it is to run.

    Raises RuntimeError where it cannot be carried.
    """
    try:
        said = subprocess.run(
            [interpreter, "-I", "-S", "-B", "-c", ASK, code],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ASK_S,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for who asked
            env={"PATH": os.defpath},
        ).stdout
        facts: dict[str, Any] = json.loads(said)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        message = "%s does not say what it consists of: %s" % (interpreter, error)
        raise RuntimeError(message) from error
    names = [os.path.basename(path) for path in facts["libraries"]]
    loader = next((name for name in names if name.startswith(LOADERS)), None)
    if loader is None:
        raise RuntimeError(interpreter + " was not loaded by a loader that can be carried along")
    return {**facts, "loader": loader}


def fill(made: str, facts: dict[str, Any]) -> None:
    """Copy all but the standard library to the folder `made`, readable for all. Raises OSError."""
    for folder in ("bin", LIBRARIES, facts["below"]):
        os.makedirs(os.path.join(made, folder))
    own = facts["library"] + "/"  # shown with the standard library
    copied = {os.path.join(made, "bin", "python3"): facts["program"]}
    for source in facts["libraries"]:
        if not source.startswith(own):
            copied[os.path.join(made, LIBRARIES, os.path.basename(source))] = source
    for place, source in copied.items():
        shutil.copyfile(source, place)
    with open(os.path.join(made, FACTS), "w", encoding="utf-8") as file:
        json.dump(facts, file)
    for folder, _, names in os.walk(made):
        os.chmod(folder, 0o755)  # noqa: S103 - an agent that is not root reads it
        for name in names:
            os.chmod(os.path.join(folder, name), 0o644)
    for program in (("bin", "python3"), (LIBRARIES, facts["loader"])):
        os.chmod(os.path.join(made, *program), 0o755)  # noqa: S103 - likewise, and runs it


__all__ = ["ASK_S", "FACTS", "LIBRARIES", "LOADERS", "facts_of", "fill"]
