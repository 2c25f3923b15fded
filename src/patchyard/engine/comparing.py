"""What a change set did to lines, and the texts that findings on them are compared by."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base, ChangeSet, ChangeStatus
from patchyard.domain.gate_verdicts import Ground
from patchyard.domain.patch_lines import PatchLines, patch_lines

MOST_FILES = 2000  # of which lines are told apart; in the others every line counts as changed
MOST_READ = 500  # files whose text is looked at
LARGEST = 8 * 1024 * 1024  # bytes of such a file

Blobs = Mapping[str, str]  # by path


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The lines of changed files, by their paths on each side."""

    before: Mapping[str, Sequence[str]] = field(default_factory=dict)
    after: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change set by its lines."""

    lines: PatchLines
    ground: Ground
    before: Blobs  # of changed files
    after: Blobs

    async def texts(self, trees: Trees, base: Base, paths: Collection[str]) -> Texts:
        """Return the texts of those of `paths` that were changed."""
        return Texts(
            before=await _texts(trees, base, self.before, paths),
            after=await _texts(trees, base, self.after, paths),
        )


async def survey(trees: Trees, base: Base, changeset: ChangeSet) -> Change:
    """Return the change set by its lines, read from trees of ours alone."""
    texts = [each for each in changeset.changes if not each.is_binary]
    paths = [path for each in texts[:MOST_FILES] for path in (each.path, each.old_path) if path]
    patch = await trees.diff(base, changeset, paths=paths) if paths else b""
    lines = patch_lines(patch)
    changed: dict[str, frozenset[int] | None] = {
        path: frozenset(added) for path, added in lines.added.items()
    }
    for each in (*texts[MOST_FILES:], *(one for one in changeset.changes if one.is_binary)):
        changed[each.path] = None
    before, after = {}, {}
    for each in texts:
        old = each.old_path or each.path
        if each.status != ChangeStatus.ADDED and each.old_blob:
            before[old] = each.old_blob
        if each.blob:
            after[each.path] = each.blob
    renamed = {each.old_path: each.path for each in changeset.changes if each.old_path}
    ground = Ground(changed=changed, renamed=renamed)
    return Change(lines=lines, ground=ground, before=before, after=after)


async def _texts(
    trees: Trees, base: Base, blobs: Blobs, paths: Collection[str]
) -> Mapping[str, Sequence[str]]:
    found = {}
    for path in sorted(blobs.keys() & set(paths))[:MOST_READ]:
        content = await trees.blob(base, blobs[path])
        if len(content) <= LARGEST:
            found[path] = content.decode("utf-8", "replace").split("\n")
    return found


__all__ = ["LARGEST", "MOST_FILES", "MOST_READ", "Change", "Texts", "survey"]
