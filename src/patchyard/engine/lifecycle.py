"""The life of plans: made, moved along the transition table, owned by one process at a time."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from patchyard.contracts.room import Room
from patchyard.domain.changeset import Base
from patchyard.domain.errors import (
    ApprovalNeeded,
    GuardRefused,
    LimitReached,
    PatchyardError,
    PlanPaused,
    ProofFailed,
    ReconciliationBlockedError,
    UnknownName,
)
from patchyard.domain.events import (
    BaseRecorded,
    InvariantDeclared,
    Moved,
    PhaseFailed,
    Placed,
    PlanCreated,
    Resumed,
)
from patchyard.domain.invariant import Invariant
from patchyard.domain.machine import UNSYNCED, has_lost_writes, refused_by_machine
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.queue import Errand, Lease, Taken, job_of, scopes_of
from patchyard.domain.resource import site_named
from patchyard.domain.routing import sites_of
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.state import PlanState
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger, Listener
from patchyard.engine.parting import stopping_first

_BEGIN = (Phase.STRATEGIZE, State.QUEUED)
_EXECUTED = (Phase.EXECUTE, State.COMPLETE)
KEPT = 3000  # characters of one detail of a failure
# What leaves a plan constrained (it may go on when something changes) and not errored.
CONSTRAINING = (LimitReached, ProofFailed, ReconciliationBlockedError)


class PlanLifecycleService:
    """Makes plans and moves them. Holds no state of its own."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment

    async def create(
        self, spec: PlanSpec, *, base: Base | None = None, plan_id: str = ""
    ) -> Ledger:
        """Make a plan, on `base` when that is known already, and queue it for strategize.

        `plan_id` is what somebody has named it already. Raises NoRoom.
        """
        self._equipment.room.require()
        require_walls(spec)
        plan_id = plan_id or self._equipment.clock.new_id()
        state = PlanState(plan_id=plan_id)
        ledger = Ledger(self._equipment.store, self._equipment.clock, state)
        queued = Moved(phase=Phase.STRATEGIZE, state=State.QUEUED)
        based = (BaseRecorded(base=base),) if base is not None else ()
        await ledger.record(PlanCreated(spec=spec), *based, queued)
        return ledger

    @asynccontextmanager
    async def owned(
        self, plan_id: str, *, errand: Errand = Errand.NONE, listener: Listener | None = None
    ) -> AsyncIterator[Ledger]:
        """Own the plan and its ledger. Raises Conflict when another process does.

        `errand` is what workers carry on should this process die.
        """
        async with self._equipment.claims.claim(plan_id, errand=errand) as hold:
            async with hold.sole():
                pass  # an owner of before has let go of what it was at
            store, clock = self._equipment.store, self._equipment.clock
            ledger = await Ledger.open(store, clock, plan_id, hold=hold)
            if listener is not None:
                ledger.listeners.append(listener)
            if hold.lease.worker:
                await ledger.record(_taken(hold.lease, ledger.state))
            yield ledger


def _taken(lease: Lease, state: PlanState) -> Taken:
    slots = scopes_of(job_of(state.plan_id, state.known), lease.worker)
    return Taken(worker=lease.worker, generation=lease.generation, slots=slots)


def require_walls(spec: PlanSpec) -> None:
    """Raise GuardRefused where a plan asks for walls and could run where there are none."""
    bare = sorted({spec.walls_at(site) for site in sites_of(spec)} & UNCONFINED)
    if spec.safety.require_sandbox and bare:
        raise GuardRefused(
            f"the safety profile requires a sandbox, and the plan could run on {', '.join(bare)}",
            hint="take another kind: `--in process`",
        )


def require_strategy(state: PlanState) -> None:
    """Raise GuardRefused unless strategize is complete (B14)."""
    if state.phase == Phase.STRATEGIZE and state.state == State.COMPLETE:
        return
    if state.phase in {Phase.EXECUTE, Phase.APPLY}:
        return
    raise GuardRefused(
        f"execute needs a complete strategize phase; the plan is at {state.phase}/{state.state}",
        hint=f"run `agents plan strategize {state.plan_id}` first",
    )


