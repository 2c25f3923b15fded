"""What a change set did to lines, and the texts that findings on them are compared by."""

import codecs
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base, ChangeSet, ChangeStatus
from patchyard.domain.changeset import Change as Entry
from patchyard.domain.gate_verdicts import Ground
from patchyard.domain.patch_lines import Lines, PatchLines, patch_lines

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
    lines = await _lines(trees, base, changeset, texts[:MOST_FILES])
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


async def unsurveyed(trees: Trees, base: Base, changeset: ChangeSet) -> AsyncIterator[PatchLines]:
    """Yield the lines that a survey leaves out: of many files, and of text that git calls binary.

    A part at a time, so that no more of them is held at once.
    """
    texts = [each for each in changeset.changes if not each.is_binary]
    for start in range(MOST_FILES, len(texts), MOST_FILES):
        yield await _lines(trees, base, changeset, texts[start : start + MOST_FILES])
    for each in changeset.changes:
        if each.is_binary:
            before = await _hidden(trees, base, each.old_blob)
            after = await _hidden(trees, base, each.blob)
            yield PatchLines(added={each.path: after}, removed={each.old_path or each.path: before})


async def _lines(
    trees: Trees, base: Base, changeset: ChangeSet, changes: Sequence[Entry]
) -> PatchLines:
    paths = [path for each in changes for path in (each.path, each.old_path) if path]
    return patch_lines(await trees.diff(base, changeset, paths=paths) if paths else b"")


async def _hidden(trees: Trees, base: Base, blob: str | None) -> Lines:
    """Return the lines of a file that is text but for its zero bytes; none of other binaries."""
    content = await trees.blob(base, blob) if blob else b""
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content[: LARGEST // 2 * 2].decode("utf-16" if is_wide else "utf-8")
    except UnicodeDecodeError:
        return {}
    return dict(enumerate(text.replace("\0", "").split("\n"), 1))


async def _texts(
    trees: Trees, base: Base, blobs: Blobs, paths: Collection[str]
) -> Mapping[str, Sequence[str]]:
    found = {}
    for path in sorted(blobs.keys() & set(paths))[:MOST_READ]:
        content = await trees.blob(base, blobs[path])
        if len(content) <= LARGEST:
            found[path] = content.decode("utf-8", "replace").split("\n")
    return found


__all__ = ["LARGEST", "MOST_FILES", "MOST_READ", "Change", "Texts", "survey", "unsurveyed"]
