"""A plan carried out again from its journal: the same calls, no model, no network.

The calls are really made, in a fresh workspace and environment on the same base and setup layer.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from patchyard.contracts.actor import Answered, Brief, Casting, Turn, Wanted
from patchyard.contracts.journal import Journal
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.budget import PlanLimits
from patchyard.domain.changeset import ChangeSet
from patchyard.domain.errors import (
    ApprovalNeeded,
    GuardRefused,
    JournalBroken,
    PatchyardError,
    Unavailable,
)
from patchyard.domain.events import ChangeSetCaptured, ToolCallSettled, WorkspaceRemoved
from patchyard.domain.lineage import REPLAYS, Kinship, Lineage
from patchyard.domain.meanings import restored
from patchyard.domain.network import NetworkGrant
from patchyard.domain.plan import AUTO, Phase, PlanSpec
from patchyard.domain.role import Role
from patchyard.domain.safety import SafetyProfile
from patchyard.domain.state import PlanState
from patchyard.domain.tooling import ASK_ROLE
from patchyard.domain.transcript import Step, in_force, transcript
from patchyard.engine.answers import whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger, load
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.recovery import CONFINED, reaches_out
from patchyard.engine.rows import read_body
from patchyard.engine.sites import general_walls
from patchyard.engine.steering import NOT_ALLOWED, REJECTED
from patchyard.engine.workflow import Workflow

NEVER_MADE = frozenset({NOT_ALLOWED, REJECTED})  # errors of calls that had no effect
CUT_SHORT = frozenset({"CANCELLED", "OUTCOME_UNKNOWN"})  # errors of calls nobody saw the end of
SHOWN = 50  # differing paths that are listed


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What a replay came to."""

    plan_id: str  # of the replay, a plan of its own
    tree: str  # that it came to
    wanted: str  # the tree of the plan itself
    paths: tuple[str, ...]  # that differ
    cut: int = 0  # calls of the plan that were cut short, which are made to their end here

    @property
    def is_same(self) -> bool:
        """Whether both came to the same change."""
        return self.tree == self.wanted


async def replay(
    equipment: Equipment, workflow: Workflow, plan_id: str, *, is_allowed: bool = False
) -> Replayed:
    """Carry the plan out again and compare.

    Raises GuardRefused where it has no change set, ApprovalNeeded where its calls may reach beyond
    the workspace (unless that `is_allowed`), Unavailable where its setup layer is gone.
    """
    original = await Ledger.open(equipment.store, equipment.clock, plan_id, is_checked=True)
    await _require_result(original)
    if not is_allowed:
        _require_confined(original.state)
    child = await _made(equipment, original.state)
    try:
        state = await workflow.run(child)
        ledger = await Ledger.open(equipment.store, equipment.clock, child)
        paths = await _differing(equipment, original, ledger)
    finally:
        await _cleared(equipment, child)
    changeset = original.state.changeset
    settled = [event for _, _, event in await original.events()]
    return Replayed(
        plan_id=child,
        tree=state.changeset.tree if state.changeset else "",
        wanted=changeset.tree if changeset else "",
        paths=paths,
        cut=sum(isinstance(e, ToolCallSettled) and e.error in CUT_SHORT for e in settled),
    )


def _require_confined(state: PlanState) -> None:
    """Raise ApprovalNeeded for a plan whose calls may have had effects elsewhere."""
    spec = state.known
    if general_walls(spec) in CONFINED and not reaches_out(spec):
        return
    raise ApprovalNeeded(
        f"the calls of plan {state.plan_id} can reach beyond the workspace: a replay does again"
        " what they did there",
        hint="say it with --yes; nothing was done",
    )


async def _require_result(original: Ledger) -> None:
    """Raise GuardRefused where the present attempt has come to no change set."""
    state = original.state
    captured = [
        version
        for version, _, event in in_force(await original.events())
        if isinstance(event, ChangeSetCaptured)
    ]
    if state.base is None or not captured or captured[-1] < state.attempt_starts:
        raise GuardRefused(
            f"plan {state.plan_id} has no change set yet: there is nothing to compare with",
            hint=f"`agents plan resume {state.plan_id}` carries it on",
        )


async def _made(equipment: Equipment, original: PlanState) -> str:
    setup = original.setup
    layers = equipment.layers
    if setup is not None and await asyncio.to_thread(layers.find, setup.key) is None:
        raise Unavailable(
            f"the setup layer of plan {original.plan_id} is not there any more",
            hint="run the task again: setup needs the package indexes, a replay has no network",
        )
    spec = spec_of_replay(original)
    ledger = await PlanLifecycleService(equipment).create(spec, base=original.base)
    if setup is not None:
        await ledger.record(replace(setup, is_cached=True, requests=0, received=0))
    return ledger.plan_id


def spec_of_replay(original: PlanState) -> PlanSpec:
    """Return a plan that makes the same calls, and proves, asks and hands over nothing."""
    return replace(
        original.known,
        agent=REPLAYS,
        charter=Role(name=original.known.role),  # its calls are made; nobody looks at them
        team=(),
        askable=(),
        network=NetworkGrant(),
        lineage=Lineage(plan_id=original.plan_id, kinship=Kinship.REPLAY),
        validate=(),
        gates=(),
        invariants=(),
        apply_to="none",
        rounds=0,
        requires_changes=False,
        adjustable=(),
        limits=PlanLimits(usd=None, tokens=None, steps=None, seconds=original.limits.seconds),
        automation_profile=AUTO,
        approvals=(),
        safety=SafetyProfile(max_retries_per_step=0),
        record_to=None,
    )


