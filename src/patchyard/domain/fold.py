"""What is so, as a pure fold over what has happened: one handler for each event."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from patchyard.domain import checkpoint_fold, judging_fold, spending_fold, steering_fold, usage_fold
from patchyard.domain.analysis import TaskAnalysed
from patchyard.domain.assessing import TaskAssessed
from patchyard.domain.errors import JournalBroken
from patchyard.domain.events import (
    Applied,
    ApplyIntended,
    BaseRecorded,
    ChangeSetCaptured,
    DecisionRecorded,
    EnvironmentEnded,
    EnvironmentStarted,
    Event,
    InvariantChecked,
    InvariantDeclared,
    LimitsChanged,
    Moved,
    PhaseFailed,
    Placed,
    PlanCreated,
    Resumed,
    SetupFinished,
    StrategyRecorded,
    ToolCallRequested,
    ToolCallSettled,
    TurnRequested,
    TurnTaken,
    Unapplied,
    Validated,
    WorkspaceCreated,
    WorkspaceRemoved,
    WorkSummarised,
)
from patchyard.domain.plan import Phase, State, check_transition
from patchyard.domain.preference import PreferenceFell
from patchyard.domain.queue import Taken
from patchyard.domain.records import completed, replace
from patchyard.domain.state import LiveEnvironment, PlanState
from patchyard.domain.steering import Forked
from patchyard.domain.steps import StepEnded
from patchyard.domain.traffic import PLACES, NetworkUsed, summed


def fold(state: PlanState, events: Iterable[tuple[int, float, Event]]) -> PlanState:
    """Return `state` after `events`, each with its version and time. Pure.

    Raises JournalBroken when a version is missing, GuardRefused on a forbidden transition.
    """
    seconds = state.spent.seconds
    for version, at, event in events:
        if version != state.version + 1:
            raise JournalBroken(
                f"event {state.version + 1} of plan {state.plan_id} is missing",
                hint=f"`agents plan verify {state.plan_id}` shows everything; restore the database"
                " from a backup: nothing was changed",
            )
        after = apply(state, event, version)
        begun = 0.0 if type(event) is Forked else seconds  # a fork has spent nothing yet
        seconds = begun + _elapsed(state, event, at)
        created = at if version == 1 else state.created
        change = replace if after is state else completed
        state = change(after, version=version, updated=at, created=created)
    if seconds == state.spent.seconds:
        return state
    return replace(state, spent=replace(state.spent, seconds=seconds))


def _elapsed(state: PlanState, event: Event, at: float) -> float:
    """Return the seconds since the last event, if the plan was being worked on meanwhile."""
    if state.state is not State.PROCESSING or isinstance(event, (Resumed, Taken)):
        return 0.0
    return max(0.0, at - state.updated)


def apply(state: PlanState, event: Event, version: int) -> PlanState:
    """Return `state` after one `event`."""
    handler = _HANDLERS.get(type(event))
    if state.held is not None or state.awaits_room:
        state = spending_fold.settled(state, event)
    return state if handler is None else handler(state, event, version)


def _created(state: PlanState, event: PlanCreated, _version: int) -> PlanState:
    return replace(state, spec=event.spec)


def _placed(state: PlanState, event: Placed, _version: int) -> PlanState:
    spec = replace(
        state.known,
        environment=event.kind,
        environment_source=event.source,
        resources=event.resources or state.known.resources,
    )
    return replace(state, spec=spec)


def _based(state: PlanState, event: BaseRecorded, _version: int) -> PlanState:
    return replace(state, base=event.base)


def _analysed(state: PlanState, event: TaskAnalysed, _version: int) -> PlanState:
    return replace(state, analysed=event)


def _assessed(state: PlanState, event: TaskAssessed, _version: int) -> PlanState:
    """Limits that were set by hand meanwhile stay as they are."""
    spec, said = state.known, event.limits
    if said is not None:
        anew = {name: getattr(said, name) for name in spec.adjustable}
        spec = replace(spec, limits=replace(spec.limits, **anew))
    return replace(state, spec=spec, assessed=event)


def _moved(state: PlanState, event: Moved, version: int) -> PlanState:
    check_transition((state.phase, state.state), (event.phase, event.state))
    after = replace(state, phase=event.phase, state=event.state, reason=event.reason)
    if event.phase != state.phase:
        after = replace(after, attempt=0)
        if event.phase in {Phase.STRATEGIZE, Phase.EXECUTE} and state.phase != Phase.APPLY:
            after = replace(after, attempt_starts=version, turn=0, asked=None, rounds=0)
    if event.phase == Phase.STRATEGIZE and event.state == State.QUEUED:
        began = state.phase != Phase.ACTION
        after = replace(after, reverts=state.reverts + began, attempt_starts=version, turn=0)
        after = replace(after, asked=None, assessed=None)
    if event.state == State.PROCESSING:
        after = replace(after, attempt=after.attempt + 1)
    if event.state in {State.PROCESSING, State.COMPLETE, State.APPLIED}:
        after = replace(after, failure=None)
    return steering_fold.moved(after)


def _decided(state: PlanState, event: DecisionRecorded, _version: int) -> PlanState:
    return replace(state, decisions=(*state.decisions, event.decision))


def _checked(state: PlanState, event: InvariantChecked, _version: int) -> PlanState:
    return replace(state, invariants=(*state.invariants, event))


def _workspace(state: PlanState, event: WorkspaceCreated, _version: int) -> PlanState:
    return replace(state, workspace=event.workspace)


def _no_workspace(state: PlanState, _event: WorkspaceRemoved, _version: int) -> PlanState:
    """Its next one begins with the files of the attempt's last checkpoint."""
    steered = replace(state.steered, is_stale=False)
    last = state.checkpoints[-1:]
    is_own = bool(last) and last[0].past.attempt_starts == state.attempt_starts
    restoring = last[0].checkpoint_id if is_own else ""
    return replace(state, workspace=None, steered=steered, restoring=restoring)


