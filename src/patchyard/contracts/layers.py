"""The seam to kept setup layers: what setup commands wrote, read-only from then on."""

from pathlib import Path
from typing import Protocol


class Layers(Protocol):
    """A cache of layers by key. A layer is complete or not there."""

    def find(self, key: str) -> Path | None:
        """Return the layer of `key`, None when setup has to run."""
        ...

    def keep(self, key: str, written: Path) -> Path:
        """Take `written` over as the layer of `key` and return where it lies now."""
        ...


__all__ = ["Layers"]
