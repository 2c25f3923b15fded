"""Paths as reports write them, brought to those of the tree. Pure."""

import posixpath
from urllib.parse import unquote

LONGEST = 4096


def path_in_tree(said: object, root: str) -> str:
    """Return the path relative to the tree at `root`; empty for what lies outside or is no path."""
    if not isinstance(said, str) or not said or "\0" in said or len(said) > LONGEST:
        return ""
    text = said
    if text.startswith("file:"):
        text = unquote(text.removeprefix("file://").removeprefix("file:"))
    if text.startswith("/"):
        start = root.rstrip("/") + "/"
        if not text.startswith(start):
            return ""
        text = text[len(start) :]
    path = posixpath.normpath(text)
    return "" if path in {".", ".."} or path.startswith(("../", "/")) else path


__all__ = ["path_in_tree"]
