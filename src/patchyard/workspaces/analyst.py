"""Reads a base for the task at hand: what it is, how it is worked on, and the map of it."""

import asyncio
import threading
from pathlib import Path

from patchyard.contracts.analyst import Study
from patchyard.domain.analysis import Guide
from patchyard.domain.changeset import Base
from patchyard.domain.mcp import cleaned
from patchyard.domain.repository_context import OWNERS, owners_of
from patchyard.domain.repository_map import chosen, sought_in
from patchyard.domain.task_words import named_in
from patchyard.workspaces.map_making import GUIDES_CHARS, glanced_at, looked_at
from patchyard.workspaces.map_store import Known, MapStore
from patchyard.workspaces.pinned import GitTrees

FOLDER = "map"  # beside the store of a repository, with which it goes
GUIDE_CHARS = 4000  # of one guide


class GitAnalyst:
    """contracts.analyst.Analyst over our trees."""

    def __init__(self, trees: GitTrees) -> None:
        self._trees = trees

    async def study(self, base: Base, task: str, *, tokens: int) -> Study:
        """See contracts.analyst."""
        gone = threading.Event()
        try:
            return await asyncio.to_thread(self._study, base, task, tokens, gone)
        finally:
            gone.set()

    def _study(self, base: Base, task: str, tokens: int, gone: threading.Event) -> Study:
        git = self._trees.git_of(base)
        kept = MapStore(Path(base.store).parent / FOLDER)
        known = kept.load(base.tree)
        is_cached = known is not None
        if known is None:
            known = looked_at(git, base.tree, kept, gone) if tokens else glanced_at(git, base.tree)
        else:
            kept.used(base.tree)
        named = named_in(task, known.paths)
        owners = next((known.texts[place] for place in OWNERS if place in known.texts), "")
        sought = sought_in(task, named)
        return Study(
            context=known.context,
            named=named,
            owners=owners_of(owners, named),
            guides=guides_of(known),
            symbols=chosen(known.table, sought, tokens) if tokens else (),
            left_out=known.left_out,
            is_cached=is_cached,
        )


def guides_of(known: Known) -> tuple[Guide, ...]:
    """Return the guides with as much of their texts as there is room for; one text once."""
    found: list[Guide] = []
    room = GUIDES_CHARS
    seen: set[str] = set()
    for path in known.context.guides:
        whole = cleaned(known.texts.get(path, "")).strip()
        text = whole[: min(room, GUIDE_CHARS)]
        if text and whole not in seen:
            seen.add(whole)
            room -= len(text)
            found.append(Guide(path=path, text=text, cut=len(whole) - len(text)))
    return tuple(found)


__all__ = ["FOLDER", "GUIDE_CHARS", "GitAnalyst", "guides_of"]
