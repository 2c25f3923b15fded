"""What is remembered of one checkout between two looks, in memory and in a file of ours.

The file is this user's alone. One that is damaged, or of another version, is as good as none.
"""

import hashlib
import json
import os
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchyard.clients.listings import Listings
from patchyard.domain.retention import store_key
from patchyard.toolbox.wire import loaded
from patchyard.workspaces.indexed import Indexes

FORM = "1"  # of the file
MOST_BYTES = 64 * 1024**2
NEW = ".new-"  # stands in names of files that are written, before the process and thread


@dataclass(frozen=True, kw_only=True)
class Recollection:
    """The two memories of one checkout."""

    listings: Listings = field(default_factory=Listings)
    indexes: Indexes = field(default_factory=Indexes)


class Recollections:
    """Those of the checkouts that were looked at last; threads may share it."""

    def __init__(self, folder: Path, *, kept: int = 4) -> None:
        """Take the folder that has one for each checkout; `kept` are in memory at most."""
        self._folder = folder
        self._kept = kept
        self._known: dict[str, Recollection] = {}
        self._lock = threading.Lock()

    def of(self, top: Path) -> Recollection:
        """Return that of the checkout at `top`."""
        key = store_key(os.fsdecode(top))
        with self._lock:
            known = self._known.pop(key, None) or _read(self._place(key))
            self._known[key] = known
            while len(self._known) > self._kept:
                del self._known[next(iter(self._known))]
        return known

    def write(self, top: Path) -> None:
        """Write down what is new. Where the disk takes nothing, the next process looks anew."""
        known = self.of(top)
        if known.listings.is_changed or known.indexes.is_changed:
            said = {"listings": known.listings.written(), "indexes": known.indexes.written()}
            place = self._place(store_key(os.fsdecode(top)))
            with suppress(OSError):
                _sweep(place)
                _write(place, json.dumps(said).encode("ascii"))

    def _place(self, key: str) -> Path:
        return self._folder / key / "recollection"


def _read(place: Path) -> Recollection:
    made = Recollection()
    with suppress(OSError, LookupError, TypeError, ValueError, OverflowError, RecursionError):
        said = _content(place)
        made.indexes.read(said["indexes"])
        made.listings.read(said["listings"])
        return made
    return Recollection()


def _content(place: Path) -> dict[str, Any]:
    status = place.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
        raise ValueError(place)
    head, _, body = place.read_bytes().partition(b"\n")
    if head != _head(body):
        raise ValueError(place)
    said = loaded(body)
    if not isinstance(said, dict):
        raise TypeError(place)
    return said


def _head(body: bytes) -> bytes:
    return f"{FORM} {hashlib.sha256(body).hexdigest()}".encode("ascii")


def _sweep(place: Path) -> None:
    """Delete what processes that were killed left beside it."""
    for made in place.parent.glob(f"{place.name}{NEW}*"):
        owner = made.name.removeprefix(f"{place.name}{NEW}").partition("-")[0]
        if not Path("/proc", owner).exists():
            made.unlink(missing_ok=True)


def _write(place: Path, body: bytes) -> None:
    """Write it whole, or not at all; it need not outlive a loss of power."""
    made = place.with_name(f"{place.name}{NEW}{os.getpid()}-{threading.get_native_id()}")
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(body) + b"\n" + body)
        made.replace(place)
    finally:
        made.unlink(missing_ok=True)


__all__ = ["Recollection", "Recollections"]
