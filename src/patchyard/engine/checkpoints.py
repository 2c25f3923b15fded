"""Checkpoints of a plan's files: made before what may change them, and the way back to one."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from patchyard.contracts.environment import Freezing
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base
from patchyard.domain.checkpoint import CheckpointMade, FilesRestored, Trigger
from patchyard.domain.errors import JournalBroken, named_paths
from patchyard.domain.events import Noted
from patchyard.domain.manifest import Delta, Entry, applied
from patchyard.domain.tooling import Effect
from patchyard.engine.answers import whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.manifests import manifest_body, read_manifest
from patchyard.engine.metering import bare
from patchyard.engine.places import Places, ended

NOT_KEPT = "folders whose content was not kept there are as setup left them, or gone: "
NO_ROOM = "a checkpoint has no room for the content of "
HELD_S = 10.0  # as `LONGEST_S` of toolbox/freezing.py, after which something may run again
MOST_KEPT = 20_000  # entries of a manifest that are held between rounds: about 10 MB
FEWEST_ROWS = 200  # of deltas, before the whole manifest is written once more


class Checkpoints:
    """Makes the checkpoints of one plan at work, each as a difference to the one before."""

    def __init__(
        self,
        equipment: Equipment,
        ledger: Ledger,
        ground: Callable[[], Awaitable[WorkspaceRef]],
        places: Places,
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._ground = ground
        self._places = places
        self._blobs = equipment.blobs.of(ledger.plan_id)
        self._manifest: dict[str, Entry] | None = None  # None: not read from the journal yet
        self._lacking: set[str] = set()  # files whose content is not kept
        self._last = ""  # the checkpoint that `_manifest` is of
        self._rows = 0  # of deltas since the whole manifest was written
        self._may_differ = True  # the files may have changed since

    async def before(
        self, call_id: str, tool: str, effect: Effect, *, is_install: bool = False
    ) -> str:
        """Make one before a call that may write; return the checkpoint its files are at.

        Before an install it keeps very large ignored folders too. Empty where there is none. The
        event reaches the disk together with the call's intent.
        """
        if effect == Effect.READ:
            return ""
        is_asked = Trigger.BEFORE_TOOL in self._ledger.state.known.checkpoints
        if self._may_differ and is_asked:
            await self._make(Trigger.BEFORE_TOOL, call_id=call_id, tool=tool, has_bulk=is_install)
        at = "" if self._may_differ or self._lacking else self._last
        self._may_differ = True
        return at

    async def after(self, call_id: str, tool: str, *, success: bool) -> None:
        """Make one after a call, where that was asked for."""
        wanted = self._ledger.state.known.checkpoints
        trigger = Trigger.AFTER_TOOL
        if trigger not in wanted:
            if success or Trigger.ON_ERROR not in wanted:
                return
            trigger = Trigger.ON_ERROR
        await self._make(trigger, call_id=call_id, tool=tool)

    async def end_round(self) -> None:
        """Make one of what a round of work came to."""
        if self._may_differ:
            await self._make(Trigger.PHASE, has_bulk=True)
        if self._manifest is not None and len(self._manifest) > MOST_KEPT:
            self._manifest = None  # a proof may follow; the next round reads it from the journal

    async def _make(
        self, trigger: Trigger, *, call_id: str = "", tool: str = "", has_bulk: bool = False
    ) -> None:
        manifest = await self._known()
        base, workspace = _base(self._ledger), await self._ground()
        clock = self._equipment.clock
        began, is_held = clock.monotonic(), bool(self._places.running)
        async with _stilled(self._equipment, self._places) as is_still:
            stopping = threading.Event()
            looking = self._equipment.workspaces.checkpoint(
                base,
                workspace,
                manifest,
                blobs=self._blobs,
                has_bulk=has_bulk,
                is_stopped=stopping.is_set,
            )
            delta = await whole(looking, hurry=stopping.set)
        if is_held and clock.monotonic() - began > HELD_S:
            is_still = False  # a toolbox lets go by itself
        applied(manifest, {**delta.put, **delta.touched}, delta.gone)
        self._note_lacking(delta)
        rows = len(delta.put) + len(delta.gone)
        self._rows += rows
        is_whole = not self._last or self._rows > max(FEWEST_ROWS, len(manifest))
        if is_whole:
            self._rows = 0
        made = CheckpointMade(
            checkpoint_id=self._equipment.clock.new_id(),
            trigger=trigger,
            turn=self._ledger.state.turn,
            manifest=manifest_body(*((manifest, ()) if is_whole else (delta.put, delta.gone))),
            previous="" if is_whole else self._last,
            call_id=call_id,
            tool=tool,
            files=len(manifest),
            stored=delta.stored,
            is_fuzzy=delta.is_fuzzy or not is_still,
        )
        self._ledger.note(made)
        if delta.unkept:
            named = named_paths(delta.unkept)[:1000]
            self._ledger.note(Noted(text=f"{NO_ROOM}{named}: a rollback cannot bring it back"))
        self._last = made.checkpoint_id
        self._may_differ = False

    async def _known(self) -> dict[str, Entry]:
        if self._manifest is None:
            marks = self._ledger.state.checkpoints
            self._last = marks[-1].checkpoint_id if marks else ""
            try:
                self._manifest = await manifest_of(self._ledger, self._last)
            except JournalBroken as error:  # what lies there now can still be kept, as a whole
                self._manifest, self._last = {}, ""
                self._ledger.note(Noted(text=f"{error.message}: the next one holds all files"))
            self._lacking = {path for path, entry in self._manifest.items() if entry.is_lacking}
        return self._manifest

    def _note_lacking(self, delta: Delta) -> None:
        """Remember whose content is not kept: a call over such files cannot be undone."""
        self._lacking.difference_update(delta.gone)
        for changed in (delta.put, delta.touched):
            self._lacking.difference_update(changed)
            self._lacking.update(path for path, entry in changed.items() if entry.is_lacking)

    async def restore(self, checkpoint_id: str) -> None:
        """Bring the files back. No environment may be there; the intent is journalled."""
        workspace = await self._ground()
        self._manifest = await bring_back(self._equipment, self._ledger, workspace, checkpoint_id)
        self._lacking = {path for path, entry in self._manifest.items() if entry.is_lacking}
        self._last, self._may_differ = checkpoint_id, True  # the call is about to write again


@asynccontextmanager
async def _stilled(equipment: Equipment, places: Places) -> AsyncIterator[bool]:
    """Let nothing run in any environment of the plan; yield whether that holds for all."""
    async with AsyncExitStack() as freezing:
        is_still = True
        for handle, toolbox in places.running:
            environment = equipment.environment(handle.kind)
            stands = False
            if isinstance(environment, Freezing):
                stands = await freezing.enter_async_context(
                    environment.frozen(handle, bare(toolbox))
                )
            is_still = is_still and stands
        yield is_still


async def manifest_of(ledger: Ledger, checkpoint_id: str) -> dict[str, Entry]:
    """Return all that lay there at a checkpoint. Raises JournalBroken when it is not whole."""
    if not checkpoint_id:
        return {}
    made = {
        event.checkpoint_id: event
        for _, _, event in await ledger.events()
        if isinstance(event, CheckpointMade)
    }
    manifest: dict[str, Entry] = {}
    for event in reversed(_chain(made, checkpoint_id)):
        put, gone = await read_manifest(ledger, event.manifest)
        applied(manifest, put, gone)
    return manifest


def _chain(made: Mapping[str, CheckpointMade], checkpoint_id: str) -> list[CheckpointMade]:
    """Return the checkpoint and those it is a difference to, newest first."""
    chain: list[CheckpointMade] = []
    while checkpoint_id:
        if checkpoint_id not in made or len(chain) > len(made):
            raise JournalBroken(f"checkpoint {checkpoint_id} is missing in the journal")
        chain.append(made[checkpoint_id])
        checkpoint_id = chain[-1].previous
    return chain


async def require_contents(equipment: Equipment, ledger: Ledger, checkpoint_id: str) -> None:
    """Raise JournalBroken unless all that a checkpoint names is there and as it was."""
    manifest = await manifest_of(ledger, checkpoint_id)
    blobs = equipment.blobs.of(ledger.plan_id)
    for digest in sorted({entry.digest for entry in manifest.values()} - {""}):
        await asyncio.to_thread(blobs.require, digest)


async def bring_back(
    equipment: Equipment,
    ledger: Ledger,
    workspace: WorkspaceRef,
    checkpoint_id: str,
) -> dict[str, Entry]:
    """Restore the files of a checkpoint and journal that; return what lies there now."""
    manifest = await manifest_of(ledger, checkpoint_id)
    blobs = equipment.blobs.of(ledger.plan_id)
    async with ledger.sole():
        lost = await whole(
            equipment.workspaces.restore(_base(ledger), workspace, manifest, blobs=blobs)
        )
    said = (Noted(text=NOT_KEPT + ", ".join(lost)[:1000]),) if lost else ()
    await ledger.record(FilesRestored(checkpoint_id=checkpoint_id), *said)
    return {path: entry._replace(ctime=0) for path, entry in manifest.items()}


async def finish_restore(equipment: Equipment, ledger: Ledger, workspace: WorkspaceRef) -> None:
    """Do what a killed life had only begun: nothing goes on before the files are back."""
    checkpoint_id = ledger.state.restoring
    if not checkpoint_id:
        return
    for live in list(ledger.state.environments.values()):
        await ended(equipment, ledger, live.handle, "its files are brought back")
    await bring_back(equipment, ledger, workspace, checkpoint_id)


def _base(ledger: Ledger) -> Base:
    base = ledger.state.base
    if base is None:
        raise JournalBroken("the plan has no base although it was executed")
    return base


__all__ = [
    "FEWEST_ROWS",
    "HELD_S",
    "MOST_KEPT",
    "Checkpoints",
    "bring_back",
    "finish_restore",
    "manifest_of",
    "require_contents",
]
