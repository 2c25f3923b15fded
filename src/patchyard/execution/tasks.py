"""A whole task for other programs (C15), from its plan to its proof."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchyard.assembly import open_equipment
from patchyard.casting import Shared
from patchyard.domain.errors import PatchyardError, ReviewRejected
from patchyard.domain.machine import refusal_of
from patchyard.domain.review import Verdict
from patchyard.domain.views import held
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Workflow
from patchyard.execution.outcomes import Outcome
from patchyard.execution.requests import TaskExecutionRequest, asked_of, provider_of
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
    plan_id = ""
    data: Mapping[str, Any] = {}
    try:
        environ = dict(os.environ) if environ is None else environ
        model, shared = provider_of(request, environ, shared)
        async with open_equipment(environ, shared=shared) as equipment:
            asked = asked_of(request, model)
            intake = await considered(equipment, asked, environ, shared=shared)
            plan_id, _ = await made(equipment, intake.spec)
            failure = await _failure(Workflow(equipment), plan_id)
            data = held(
                await plan_data(await Ledger.open(equipment.store, equipment.clock, plan_id))
            )
        if failure is None:
            return _told(plan_id, data)
        return _failed(failure, plan_id, data)
    except BaseException as error:
        if not isinstance(error, Exception):
            raise
        return _failed(error, plan_id, data)


def _failed(error: Exception, plan_id: str, data: Mapping[str, Any]) -> TaskExecutionResult:
    known = _known(error)
    return TaskExecutionResult(
        message=known.message,
        error=known.code,
        retryable=known.retryable,
        hint=known.hint,
        plan_id=plan_id,
        data=data,
        limit=str(known.details.get("limit_name", "")),
        **_used(data),
    )


def _used(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result's fields of what a plan used, {} without a plan."""
    cost: Mapping[str, Any] = data.get("cost", {})
    return {name: cost[name] for name in USED if name in cost}


async def _failure(workflow: Workflow, plan_id: str) -> Exception | None:
    """Run a plan; return what it failed with."""
    try:
        await workflow.run(plan_id)
    except BaseException as error:
        if not isinstance(error, Exception):
            raise
        return error
    return None


class Internal(PatchyardError):
    """A failure that Patchyard has no name for."""

    code = "internal"
    default_hint = "this is a defect of Patchyard; please report it with the words above"


def _known(error: Exception) -> PatchyardError:
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


__all__ = ["USED", "Internal", "TaskExecutionResult", "carried_out", "execute_task"]