async def _differing(equipment: Equipment, original: Ledger, ledger: Ledger) -> tuple[str, ...]:
    """Return the paths that one of both changed otherwise than the other."""
    _, wanted = await Handing(equipment, original).changeset()
    _, found = await Handing(equipment, ledger).changeset()
    one, other = _entries(wanted), _entries(found)
    return tuple(sorted(p for p in {*one, *other} if one.get(p) != other.get(p))[:SHOWN])


def _entries(changeset: ChangeSet) -> Mapping[str, tuple[Any, ...]]:
    return {each.path: (each.status, each.mode, each.blob) for each in changeset.changes}


async def _cleared(equipment: Equipment, plan_id: str) -> None:
    """Take the replay's tree away: what it came to is kept."""
    async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
        if ledger.state.workspace is not None:
            workspace = restored(WorkspaceRef, ledger.state.workspace)
            async with ledger.sole():
                await whole(equipment.workspaces.remove(workspace))
            await ledger.record(WorkspaceRemoved(workspace_id=workspace.workspace_id))


async def replayer(journal: Journal, casting: Casting) -> "ReplayActor":
    """Return the actor of a replay: the turns that its parent's journal holds."""
    lineage = casting.spec.lineage
    if lineage is None:
        raise JournalBroken(f"plan {casting.plan_id} replays nothing")
    state, events = await load(journal, lineage.plan_id)
    if casting.phase == Phase.STRATEGIZE:
        return ReplayActor([Replay(turn=Turn(is_final=True, summary=state.strategy))])
    steps = transcript(events, starts=state.attempt_starts)
    replays = []
    for step in steps:
        replays.append(await _replay_of(journal, step))
        if step.calls and (await _taken(journal, step)).is_final:  # files of a colleague came then
            replays.append(await _replay_of(journal, replace(step, calls=())))
    if replays and replays[-1].turn.is_final:
        last = replays.pop()
        return ReplayActor([*replays, replace(last, turn=replace(last.turn, has_more=False))])
    return ReplayActor([*replays, Replay(turn=Turn(is_final=True, summary=state.summary))])


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One turn of the journal, and the ids that its calls had."""

    turn: Turn
    call_ids: Mapping[str, str] = field(default_factory=dict)  # by the actor's own


async def _taken(journal: Journal, step: Step) -> Turn:
    return restored(Turn, await read_body(journal, step.taken.body))


async def _replay_of(journal: Journal, step: Step) -> Replay:
    """Return the calls that were really made, or the end of a round."""
    taken = await _taken(journal, step)
    if taken.is_final and not step.calls:
        return Replay(turn=Turn(is_final=True, has_more=True, summary=taken.summary))
    made = [
        (call, settled)
        for call, settled in step.calls
        if _was_made(settled) and call.name != ASK_ROLE  # nobody is asked again
    ]
    calls = [
        Wanted(ref=call.ref, name=call.name, arguments=await read_body(journal, call.arguments))
        for call, _ in made
    ]
    return Replay(
        turn=Turn(calls=tuple(calls)), call_ids={call.ref: call.call_id for call, _ in made}
    )


def _was_made(settled: ToolCallSettled | None) -> bool:
    return settled is None or settled.error not in NEVER_MADE


class ReplayActor:
    """contracts.actor.Actor: thinks nothing."""

    def __init__(self, replays: Sequence[Replay]) -> None:
        self._replays = replays

    async def begin(self, brief: Brief) -> "ReplaySession":  # noqa: ARG002 - all is in the journal
        """Open a session at the first turn."""
        return ReplaySession(self._replays)


class ReplaySession:
    """contracts.actor.Session: gives the journalled turns in order, with the ids of this life."""

    def __init__(self, replays: Sequence[Replay]) -> None:
        self._replays = replays
        self._next = 0
        self._ids: dict[str, str] = {}  # of calls: from then to now

    async def next(self, answers: Sequence[Answered], *, note: str = "") -> Turn:  # noqa: ARG002 - no word changes it
        """Return the next turn of the journal."""
        self._hear(answers)
        turn = self._replays[min(self._next, len(self._replays) - 1)].turn
        self._next += 1
        calls = [replace(call, arguments=self._now(call.arguments)) for call in turn.calls]
        return replace(turn, calls=tuple(calls))

    async def restore(self, turn: Turn, answers: Sequence[Answered], *, note: str = "") -> None:
        """Go one turn on."""
        await self.next(answers, note=note)
        del turn  # it is the one that was just given

    async def close(self) -> None:
        """There is nothing to end."""

    def _hear(self, answers: Sequence[Answered]) -> None:
        before = self._replays[self._next - 1].call_ids if self._next else {}
        for answer in answers:
            if answer.ref in before:
                self._ids[before[answer.ref]] = answer.result.call_id

    def _now(self, value: Any) -> Any:
        """Return arguments with the ids of earlier calls (and so of jobs) as they are now."""
        if isinstance(value, str):
            return self._ids.get(value, value)
        if isinstance(value, Mapping):
            return {key: self._now(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._now(item) for item in value]
        return value


class ReplayDiffers(PatchyardError):
    """The replay came to another change set than the plan."""

    code = "replay_differs"


__all__ = [
    "NEVER_MADE",
    "SHOWN",
    "Replay",
    "ReplayActor",
    "ReplayDiffers",
    "ReplaySession",
    "Replayed",
    "replay",
    "replayer",
    "spec_of_replay",
]