async def place(equipment: Equipment, ledger: Ledger, name: str, source: str) -> None:
    """Set the plan's level of the chain anew, unless its work is done (A12).

    Raises ContainerUnavailableError (A14), UnknownName for a place that there is not.
    """
    state = ledger.state
    holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
    project = holdings.projects.get(state.known.project or "")
    linked = project.linked(holdings.resources) if project else ()
    try:
        site = site_named(name, linked, project=state.known.project or "")
    except UnknownName as error:
        raise holdings.no_place(name, project) from error
    equipment.environment(site.kind)
    is_done = state.phase == Phase.APPLY or (state.phase, state.state) == _EXECUTED
    if not is_done and name != state.known.environment:
        usable = tuple(each for each in linked if each.site is not None)
        await ledger.record(Placed(kind=name, source=source, resources=usable))


async def declare(ledger: Ledger, invariant: Invariant) -> None:
    """Add an invariant to a plan. Raises GuardRefused once strategize has begun with the others."""
    state = ledger.state
    if (state.phase, state.state) not in {_BEGIN, (Phase.ACTION, State.QUEUED)}:
        raise GuardRefused(
            f"plan {state.plan_id} is at {state.phase}/{state.state}: its invariants are settled",
            hint="make the plan with `agents plan use --no-strategize`, then add them",
        )
    await ledger.record(InvariantDeclared(invariant=invariant))


def require_result(state: PlanState) -> None:
    """Raise GuardRefused unless execute is complete, so that there is something to hand over."""
    if state.phase == Phase.APPLY:
        return
    if state.phase == Phase.EXECUTE and state.state == State.COMPLETE:
        return
    raise GuardRefused(
        f"apply needs a complete execute phase; the plan is at {state.phase}/{state.state}",
        hint=f"look at `agents plan status {state.plan_id}`; `agents plan resume` carries it on",
    )


def has_steps(state: PlanState) -> bool:
    """Whether the present phase has steps of an earlier life to take up."""
    return state.turn > 0 or state.asked is not None


async def begin(ledger: Ledger, phase: Phase) -> None:
    """Bring the plan to `phase`/processing."""
    state = ledger.state
    if (state.phase, state.state) == (phase, State.PROCESSING):
        await ledger.record(Resumed(process=os.getpid()))
    elif state.phase == phase and state.state != State.COMPLETE:
        await ledger.record(Moved(phase=phase, state=State.PROCESSING))
    else:
        queued = Moved(phase=phase, state=State.QUEUED)
        await ledger.record(queued, Moved(phase=phase, state=State.PROCESSING))


@asynccontextmanager
async def settling(ledger: Ledger, phase: Phase, room: Room) -> AsyncIterator[None]:
    """Turn what ends a phase early into the plan's state, with the reason (B7, B8)."""
    try:
        with stopping_first():
            yield
    except (ApprovalNeeded, PlanPaused):
        await ledger.flush()
        raise  # the plan is held where it is
    except PatchyardError as error:
        state = State.CONSTRAINED if isinstance(error, CONSTRAINING) else State.ERRORED
        room.explained(error)
        moved = Moved(phase=phase, state=state, reason=error.message[:500])
        await ledger.record(failure_of(phase, error), moved)
        raise
    except OSError as refused:
        if isinstance(refused, TimeoutError):
            raise
        named = room.explained(refused_by_machine(refused))
        named.__cause__ = refused
        moved = Moved(phase=phase, state=State.ERRORED, reason=named.message[:500])
        await ledger.record(failure_of(phase, named), moved)
        raise named from refused


def failure_of(phase: Phase, error: PatchyardError) -> PhaseFailed:
    """Return the event that says what ended `phase` early."""
    return PhaseFailed(
        phase=phase,
        code=error.code,
        message=error.message[:4000],
        hint=error.hint[:1000],
        details={
            "retryable": error.retryable,
            **({UNSYNCED: True} if has_lost_writes(error) else {}),
            **_plain(error.details),
        },
        exit_code=error.exit_code,
    )


def _plain(details: Mapping[str, Any]) -> dict[str, Any]:
    """Each detail as JSON holds it; all else, and what is too long, as the end of its text.

    Of an output that is where the cause stands.
    """
    kept = {}
    for key, value in details.items():
        plain = sorted(map(str, value)) if isinstance(value, (set, frozenset)) else value
        kept[key] = plain if _is_plain(plain) and len(str(plain)) <= KEPT else str(plain)[-KEPT:]
    return kept


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int, float))


__all__ = [
    "CONSTRAINING",
    "KEPT",
    "PlanLifecycleService",
    "begin",
    "declare",
    "failure_of",
    "has_steps",
    "place",
    "require_result",
    "require_strategy",
    "require_walls",
    "settling",
]
