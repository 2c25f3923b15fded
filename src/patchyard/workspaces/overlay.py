"""Workspaces as overlay mounts over our own checkouts. Needs root; nothing is copied."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchyard.clients.mounts import is_mounted, mount_overlay, unmount
from patchyard.clients.reader import Reader
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.machine import is_of_machine, refused_by_machine
from patchyard.workspaces import upper
from patchyard.workspaces.ignores import Ignores
from patchyard.workspaces.sight import Sight, Tracked
from patchyard.workspaces.strategy import Strategy, deleted


class OverlayWorkspaces(Strategy):
    """contracts.workspace.Workspaces by overlayfs, mounted once per plan by a root engine.

    `own` holds the upper and the work folder.
    """

    strategy = "overlay"

    def _fill(self, base: Base, root: Path, layers: Sequence[Path]) -> Mapping[str, Any]:
        own = root.parent / "own"
        details = {
            "upper": str(own / "upper"),
            "work": str(own / "work"),
            "lower": [str(folder) for folder in (*layers, *self._lower(base))],
        }
        (own / "upper").mkdir()
        (own / "upper").chmod(0o755)
        os.chown(own / "upper", self._trees.uid, self._trees.gid)
        _mount(root, details)
        return details

    def _lower(self, base: Base) -> tuple[Path, Path]:
        """Return what lies at the bottom; made when it is not there (any more)."""
        trees = self._trees
        return trees.synthetic_git(base), trees.checkout_of(base)

    def _open(self, base: Base, ref: WorkspaceRef) -> Path:
        root = Path(ref.root)
        if is_mounted(root):
            return root
        if not self._written(ref).is_dir():
            raise deleted(ref)
        self._lower(base)
        _mount(root, ref.details)
        return root

    def _note_again(self, base: Base, ref: WorkspaceRef) -> None:
        """See Strategy: an overlay needs no notes, its upper folder says what was written."""

    def _close(self, root: Path) -> None:
        unmount(root)

    def _layer(self, ref: WorkspaceRef) -> Path:
        return self._written(ref)

    def _written(self, ref: WorkspaceRef) -> Path:
        return Path(ref.details["upper"])

    def _walk(
        self, _ref: WorkspaceRef, reader: Reader, tracked: Tracked, ignores: Ignores
    ) -> Sight:
        return upper.walk(reader, tracked, ignores)


def _mount(root: Path, details: Mapping[str, Any]) -> None:
    try:
        for folder in (root, Path(details["work"])):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        mount_overlay(
            root,
            lower=[Path(folder) for folder in details["lower"]],
            upper=Path(details["upper"]),
            work=Path(details["work"]),
        )
    except OSError as error:
        if is_of_machine(error):
            raise refused_by_machine(error) from error
        raise EnvironmentUnavailable(
            f"the overlay at {root} cannot be mounted: {error.strerror}",
            hint="choose workspace strategy copy, or a home on a local file system",
        ) from error


__all__ = ["OverlayWorkspaces"]
