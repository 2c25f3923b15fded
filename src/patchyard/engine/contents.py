"""Looks whether what a plan's events name outside the journal is there and as it was written.

That is the contents of its checkpoints, and the trees of base and result. Nothing is mended.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby

from patchyard.domain.checkpoint import CheckpointMade
from patchyard.domain.errors import JournalBroken, named_paths
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.manifests import read_manifest


async def inspect_contents(equipment: Equipment, ledger: Ledger) -> Sequence[str]:
    """Return what is lost or altered, a sentence for each checkpoint and tree."""
    return [*await _of_checkpoints(equipment, ledger), *await _of_trees(equipment, ledger)]


async def _of_checkpoints(equipment: Equipment, ledger: Ledger) -> Sequence[str]:
    """Look at each content once, by the checkpoint that named it first."""
    blobs = equipment.blobs.of(ledger.plan_id)
    known: set[str] = set()  # checkpoints and contents
    found: list[str] = []
    for _, _, event in await ledger.events():
        if not isinstance(event, CheckpointMade):
            continue
        made = event.checkpoint_id
        if event.previous and event.previous not in known:
            found.append(f"checkpoint {made} is a difference to {event.previous}, which is lost")
        known.add(made)
        try:
            put, _ = await read_manifest(ledger, event.manifest)
        except JournalBroken as error:
            found.append(f"checkpoint {made}: {error.message}")
            continue
        named = {entry.digest: path for path, entry in put.items()}
        lost = []
        for digest in sorted(named.keys() - known - {""}):
            known.add(digest)
            try:
                await asyncio.to_thread(blobs.require, digest)
            except JournalBroken as error:
                lost.append((str(error.details["how"]), named[digest]))
        found += [f"checkpoint {made}: {each}" for each in _told(sorted(lost))]
    return found


def _told(lost: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a sentence for each way in which contents are lost."""
    for how, entries in groupby(lost, key=lambda each: each[0]):
        yield f"the content of {named_paths([path for _, path in entries])} is {how}"


async def _of_trees(equipment: Equipment, ledger: Ledger) -> Sequence[str]:
    state = ledger.state
    if state.base is None:
        return ()
    wanted = {"base": state.base.tree}
    if state.changeset is not None:
        wanted["result"] = state.changeset.tree
    found = []
    for name, tree in wanted.items():
        lost = await equipment.trees.lost(state.base, tree)
        if lost:
            found.append(f"the {name} lost {named_paths(lost)} in {state.base.store}")
    return found


__all__ = ["inspect_contents"]
