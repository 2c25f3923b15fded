"""Short-lived folders of ours that name their owner, so that a killed one's can be swept away."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch(home: Path, kind: str) -> Iterator[Path]:
    """Yield a fresh folder under the home that is deleted at the end."""
    place = make_scratch(home, kind)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def make_scratch(home: Path, kind: str) -> Path:
    """Return a fresh folder; whoever asked deletes it, or `sweep` once its process is gone."""
    folder = home / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-{kind}-", dir=folder))


def sweep(home: Path) -> None:
    """Delete the folders of processes that are no more."""
    folder = home / "scratch"
    if not folder.is_dir():
        return
    for place in folder.iterdir():
        owner = place.name.partition("-")[0]
        if not Path("/proc", owner).exists():
            shutil.rmtree(place, ignore_errors=True)


__all__ = ["make_scratch", "scratch", "sweep"]
