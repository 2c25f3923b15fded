"""Which strategy works on this machine: an overlay where root can mount one, else a copy."""

import errno
import functools
import hashlib
import os
import tempfile
from pathlib import Path

from patchyard.clients.mounts import mount_overlay, unmount
from patchyard.contracts.workspace import Workspaces
from patchyard.domain.errors import UnknownName
from patchyard.workspaces.copy import CopyWorkspaces
from patchyard.workspaces.overlay import OverlayWorkspaces
from patchyard.workspaces.pinned import GitTrees

STATE = Path("/var/lib/patchyard")
STRATEGIES = ("auto", "copy", "overlay")
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def select_workspaces(trees: GitTrees, folder: Path, *, strategy: str = "auto") -> Workspaces:
    """Return the strategy that `strategy` names; `auto` takes an overlay where one mounts.

    Raises UnknownName for another word.
    """
    if strategy not in STRATEGIES:
        raise UnknownName.among("workspace strategy", strategy, STRATEGIES)
    if strategy == "overlay" or (strategy == "auto" and can_overlay(_existing(folder))):
        return OverlayWorkspaces(trees, folder)
    return CopyWorkspaces(trees, folder)


def plan_folder(home: Path) -> Path:
    """Return where workspaces lie: under the home, or where root's agent can enter.

    The home is 0700; a root engine's agent has another user ID and may have to walk to its root.
    """
    if os.geteuid() != 0:
        return home / "plans"
    name = hashlib.sha256(os.fsencode(home.absolute())).hexdigest()[:16]
    return STATE / f"plans-{name}"


def _existing(folder: Path) -> Path:
    while not folder.is_dir():
        folder = folder.parent
    return folder


@functools.cache
def can_overlay(folder: Path) -> bool:
    """Whether an overlay can be mounted with its upper folder below `folder`; really tried."""
    if os.geteuid() != 0:
        return False
    try:
        return _is_mounted_below(folder)
    except OSError as error:
        if error.errno not in FULL:
            raise
        return True  # it cannot be tried; what needs no workspace goes on, the rest is told so


def _is_mounted_below(folder: Path) -> bool:
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=folder) as made:
        place = Path(made)
        for name in ("lower", "upper", "work", "root"):
            (place / name).mkdir()
        try:
            mount_overlay(
                place / "root",
                lower=[place / "lower"],
                upper=place / "upper",
                work=place / "work",
            )
        except OSError:
            return False
        unmount(place / "root")
        return True


__all__ = ["STATE", "STRATEGIES", "can_overlay", "plan_folder", "select_workspaces"]
