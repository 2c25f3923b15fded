"""How many lines a change adds and removes."""

from __future__ import annotations

MATCHER_LINES = 2000  # above, the middle counts as changed throughout: the matcher is quadratic


def count_changes(old: bytes, new: bytes) -> tuple[int, int]:
    """Return (added, removed) lines between two texts."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    first, shorter = 0, min(len(before), len(after))
    while first < shorter and before[first] == after[first]:
        first += 1
    last = 0
    while last < shorter - first and before[-1 - last] == after[-1 - last]:
        last += 1
    before, after = before[first : len(before) - last], after[first : len(after) - last]
    if not before or not after or max(len(before), len(after)) > MATCHER_LINES:
        return len(after), len(before)
    import difflib  # noqa: PLC0415 - 4 ms that most edits do not need

    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    return len(after) - same, len(before) - same


__all__ = ["MATCHER_LINES", "count_changes"]
