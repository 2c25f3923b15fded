"""A whole task for other programs (C15), from its plan to its proof."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchyard.assembly import open_equipment
from patchyard.casting import Shared
from patchyard.domain.errors import PatchyardError, ReviewRejected, WorkFailed
from patchyard.domain.machine import refusal_of
from patchyard.domain.review import Verdict
from patchyard.domain.views import held
from patchyard.engine.equipment import Equipment
from patchyard.engine.finding import find_plan
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Workflow
from patchyard.execution.outcomes import Outcome
from patchyard.execution.requests import (
    TaskExecutionRequest,
    asked_of,
    provider_of,
    require_request,
)
from patchyard.making import considered, made

USED = ("tokens", "input_tokens", "output_tokens", "usd", "steps", "seconds")  # of `cost`


@dataclass(frozen=True, kw_only=True)
class TaskExecutionResult(Outcome):
    """How a task ended. `data` is what `agents run --format json` gives, {} without a plan.

    What was used is 0 without a plan, and has the names of the request's limits.
    """

    plan_id: str = ""
    summary: str = ""
    changed: bool = False
    tokens: int = 0  # in and out together
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0  # None: a model's price is not known
    steps: int = 0  # turns of the actors
    seconds: float = 0.0  # wall time over all phases
    limit: str = ""  # the one that stopped it: `steps`, `budget.day_usd`, `rounds`
    hint: str = ""  # what cures the failure
    data: Mapping[str, Any] = field(default_factory=dict)


async def execute_task(
    request: TaskExecutionRequest, *, environ: Mapping[str, str] | None = None
) -> TaskExecutionResult:
    """Carry a task out, from its plan to its proof.

    Each failure is told by `error`, never raised: the codes of `patchyard.domain.errors`, and
    `internal` for what Patchyard has no name for. Only a cancellation passes on.
    `environ` stands for the variables of this process: settings, keys, where the state lies.
    """
    return await carried_out(request, environ, Shared())


async def carried_out(
    request: TaskExecutionRequest, environ: Mapping[str, str] | None, shared: Shared
) -> TaskExecutionResult:
    """See `execute_task`; `shared` is what the process knows of providers."""
    known = _Known()
    try:
        require_request(request)
        environ = dict(os.environ) if environ is None else environ
        model, shared = provider_of(request, environ, shared)
        async with open_equipment(environ, shared=shared) as equipment:
            asked = asked_of(request, model, environ)
            intake = await considered(equipment, asked, environ, shared=shared)
            known.plan_id, _ = await made(equipment, intake.spec)
            await _worked(equipment, known, Workflow(equipment).run)
    except BaseException as error:
        if not isinstance(error, Exception):
            raise
        return _failed(error, known)
    return _ended(known)


async def carried_on(
    plan_id: str, environ: Mapping[str, str], shared: Shared
) -> TaskExecutionResult:
    """Carry a plan on from where it stopped; told as `execute_task` tells it."""
    known = _Known()
    try:
        async with open_equipment(environ, shared=shared) as equipment:
            summaries = equipment.store.summaries
            known.plan_id = await find_plan(summaries, plan_id, repository="")
            await _worked(equipment, known, Workflow(equipment).resume)
    except BaseException as error:
        if not isinstance(error, Exception):
            raise
        return _failed(error, known)
    return _ended(known)


@dataclass(kw_only=True)
class _Known:
    """What is known of a plan so far."""

    plan_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    failure: Exception | None = None


async def _worked(
    equipment: Equipment, known: _Known, work: Callable[[str], Awaitable[object]]
) -> None:
    """Let a plan be worked on; what it failed with and how it stands is known then."""
    known.failure = await _failure(work(known.plan_id))
    ledger = await Ledger.open(equipment.store, equipment.clock, known.plan_id)
    known.data = held(await plan_data(ledger))
    wants_one = ledger.state.known.requires_changes
    if known.failure is None and wants_one and not known.data["changed"]:
        hint = "`Task.requires_changes` asked for a change"
        known.failure = WorkFailed("nothing was changed", hint=hint)


def _ended(known: _Known) -> TaskExecutionResult:
    if known.failure is None:
        return _told(known.plan_id, known.data)
    return _failed(known.failure, known)


def _failed(error: Exception, known: _Known) -> TaskExecutionResult:
    ours = _named(error)
    return TaskExecutionResult(
        message=ours.message,
        error=ours.code,
        retryable=ours.retryable,
        hint=ours.hint,
        plan_id=known.plan_id,
        data=known.data,
        limit=str(ours.details.get("limit_name", "")),
        **_used(known.data),
    )


def _used(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result's fields of what a plan used, {} without a plan."""
    cost: Mapping[str, Any] = data.get("cost", {})
    return {name: cost[name] for name in USED if name in cost}


async def _failure(work: Awaitable[object]) -> Exception | None:
    """Let it be done; return what it failed with."""
    try:
        await work
    except BaseException as error:
        if not isinstance(error, Exception):
            raise
        return error
    return None


class Internal(PatchyardError):
    """A failure that Patchyard has no name for."""

    code = "internal"
    default_hint = "this is a defect of Patchyard; please report it with the words above"


def _named(error: Exception) -> PatchyardError:
    """Return a failure as one of ours; of several at once the first."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, (PatchyardError, OSError)):
        return refusal_of(error)
    return Internal(f"{type(error).__name__}: {error}")


def _told(plan_id: str, data: Mapping[str, Any]) -> TaskExecutionResult:
    review = data["review"]
    is_rejected = review is not None and review["verdict"] == Verdict.REQUEST_CHANGES
    return TaskExecutionResult(
        success=not is_rejected,
        error=ReviewRejected.code if is_rejected else None,
        message=f"plan {plan_id} is {data['phase']}/{data['state']}",
        plan_id=plan_id,
        summary=str(data["summary"]),
        changed=bool(data["changed"]),
        data=data,
        **_used(data),
    )


__all__ = ["USED", "Internal", "TaskExecutionResult", "carried_on", "carried_out", "execute_task"]
