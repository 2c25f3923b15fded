"""Edits that a restore has to undo, drawn by hypothesis."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

__all__ = ["EDITS", "edit"]

PATHS = st.sampled_from(["a.txt", "d/b.txt", "d", "d/c.txt", "e/f", "e/f/g.txt", "n/m/o", "n", "z"])
KINDS = ["write", "append", "delete", "link", "name", "move", "mode", "folder", "date"]
EDITS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(KINDS), PATHS, PATHS, st.binary(max_size=20)), max_size=6
    ),
    max_size=4,
)  # fmt: skip


def edit(root: Path, what: str, first: str, second: str, content: bytes) -> None:
    """Do one edit; one that makes no sense there does nothing."""
    place, other = root / first, root / second
    _make_way(root, first)
    is_file = place.is_file() and not place.is_symlink()
    has_room = not os.path.lexists(other) and other.parent.is_dir()
    on_files: dict[str, Callable[[], object]] = {
        "append": lambda: place.write_bytes(place.read_bytes() + content),
        "mode": lambda: place.chmod(0o600 + len(content)),
        "date": lambda: os.utime(place, ns=(1, len(content))),
        "name": lambda: os.link(place, other) if has_room else None,
    }
    if what in on_files:
        if is_file:
            on_files[what]()
        return
    if what == "move":
        if os.path.lexists(place) and has_room and not str(other).startswith(f"{place}/"):
            _move(place, other)
        return
    _clear(place)
    makers: dict[str, Callable[[], object]] = {
        "link": lambda: place.symlink_to(second),
        "folder": place.mkdir,
        "write": lambda: place.write_bytes(content),
    }
    if what in makers:
        place.parent.mkdir(parents=True, exist_ok=True)
        makers[what]()


def _move(place: Path, other: Path) -> None:
    shutil.move(place, other)  # an overlay renames no folder of its base (EXDEV)


def _clear(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif os.path.lexists(place):
        place.unlink()


def _make_way(root: Path, path: str) -> None:
    """Take away what stands where folders above `path` are needed."""
    for above in list(Path(path).parents)[::-1][1:]:
        place = root / above
        if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
            place.unlink()
