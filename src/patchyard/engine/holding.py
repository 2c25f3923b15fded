"""The trees that gates run on: the result with the base's settings, and with the base's tests."""

from collections.abc import Iterable
from dataclasses import dataclass

from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.gates import Gate
from patchyard.domain.held import (
    LINK,
    MIXED,
    Entries,
    Entry,
    held_settings,
    held_tests,
    mixed,
    old_entry,
)
from patchyard.domain.held_parts import with_base_settings

LARGEST = 4 * 1024 * 1024  # bytes of a settings file that is put together


@dataclass(frozen=True, kw_only=True)
class Held:
    """What gates look at instead of the bare result."""

    tree: str
    paths: tuple[str, ...] = ()  # whose settings are the base's
    tests_tree: str = ""  # with the base's own tests too; empty: none of them was touched


async def hold(
    trees: Trees,
    base: Base,
    changeset: ChangeSet,
    gates: Iterable[Gate],
    *,
    allowed: tuple[str, ...],
) -> Held:
    """Put the trees together. What the user allowed to change counts as it is."""
    further = [glob for gate in gates for glob in gate.from_base]
    links = await trees.links(base, changeset)
    entries: dict[str, Entry | None] = dict(
        held_settings(changeset.changes, further=further, allowed=allowed, links=links)
    )
    contents: dict[str, bytes] = {}
    for change in mixed(changeset.changes, allowed=allowed, links=links):
        before, after = (
            await _text(trees, base, change.old_blob),
            await _text(trees, base, change.blob),
        )
        name = change.path.rpartition("/")[2]
        is_text = before is not None and after is not None and change.mode != LINK
        is_known = is_text and name in MIXED  # another name, by a link: the base's whole file
        merged = with_base_settings(name, before or "", after or "") if is_known else None
        if merged is None:
            entries[change.path] = old_entry(change)
        elif merged != after:
            contents[change.path] = merged.encode("utf-8", "surrogateescape")
    tree = await _grafted(trees, base, changeset.tree, entries, contents)
    tests = held_tests(changeset.changes, allowed=allowed, links=links)
    tests_tree = await trees.grafted(base, tree, tests, {}) if tests else ""
    return Held(tree=tree, paths=tuple(sorted({*entries, *contents})), tests_tree=tests_tree)


async def _grafted(
    trees: Trees, base: Base, tree: str, entries: Entries, contents: dict[str, bytes]
) -> str:
    return await trees.grafted(base, tree, entries, contents) if entries or contents else tree


async def _text(trees: Trees, base: Base, blob: str | None) -> str | None:
    """Return a file as text; empty for none, None for one that is too large to be read here."""
    if blob is None:
        return ""
    if (await trees.sizes(base, [blob])).get(blob, 0) > LARGEST:
        return None
    return (await trees.blob(base, blob)).decode("utf-8", "surrogateescape")


__all__ = ["LARGEST", "Held", "hold"]
