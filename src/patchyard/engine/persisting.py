"""Trying again what fails only for a while: the same step, after a wait that the journal shows."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from patchyard.domain.errors import EnvironmentBroken, ModelFailed, ModelUnavailable, PatchyardError
from patchyard.domain.retry import is_outage, spread_of, wait_before
from patchyard.domain.state import PlanState
from patchyard.domain.steering import RetryPlanned
from patchyard.engine.ledger import Ledger
from patchyard.engine.parting import stopping_first
from patchyard.engine.steering import Steering

T = TypeVar("T")


async def persisting(
    work: Callable[[], Awaitable[T]],
    ledger: Ledger,
    steering: Steering,
    passes: Callable[[PatchyardError, PlanState], bool],
) -> T:
    """Do `work`, again after each failure that `passes`, for as often as the plan allows a step.

    A provider's outage does not count: it is waited for as long as the plan's time allows. Nothing
    is tried again once that is over, or the plan was told to stop: that is what is raised then.
    """
    number = counted = 0
    while True:
        try:
            with stopping_first():
                return await work()
        except PatchyardError as error:
            number += 1
            most = _most(error, ledger.state)
            counted += most is not None
            if (most is not None and counted > most) or not passes(error, ledger.state):
                raise
            wait_s = wait_before(number, details=error.details, spread=spread_of(ledger.plan_id))
            planned = RetryPlanned(
                code=error.code,
                message=error.message[:1000],
                number=number,
                most=most or 0,
                wait_s=wait_s,
            )
            await ledger.record(planned)
        await steering.wait(planned.wait_s)


def _most(error: PatchyardError, state: PlanState) -> int | None:
    """Return how often the same is tried again; None: until the plan's time is up."""
    most = state.known.safety.max_retries_per_step
    is_of_model = isinstance(error, (ModelFailed, ModelUnavailable))
    if most and state.limits.seconds and is_of_model and is_outage(error.details):
        return None
    return most


def model_recovers(error: PatchyardError, state: PlanState) -> bool:
    """Whether a model may answer after a while; one that never answered yet is not there."""
    if isinstance(error, ModelUnavailable):
        return is_outage(error.details) and state.spent.tokens > 0
    return error.retryable


def place_recovers(error: PatchyardError, _state: PlanState) -> bool:
    """Whether another environment may do what the lost one did not."""
    return isinstance(error, EnvironmentBroken) and error.retryable


__all__ = ["model_recovers", "persisting", "place_recovers"]
