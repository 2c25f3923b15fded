"""Where git is going to write in the user's repository: its own places, by no link to others.

Git follows links there. One in the place of a log, a ref or the index would lead what it writes
into any file of the user's.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from patchyard.domain.errors import StateRefusal
from patchyard.workspaces.source import Source

#: What makes a git directory: HEAD, and one of these (gitrepository-layout(5)).
COMPLETED = ("commondir", "objects")


def require_own(source: Source, ref: str) -> None:
    """Raise StateRefusal where moving `ref` and the index would write outside of git directories.

    Links to the same place of another git directory are fine, as in work trees that share one.
    """
    for folder, name in _written(source, ref):
        place = folder / name
        real = os.path.realpath(place)
        if not real.endswith(f"/{name}") or not _is_git(Path(real.removesuffix(f"/{name}"))):
            raise _led_away(place, real)


def require_no_link(folder: Path, path: str) -> None:
    """Raise StateRefusal where a part of `path` below a git directory is a link."""
    place = folder
    for name in path.split("/"):
        place /= name
        if place.is_symlink():
            raise _led_away(place, os.path.realpath(place))


def _led_away(place: Path, real: str) -> StateRefusal:
    return StateRefusal(
        f"{place} leads to {real} by a symbolic link; git would write there, nothing was changed",
        hint="put a file or folder of the repository's own in the place of that link, or"
        " use --to worktree or --to patch",
        details={"place": str(place), "target": real},
    )


def _written(source: Source, ref: str) -> Iterator[tuple[Path, str]]:
    """Yield folder and name of what git writes there, or locks beside itself."""
    yield source.git_dir, "index"
    yield source.git_dir, "logs/HEAD"
    yield source.common_dir, "packed-refs"
    for name in (ref, f"logs/{ref}"):
        yield source.common_dir, name
    yield source.common_dir, "objects"
    with contextlib.suppress(OSError), os.scandir(source.common_dir / "objects") as listed:
        yield from (
            (source.common_dir, f"objects/{each.name}") for each in listed if each.is_symlink()
        )


def _is_git(folder: Path) -> bool:
    head = folder / "HEAD"
    return os.path.lexists(head) and any((folder / name).exists() for name in COMPLETED)


__all__ = ["require_no_link", "require_own"]
