"""The seam to kept setup layers: what setup commands wrote, read-only from then on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Layers(Protocol):
    """A cache of layers by key. A layer is complete or not there."""

    def find(self, key: str) -> Path | None:
        """Return the layer of `key`, None when setup has to run."""
        ...

    def keep(self, key: str, written: Path, *, without: Sequence[str] = ()) -> Path:
        """Take `written` over as the layer of `key` and return where it lies now.

        The paths `without` are deleted in it, and whatever would hide what lies below a layer.
        """
        ...


__all__ = ["Layers"]
