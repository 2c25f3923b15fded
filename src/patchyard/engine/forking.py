"""A new plan that begins where another one was: its files, its conversation, its strategy.

What is taken over stands in the new plan's own journal, so that nothing of it is lost with the
parent. It is written in one step: a kill leaves all of the new plan or nothing.
"""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchyard.contracts.blobs import Blobs
from patchyard.domain.assessing import TaskAssessed
from patchyard.domain.checkpoint import CheckpointMade, FilesRestored, RolledBack
from patchyard.domain.errors import GuardRefused, UsageError
from patchyard.domain.events import (
    BaseRecorded,
    ChangeSetCaptured,
    DecisionRecorded,
    Event,
    InvariantChecked,
    Moved,
    PlanCreated,
    SetupFinished,
    StrategyRecorded,
    ToolCallRequested,
    ToolCallSettled,
    TurnRequested,
    TurnTaken,
    Validated,
    WorkSummarised,
)
from patchyard.domain.fold import fold
from patchyard.domain.lineage import REPLAYS, Kinship, Lineage
from patchyard.domain.marks import Mark
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.domain.steering import Commented, Forked, Guided, Reverted
from patchyard.domain.transcript import Row, in_force
from patchyard.engine.answers import whole
from patchyard.engine.checkpoints import require_contents
from patchyard.engine.commenting import comments_on
from patchyard.engine.directing import require_guidance, require_listener
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import PLAN, Ledger
from patchyard.engine.listed import summary
from patchyard.engine.manifests import read_manifest
from patchyard.engine.rolling_back import find_mark
from patchyard.engine.rows import to_row

STEP_DIGITS = 9  # of a step; a longer number is the beginning of a checkpoint's name
TAKEN_OVER = (
    BaseRecorded,
    ChangeSetCaptured,
    CheckpointMade,
    DecisionRecorded,
    FilesRestored,
    Guided,
    InvariantChecked,
    Moved,
    Reverted,
    RolledBack,
    SetupFinished,
    StrategyRecorded,
    TaskAssessed,
    ToolCallRequested,
    ToolCallSettled,
    TurnRequested,
    TurnTaken,
    Validated,
    WorkSummarised,
)
"""Kinds of events that a fork begins with; environments, hand-overs and the like are not its."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Where a fork begins."""

    version: int  # of the last event that is taken over
    mark: Mark | None = None  # None: before anything was written


def require_thinker(state: PlanState) -> None:
    """Raise GuardRefused for a replay: nobody thinks in it."""
    lineage = state.known.lineage
    if state.known.agent == REPLAYS and lineage is not None:
        raise GuardRefused(
            f"plan {state.plan_id} is a replay, which has no actor to go on with",
            hint=f"take the plan that it replayed: {lineage.plan_id}",
        )


async def fork(
    equipment: Equipment,
    plan_id: str,
    *,
    at: str = "",
    model: str = "",
    kinship: Kinship = Kinship.FORK,
    guidance: Sequence[str] = (),
) -> str:
    """Make a plan that begins where `plan_id` was at `at`, and return its id.

    Raises GuardRefused where there is nothing to begin from, UsageError and UnknownName for an
    `at` that there is not, JournalBroken when an event or a content is not as it was written,
    NoRoom where no plan may begin.
    """
    equipment.room.require()
    ledger = await Ledger.open(equipment.store, equipment.clock, plan_id, is_checked=True)
    require_thinker(ledger.state)
    events = await ledger.events()
    point = _point(ledger.state, events, at)
    child = equipment.clock.new_id()
    rows = taken_over(events, point)
    await _shared(equipment, ledger, point, rows, child)
    spec = _spec(ledger.state, point, model=model, kinship=kinship)
    said = tuple(
        Guided(guidance_id=equipment.clock.new_id(), text=text, source=str(kinship))
        for text in guidance
    )
    ending = (*_back_to(rows, point), Forked(parent_id=plan_id, version=point.version), *said)
    await _write(equipment, child, [PlanCreated(spec=spec), *rows, *ending])
    return child


async def retry(equipment: Equipment, plan_id: str, text: str = "", *, model: str = "") -> str:
    """Fork from the last checkpoint, with `text` and the comments on lines as guidance.

    Raises UsageError where there is neither, GuardRefused for an actor that takes no word.
    """
    ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
    require_listener(ledger.state)
    comments = [_remark(each) for each in comments_on(ledger.state)]
    if text:
        require_guidance(text)
    guidance = [*([text] if text else []), *comments]
    if not guidance:
        raise UsageError(
            "there is nothing to tell the next try",
            hint=f"give a text: `agents plan retry {plan_id} TEXT`; or comment lines before it:"
            f" `agents plan diff {plan_id} --comment FILE:LINE TEXT`",
        )
    return await fork(equipment, plan_id, model=model, kinship=Kinship.RETRY, guidance=guidance)


def _remark(said: Commented) -> str:
    return f"{said.path}, line {said.line}: {said.text}"


