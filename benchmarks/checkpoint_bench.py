"""Keeping the files of a workspace where 500 were changed, and bringing them back."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.measuring import measured
from benchmarks.workspace_bench import git
from benchmarks.yard import opened
from patchyard.contracts.blobs import Blobs
from patchyard.contracts.workspace import Checkpointing, WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.manifest import Entry, applied

CHANGED = 500
PER_FOLDER = 20
NEW = 3  # of them since the checkpoint before
ROUNDS = 21


class Kept:
    """One workspace with CHANGED changed files, and its checkpoints."""

    def __init__(
        self, workspaces: Checkpointing, base: Base, ref: WorkspaceRef, blobs: Blobs
    ) -> None:
        self._workspaces = workspaces
        self._base, self._ref, self._blobs = base, ref, blobs
        self._manifest: dict[str, Entry] = {}

    async def keep(self) -> float:
        """Make one; return the milliseconds that it took."""
        started = time.perf_counter()
        delta = await self._workspaces.checkpoint(
            self._base, self._ref, self._manifest, blobs=self._blobs
        )
        applied(self._manifest, {**delta.put, **delta.touched}, delta.gone)
        return (time.perf_counter() - started) * 1000

    async def restore(self) -> float:
        """Bring back the last one; return the milliseconds that it took."""
        started = time.perf_counter()
        await self._workspaces.restore(self._base, self._ref, self._manifest, blobs=self._blobs)
        return (time.perf_counter() - started) * 1000


def write(root: Path, number: int, text: str) -> None:
    """Writes one of the files."""
    path = root / f"part{number // PER_FOLDER:02}" / f"file{number}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@asynccontextmanager
async def _prepared() -> AsyncIterator[tuple[Kept, Path]]:
    async with opened() as yard:
        repository = yard.folder / "repository"
        write(repository, 0, "VALUE = 0\n")
        for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
            git(repository, *command)
        workspaces = yard.equipment.workspaces
        base = await yard.equipment.trees.snapshot(repository)
        name = yard.equipment.clock.new_id()
        ref = await workspaces.create(base, workspace_id=name)
        root = await workspaces.open(base, ref)
        kept = Kept(workspaces, base, ref, yard.equipment.blobs.of(name))
        for number in range(CHANGED):
            write(root, number, f"VALUE = {number}\n" * 20)
        try:
            yield kept, root
        finally:
            await workspaces.remove(ref)


async def _checkpoint_ms() -> float:
    async with _prepared() as (kept, root):
        await kept.keep()
        await asyncio.sleep(0.1)
        await kept.keep()
        taken = []
        for turn in range(ROUNDS):
            for number in itertools.islice(range(turn * NEW, CHANGED), NEW):
                write(root, number, f"TURN = {turn}\n")
            taken.append(await kept.keep())
        return sorted(taken)[ROUNDS // 2]


async def _restore_ms() -> float:
    async with _prepared() as (kept, _):
        await kept.keep()
        return sorted([await kept.restore() for _ in range(5)])[2]


@measured("checkpoint, 500 changed files, 3 of them new", target=2)
def track_checkpoint() -> float:
    return asyncio.run(_checkpoint_ms())


@measured("rollback of the files, 500 changed files")
def track_restore() -> float:
    return asyncio.run(_restore_ms())