def _started(state: PlanState, event: EnvironmentStarted, _version: int) -> PlanState:
    live = LiveEnvironment(handle=event.handle, purpose=event.purpose)
    name = event.handle.environment_id
    return replace(
        state,
        environments={**state.environments, name: live},
        sandbox_refs=(*state.sandbox_refs, f"{event.handle.kind}:{name}"),
        reached=state.reached | {str(event.handle.site)},
    )


def _fell(state: PlanState, event: PreferenceFell, _version: int) -> PlanState:
    return replace(state, fallen={**state.fallen, event.place: event.cause})


def _ended(state: PlanState, event: EnvironmentEnded, _version: int) -> PlanState:
    left = {k: v for k, v in state.environments.items() if k != event.environment_id}
    live = state.environments.get(event.environment_id)
    place = str(live.handle.site) if live else ""
    used = usage_fold.over(state.used, event.environment_id, event.usage, place=place)
    left_out = {**state.left_out, place: event.left_out} if live else state.left_out
    return replace(state, environments=left, used=used, left_out=left_out)


def _set_up(state: PlanState, event: SetupFinished, _version: int) -> PlanState:
    return replace(state, setup=event)


def _reached(state: PlanState, event: NetworkUsed, _version: int) -> PlanState:
    return replace(state, network=summed(state.network, event.traffic, PLACES))


def _asked(state: PlanState, event: TurnRequested, _version: int) -> PlanState:
    if state.asked is not None and state.asked.reserved_tokens:
        # The earlier answer was lost: it is budgeted as if it had been charged.
        lost = state.spent.input_tokens + state.asked.reserved_tokens
        state = replace(state, spent=replace(state.spent, input_tokens=lost))
    return steering_fold.turn_asked(replace(state, asked=event), event.told)


def _taken(state: PlanState, event: TurnTaken, _version: int) -> PlanState:
    spent = replace(
        state.spent,
        steps=state.spent.steps + 1,
        usd=state.spent.usd + (event.usd or 0.0),
        is_priced=state.spent.is_priced and (event.usd is not None or not event.asked_model),
        input_tokens=state.spent.input_tokens + event.input_tokens,
        output_tokens=state.spent.output_tokens + event.output_tokens,
    )
    rounds = state.rounds + bool(event.note)
    state = steering_fold.turn_taken(state)
    is_new = bool(event.model) and event.model not in state.models
    return replace(
        state,
        models=(*state.models, event.model) if is_new else state.models,
        turn=event.turn, calls_of_turn=0, asked=None, spent=spent, rounds=rounds, validation=None,
    )  # fmt: skip


