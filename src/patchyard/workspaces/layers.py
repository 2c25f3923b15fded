"""Kept setup layers: folders by key, moved into place in one step."""

import shutil
from pathlib import Path

from patchyard.clients.shelves import Shelf
from patchyard.clients.syncing import put_in_place


class LayerCache:
    """contracts.layers.Layers under one folder on the same file system as the workspaces."""

    def __init__(self, folder: Path, label: str) -> None:
        """Take the folder, and what names this installation: others may use the same folder."""
        self._shelf = Shelf(folder, label)

    def find(self, key: str) -> Path | None:
        """See contracts.layers.Layers."""
        if not self._shelf.folder.is_dir():
            return None
        with self._shelf.using(key) as layer:
            return layer if layer.is_dir() else None

    def keep(self, key: str, written: Path) -> Path:
        """See contracts.layers.Layers. The synthetic `.git` is no part of a layer."""
        self._shelf.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        shutil.rmtree(written / ".git", ignore_errors=True)
        with self._shelf.using(key) as layer:
            if layer.is_dir():  # another process was faster; theirs is the same
                shutil.rmtree(written, ignore_errors=True)
            else:
                put_in_place(written, layer)
        return layer


__all__ = ["LayerCache"]
