"""The search_replace calls that lead from one release's package to another's."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["Call", "edits", "files"]

Call = tuple[str, Mapping[str, Any]]


def files(folder: Path) -> dict[str, bytes]:
    """Each file below `folder`, but for what running leaves behind."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def edits(before: Path, after: Path, package: str, *, version_file: str) -> Iterator[Call]:
    """One call for each place of the package at `before` that the later release changed."""
    old, new = files(before / package), files(after / package)
    assert old.keys() == new.keys(), "a release that adds or drops files needs other calls"
    for name, content in old.items():
        path = f"{package}/{name}"
        if content != new[name] and path != version_file:
            yield from _replacements(path, content.decode(), new[name].decode())


def _replacements(path: str, old: str, new: str) -> Iterator[Call]:
    """From the last place to the first, so that what is above stays where it was."""
    was, becomes = old.splitlines(keepends=True), new.splitlines(keepends=True)
    codes = difflib.SequenceMatcher(None, was, becomes, autojunk=False).get_opcodes()
    for tag, first, last, start, stop in reversed(codes):
        if tag == "equal":
            continue
        up = down = 0
        while "".join(was).count("".join(was[first - up : last + down])) != 1:
            up, down = min(up + 1, first), min(down + 1, len(was) - last)
        head, tail = was[first - up : first], was[last : last + down]
        replaced = "".join([*head, *becomes[start:stop], *tail])
        found = "".join(was[first - up : last + down])
        yield "search_replace", {"path": path, "old_string": found, "new_string": replaced}
        was[first:last] = becomes[start:stop]
