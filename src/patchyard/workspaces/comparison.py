"""Two trees of ours compared by git: entries, renames, line counts. No work tree takes part."""

from collections.abc import Iterator
from dataclasses import replace

from patchyard.clients.git import Git
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.workspaces.conversions import sizes_of
from patchyard.workspaces.patch_pieces import renames
from patchyard.workspaces.store import following, parts_in

MOST_WORDS = 1000  # held once
LETTERS = {
    "A": ChangeStatus.ADDED,
    "D": ChangeStatus.DELETED,
    "M": ChangeStatus.MODIFIED,
    "R": ChangeStatus.RENAMED,
    "T": ChangeStatus.TYPE,
}


def compare(git: Git, before: str, after: str) -> list[Change]:
    """Return how the tree `after` differs from `before`, by path. `git` looks at the store.

    What is larger than LARGEST_TEXT counts as binary: it is hashed, and its lines are not counted.
    """
    changes = _compared(git, "--no-renames", before, after)
    found = {change.status for change in changes}
    if not found >= {ChangeStatus.ADDED, ChangeStatus.DELETED}:
        return changes
    sizes = sizes_of(git, {blob for one in changes for blob in (one.old_blob, one.blob) if blob})
    return _compared(git, renames(changes, sizes), before, after)


def _compared(git: Git, word: str, before: str, after: str) -> list[Change]:
    comparing = git.streaming().output(
        "diff-tree", "-r", "-z", word, "--raw", "--numstat", "--no-abbrev", "--no-ext-diff",
        "--no-textconv", before, after,
    )  # fmt: skip
    changes: dict[str, Change] = {}
    with comparing as out:
        fields, words = parts_in(out), dict[str, str]()
        for head in fields:
            if head.startswith(":"):
                if len(words) > MOST_WORDS:
                    words.clear()
                change = _raw(head, fields, words)
                changes[change.path] = change
            else:
                added, removed, path = head.split("\t", 2)
                if not path:
                    following(fields)
                    path = following(fields)
                changes[path] = _counted(changes[path], added, removed)
    return [changes.pop(path) for path in sorted(changes)]


def _raw(head: str, fields: Iterator[str], words: dict[str, str]) -> Change:
    """Return an entry of `--raw`. What many of them say, modes and ids, is held once in `words`."""
    said = head[1:].split(" ")
    letter = said.pop()
    old_mode, mode, old_blob, blob = (words.setdefault(word, word) for word in said)
    status = LETTERS[letter[0]]
    path = following(fields)
    old_path = None
    if status is ChangeStatus.RENAMED:
        old_path, path = path, following(fields)
    elif status is ChangeStatus.MODIFIED and old_blob == blob:
        status = ChangeStatus.MODE
    return Change(
        path=path,
        old_path=old_path,
        status=status,
        old_mode=None if status is ChangeStatus.ADDED else old_mode,
        mode=None if status is ChangeStatus.DELETED else mode,
        old_blob=None if status is ChangeStatus.ADDED else old_blob,
        blob=None if status is ChangeStatus.DELETED else blob,
    )


def _counted(change: Change, added: str, removed: str) -> Change:
    if added == "-":
        return replace(change, is_binary=True)
    lines = (int(added), int(removed))
    return replace(change, added=lines[0], removed=lines[1]) if any(lines) else change


__all__ = ["compare"]
