"""Folders nested deeper than any path or stack reaches."""

import os
from pathlib import Path

__all__ = ["deepened"]


def deepened(folder: Path, levels: int, name: str = "d") -> None:
    """Make so many folders of that name below `folder`, each in the one before."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        deeper = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(at)
