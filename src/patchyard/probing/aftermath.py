"""What capture and hand-over made of a tree, and what in it shows that an attack succeeded."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchyard.domain.changeset import Finding
from patchyard.probing.attack import Run


@dataclass(kw_only=True)
class Aftermath:
    """What came of one run's part of a tree."""

    checkout: Path  # the user's, after it was handed over
    findings: Sequence[Finding] = ()
    patch: bytes = b""
    borrowed: bytes = b""  # content of an object that only the bait repository has
    unseen: Sequence[str] = field(default_factory=tuple)  # there before anybody allowed it
    is_hung: bool = False


def _of(run: Run) -> Aftermath:
    found = run.aftermath
    return found if isinstance(found, Aftermath) else Aftermath(checkout=Path(os.devnull))


def sprung(run: Run) -> str:
    """A program of the tree ran outside."""
    mark = Path(run.scene.given["ran"], run.scene.token)
    return "a program of the tree ran outside" if mark.exists() else ""


def borrowed(run: Run) -> str:
    """An object of the bait repository could be read."""
    has_it = run.scene.canary.encode() in _of(run).borrowed or run.scene.canary in run.text
    return "an object from outside came out" if has_it else ""


def followed(run: Run) -> str:
    """The content behind a link came along."""
    spot = _of(run).checkout / run.scene.token / "spot"
    is_copy = _is_file(spot) and run.scene.canary.encode() in spot.read_bytes()
    is_in_patch = run.scene.canary.encode() in _of(run).patch
    return "the content behind the link was carried" if is_copy or is_in_patch else ""


def unnoticed(run: Run) -> str:
    """The engine waited, or took no notice of a special file."""
    path = f"{run.scene.token}/spot"
    if _of(run).is_hung:
        return "whoever carried it waits for ever"
    if run.scene.given["control"] or not run.has_begun:
        return ""
    is_there = os.path.lexists(run.scene.place / "spot")
    is_listed = any(finding.path == path for finding in _of(run).findings)
    return "it was not listed" if is_there and not is_listed else ""


def setuid_carried(run: Run) -> str:
    """A set-user-ID bit arrived."""
    spot = _of(run).checkout / run.scene.token / "spot"
    has_bit = _is_file(spot) and spot.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)
    return "the bit was carried" if has_bit else ""


def git_carried(run: Run) -> str:
    """A repository arrived."""
    place = _of(run).checkout / run.scene.token
    there = [name for name in (".git", ".GIT", "git~1") if (place / name).exists()]
    return f"{', '.join(there)} was carried" if there else ""


def settings_carried(run: Run) -> str:
    """Settings of git arrived."""
    config = _of(run).checkout / ".git" / "config"
    has_it = _is_file(config) and run.scene.token in config.read_text()
    return "git's settings were changed" if has_it else ""


def carried_unseen(run: Run) -> str:
    """What runs by itself arrived before anybody allowed it."""
    there = [name for name in _of(run).unseen if name.startswith(f"{run.scene.token}/.")]
    return f"{there[0]} was carried" if there else ""


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def names_below(folder: Path, name: str) -> Sequence[str]:
    """Return the paths below `folder`/`name`, from `folder` on."""
    return [str(path.relative_to(folder)) for path in sorted((folder / name).rglob("*"))]


__all__ = [
    "Aftermath",
    "borrowed",
    "carried_unseen",
    "followed",
    "git_carried",
    "names_below",
    "settings_carried",
    "setuid_carried",
    "sprung",
    "unnoticed",
]
