"""Trees of ours made of others: the dependency files alone, and a result with entries put over it.

Blocking, like git.
"""

from collections.abc import Mapping

from patchyard.clients.git import Git, text
from patchyard.domain.held import Entries
from patchyard.domain.keyfiles import is_key_file
from patchyard.workspaces.commits import tree_with
from patchyard.workspaces.edits import Edit


def key_tree(git: Git, entries: Mapping[str, tuple[str, str]]) -> str:
    """Write the tree that holds the dependency files among `entries` and nothing else."""
    empty = text(git.run("hash-object", "-t", "tree", "-w", "--stdin", stdin=b""))
    kept = [
        Edit(path=path, before=None, after=entry)
        for path, entry in sorted(entries.items())
        if is_key_file(path)
    ]
    return tree_with(git, empty, kept)


def grafted(git: Git, tree: str, entries: Entries, contents: Mapping[str, bytes]) -> str:
    """Write `tree` with these entries instead of its own, and with `contents` as new files."""
    made = dict(entries)
    for path, content in contents.items():
        stored = git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=content)
        mode = (entries.get(path) or ("100644", ""))[0]
        made[path] = (mode, stored.decode("ascii").strip())
    edits = [Edit(path=path, before=None, after=entry) for path, entry in sorted(made.items())]
    return tree_with(git, tree, edits)


__all__ = ["grafted", "key_tree"]
