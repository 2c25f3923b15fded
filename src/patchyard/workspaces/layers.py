"""Kept setup layers: folders by key, moved into place in one step."""

import shutil
from pathlib import Path

from patchyard.clients.syncing import put_in_place


class LayerCache:
    """contracts.layers.Layers under one folder on the same file system as the workspaces."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, key: str) -> Path | None:
        """See contracts.layers.Layers."""
        layer = self._folder / key
        return layer if layer.is_dir() else None

    def keep(self, key: str, written: Path) -> Path:
        """See contracts.layers.Layers. The synthetic `.git` is no part of a layer."""
        self._folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        shutil.rmtree(written / ".git", ignore_errors=True)
        layer = self._folder / key
        try:
            put_in_place(written, layer)
        except OSError:
            if not layer.is_dir():
                raise
            # Another process was faster; theirs is the same.
            shutil.rmtree(written, ignore_errors=True)
        return layer


__all__ = ["LayerCache"]