def _called(state: PlanState, event: ToolCallRequested, _version: int) -> PlanState:
    return replace(
        state,
        open_calls={**state.open_calls, event.call_id: event},
        tool_calls=state.tool_calls + 1,
        calls_of_turn=state.calls_of_turn + 1,
    )


def _settled(state: PlanState, event: ToolCallSettled, _version: int) -> PlanState:
    left = {k: v for k, v in state.open_calls.items() if k != event.call_id}
    if event.usage is not None and event.call_id in state.open_calls:
        place = state.open_calls[event.call_id].environment_id
        state = replace(state, used=usage_fold.called(state.used, place, event.usage))
    return checkpoint_fold.settled(replace(state, open_calls=left), event)


def _strategy(state: PlanState, event: StrategyRecorded, _version: int) -> PlanState:
    return replace(state, strategy=event.summary, decision_root_id=event.decision_root_id)


def _summarised(state: PlanState, event: WorkSummarised, _version: int) -> PlanState:
    return replace(state, summary=event.summary)


def _captured(state: PlanState, event: ChangeSetCaptured, _version: int) -> PlanState:
    return replace(state, changeset=event, validation=None)


def _validated(state: PlanState, event: Validated, _version: int) -> PlanState:
    return replace(state, validation=event)


def _intended(state: PlanState, event: ApplyIntended, _version: int) -> PlanState:
    return replace(state, intended=event)


def _applied(state: PlanState, event: Applied, _version: int) -> PlanState:
    return replace(state, handed=(*state.handed, event), intended=None)


def _stepped(state: PlanState, event: StepEnded, _version: int) -> PlanState:
    return replace(state, steps=state.steps.after(event))


def _unapplied(state: PlanState, event: Unapplied, _version: int) -> PlanState:
    if event.is_begun:
        return replace(state, intended=None)
    return replace(state, handed=state.handed[:-1])


def _declared(state: PlanState, event: InvariantDeclared, _version: int) -> PlanState:
    invariants = (*state.known.invariants, event.invariant)
    return replace(state, spec=replace(state.known, invariants=invariants))


def _limited(state: PlanState, event: LimitsChanged, _version: int) -> PlanState:
    steered = replace(state.steered, heard=max(state.steered.heard, event.word))
    spec = replace(state.known, limits=event.limits, adjustable=())  # they were set by hand
    return replace(state, spec=spec, steered=steered)


def _failed(state: PlanState, event: PhaseFailed, _version: int) -> PlanState:
    if event.phase == Phase.APPLY and "written" not in event.details:  # it has changed nothing
        state = replace(state, intended=None)
    if state.asked is not None and spending_fold.is_refusal(event):
        state = replace(state, asked=replace(state.asked, reserved_tokens=0))  # nothing was lost
    is_over = state.state == State.APPLIED  # another hand-over was done before
    return state if is_over else replace(state, failure=event)


_HANDLERS: Mapping[type[Event], Callable[[PlanState, Any, int], PlanState]] = {
    PlanCreated: _created,
    Placed: _placed,
    PreferenceFell: _fell,
    BaseRecorded: _based,
    TaskAnalysed: _analysed,
    TaskAssessed: _assessed,
    InvariantDeclared: _declared,
    LimitsChanged: _limited,
    Moved: _moved,
    DecisionRecorded: _decided,
    InvariantChecked: _checked,
    WorkspaceCreated: _workspace,
    WorkspaceRemoved: _no_workspace,
    EnvironmentStarted: _started,
    EnvironmentEnded: _ended,
    SetupFinished: _set_up,
    NetworkUsed: _reached,
    TurnRequested: _asked,
    TurnTaken: _taken,
    ToolCallRequested: _called,
    ToolCallSettled: _settled,
    StrategyRecorded: _strategy,
    WorkSummarised: _summarised,
    ChangeSetCaptured: _captured,
    Validated: _validated,
    ApplyIntended: _intended,
    Applied: _applied,
    Unapplied: _unapplied,
    StepEnded: _stepped,
    PhaseFailed: _failed,
    **checkpoint_fold.HANDLERS,
    **judging_fold.HANDLERS,
    **steering_fold.HANDLERS,
    **spending_fold.HANDLERS,
}

__all__ = ["apply", "fold"]
