"""What a change set did to lines, and the texts that findings on them are compared by."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from patchyard.contracts.trees import Trees, whole
from patchyard.domain.changeset import LARGEST_TEXT, Base, ChangeSet, ChangeStatus
from patchyard.domain.changeset import Change as Entry
from patchyard.domain.gate_verdicts import Ground
from patchyard.domain.gate_words import is_source
from patchyard.domain.patch_lines import PatchLines, patch_lines
from patchyard.engine.long_texts import MOST_LINES, parts_of

# Of which lines are held at once; in what a survey leaves out every line counts as changed.
MOST_FILES = 2000
MOST_BYTES = 16 * 1024 * 1024
MOST_READ = 500  # files whose text is looked at

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
    """Return the change set by its lines, read from trees of ours alone.

    Source code comes first, of as many files, bytes and lines as can be held at once.
    """
    texts = [each for each in changeset.changes if not each.is_binary]
    surveyed = next(iter(await _parts(trees, base, texts)), ())
    lines = await _lines(trees, base, changeset, surveyed)
    changed: dict[str, frozenset[int] | None] = dict.fromkeys(
        each.path for each in changeset.changes
    )
    for each in surveyed:
        changed.pop(each.path)
    changed |= {path: frozenset(added) for path, added in lines.added.items()}
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
    """Yield the lines that a survey leaves out: of many and large files, and of text with zeros.

    A part at a time, so that no more of them is held at once.
    """
    texts = [each for each in changeset.changes if not each.is_binary]
    parts = await _parts(trees, base, texts)
    for part in parts[1:]:
        yield await _lines(trees, base, changeset, part)
    known = {each.path for part in parts for each in part}
    for each in changeset.changes:
        if each.path in known:
            continue
        if each.old_blob:
            async for lines in parts_of(trees, base, each.old_blob):
                yield PatchLines(removed={each.old_path or each.path: lines})
        if each.blob:
            async for lines in parts_of(trees, base, each.blob):
                yield PatchLines(added={each.path: lines})


async def _parts(trees: Trees, base: Base, texts: Sequence[Entry]) -> Sequence[Sequence[Entry]]:
    """Return texts by parts whose lines can be held at once, source code first.

    One with very many lines is in none.
    """
    blobs = {blob for each in texts for blob in (each.old_blob, each.blob) if blob}
    sizes = await trees.sizes(base, blobs)
    parts: list[list[Entry]] = []
    files = lines = size = 0
    for each in sorted(texts, key=lambda one: (not is_source(one.path), one.path)):
        own = each.added + each.removed
        if own > MOST_LINES:
            continue
        room = sum(sizes.get(blob or "", 0) for blob in (each.old_blob, each.blob))
        files, lines, size = files + 1, lines + own, size + room
        if not parts or files > MOST_FILES or lines > MOST_LINES or size > MOST_BYTES:
            parts.append([])
            files, lines, size = 1, own, room
        parts[-1].append(each)
    return parts


async def _lines(
    trees: Trees, base: Base, changeset: ChangeSet, changes: Sequence[Entry]
) -> PatchLines:
    paths = [path for each in changes for path in (each.path, each.old_path) if path]
    if not paths:
        return PatchLines()
    return patch_lines(await whole(trees.diff(base, changeset, paths=paths, has_binary=False)))


async def _texts(
    trees: Trees, base: Base, blobs: Blobs, paths: Collection[str]
) -> Mapping[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    wanted = sorted(blobs.keys() & set(paths))[:MOST_READ]
    sizes = await trees.sizes(base, {blobs[path] for path in wanted})
    left = MOST_BYTES
    for path in wanted:
        size = sizes.get(blobs[path], 0)
        if size <= LARGEST_TEXT and (left := left - size) >= 0:
            content = await trees.blob(base, blobs[path])
            found[path] = content.decode("utf-8", "replace").split("\n")
    return found


__all__ = ["MOST_BYTES", "MOST_FILES", "MOST_READ", "Change", "Texts", "survey", "unsurveyed"]
