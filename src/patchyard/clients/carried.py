"""A Python of this machine that runs in any image of its architecture, whatever that holds.

Its program, the libraries it loads and the loader for them are copied to a shelf; the standard
library is shown as it lies. Nothing of the image is needed, not even a C library.
"""

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.copies import is_dated
from patchyard.clients.syncing import put_in_place
from patchyard.clients.toolbox_options import TOOLBOX_FOLDER
from patchyard.domain.environment import Mount
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox.carrying import FACTS, LIBRARIES, facts_of, fill
from patchyard.toolbox.wire import loaded


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
        _put_together(place, interpreter)
    return carried_at(str(place), loaded((place / FACTS).read_bytes()))


def carried_at(folder: str, facts: Mapping[str, Any]) -> CarriedPython:
    """Return the one in a folder, by what was noted of it there."""
    return CarriedPython(
        folder=folder,
        library=str(facts["library"]),
        below=str(facts["below"]),
        loader=str(facts["loader"]),
    )


@functools.cache
def _version(interpreter: str) -> str:
    real = os.path.realpath(interpreter)
    facts = Path(real).stat()
    digest = hashlib.sha256(os.fsencode(f"{real} {facts.st_size} {facts.st_mtime_ns}"))
    for path in sorted(TOOLBOX_FOLDER.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _put_together(place: Path, interpreter: str) -> None:
    try:
        facts = facts_of(interpreter, str(TOOLBOX_FOLDER.parent))
    except RuntimeError as error:
        hint = "install Python 3.8 or newer as /usr/bin/python3"
        raise EnvironmentUnavailable(str(error), hint=hint) from error
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        fill(str(made), facts)
        put_in_place(made, place)
    except OSError:
        if not place.is_dir():  # else another engine was quicker
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


__all__ = ["CarriedPython", "carried_at", "carried_python"]