def _point(state: PlanState, events: Sequence[Row], at: str) -> Point:
    marks = state.checkpoints
    if at == "0" or (not at and not marks):
        return Point(version=_planned(state, events))
    if not at:
        mark = marks[-1]
    elif at.isdecimal() and len(at) <= STEP_DIGITS:
        mark = _mark_after(state, int(at))
    else:
        mark = find_mark(state, at)
    return Point(version=mark.version, mark=mark)


def _mark_after(state: PlanState, step: int) -> Mark:
    """Return the first checkpoint that holds what step `step` came to."""
    own = [m for m in state.checkpoints if m.past.attempt_starts == state.attempt_starts]
    if not own or step > state.turn:
        raise UsageError(
            f"plan {state.plan_id} has no step {step} to begin from",
            hint=f"it has taken {state.turn}; 0 begins execute anew",
        )
    return next((mark for mark in own if mark.turn > step), own[-1])


def _planned(state: PlanState, events: Sequence[Row]) -> int:
    """Return the version at which the plan's strategy was complete."""
    complete = [
        version
        for version, _, event in in_force(events)
        if isinstance(event, Moved)
        and (event.phase, event.state) == (Phase.STRATEGIZE, State.COMPLETE)
    ]
    if not complete or (state.phase == Phase.STRATEGIZE and state.state != State.COMPLETE):
        raise GuardRefused(
            f"plan {state.plan_id} has no strategy yet: there is nothing to begin from",
            hint=f"`agents plan resume {state.plan_id}` carries it on",
        )
    return complete[-1]


def taken_over(events: Sequence[Row], point: Point) -> list[Event]:
    """Return the events in force up to `point` as the new plan tells them: without detours."""
    kept: list[Event] = []
    for _, _, event in in_force([row for row in events if row[0] <= point.version]):
        if isinstance(event, Guided):
            kept.append(replace(event, word=0))  # the new plan has words of its own
        elif isinstance(event, RolledBack):
            kept.append(replace(event, version=_version_of(kept, event.checkpoint_id)))
        elif isinstance(event, TAKEN_OVER):
            kept.append(event)
    return kept


def _back_to(rows: Sequence[Event], point: Point) -> Sequence[Event]:
    """Return the event that brings files and conversation to the checkpoint."""
    if point.mark is None:
        return ()
    checkpoint_id = point.mark.checkpoint_id
    version = _version_of(rows, checkpoint_id)
    return (RolledBack(checkpoint_id=checkpoint_id, version=version, reason="forked"),)


def _version_of(rows: Sequence[Event], checkpoint_id: str) -> int:
    """Return the version that a checkpoint has in the new plan, after its PlanCreated."""
    for number, event in enumerate(rows, start=2):
        if isinstance(event, CheckpointMade) and event.checkpoint_id == checkpoint_id:
            return number
    raise GuardRefused(f"checkpoint {checkpoint_id} was passed over by a rollback")


def _spec(state: PlanState, point: Point, *, model: str, kinship: Kinship) -> PlanSpec:
    at = point.mark.checkpoint_id if point.mark is not None else ""
    lineage = Lineage(plan_id=state.plan_id, kinship=kinship, checkpoint_id=at)
    return with_model(replace(state.known, lineage=lineage, record_to=None), model)


def with_model(spec: PlanSpec, model: str) -> PlanSpec:
    """Return `spec` with another model, where one is named."""
    return replace(spec, agent="model", model=model) if model else spec


async def _shared(
    equipment: Equipment, ledger: Ledger, point: Point, rows: Sequence[Event], child: str
) -> None:
    """Let the new plan have the contents that its checkpoints name."""
    if point.mark is None:
        return
    checkpoint_id = point.mark.checkpoint_id
    await require_contents(equipment, ledger, checkpoint_id)
    digests: set[str] = set()
    for event in rows:
        if isinstance(event, CheckpointMade):
            put, _ = await read_manifest(ledger, event.manifest)
            digests |= {entry.digest for entry in put.values()}
    source, target = equipment.blobs.of(ledger.plan_id), equipment.blobs.of(child)
    await whole(asyncio.to_thread(_copied, source, target, sorted(digests - {""})))


def _copied(source: Blobs, target: Blobs, digests: Sequence[str]) -> None:
    """Copy contents from one space into another; they are on disk then."""
    with target.writing() as writer:
        for digest in digests:
            with tempfile.TemporaryFile() as content:
                source.copy(digest, content.fileno())
                os.lseek(content.fileno(), 0, os.SEEK_SET)
                writer.keep(content.fileno(), like=digest)


async def _write(equipment: Equipment, child: str, events: Sequence[Event]) -> None:
    """Append the whole plan at once; what it cost was paid by its parent."""
    at = equipment.clock.now()
    numbered = [(number, at, event) for number, event in enumerate(events, start=1)]
    state = fold(PlanState(plan_id=child), numbered)
    bodies: dict[str, bytes] = {}
    rows = [to_row(event, PLAN, at, bodies) for event in events]
    await equipment.store.journal.append(child, 0, rows, bodies=bodies, summary=summary(state))


__all__ = [
    "TAKEN_OVER",
    "Point",
    "fork",
    "require_thinker",
    "retry",
    "taken_over",
    "with_model",
]
