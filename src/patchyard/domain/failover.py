"""From one model to the next when a provider fails: what counts against it, what is said. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.retry import IS_OUTAGE, PASSING_TROUBLES, is_outage

Trouble = ModelFailed | ModelUnavailable

TOO_LONG = "context_too_long"  # kinds of a model's failures, in its details
FILTERED = "filtered"
ALL_FAILED = "all_failed"
RESTING = "resting"
GRAVE = frozenset({"idle", "no_quota", "rate_limited", "timeout"})
OF_PROVIDER = frozenset({"bad_key", "dns", "no_key", "proxy", "redirected", "refused", "tls"})
NO_LIST = "no_list"
WITHOUT_LIST = frozenset({404, 405, 501})  # answers of providers that list no models
REFUSED_KEY = frozenset({401, 403})
SAID = 1000  # characters of what a provider said


class Blame(StrEnum):
    """What a failure says of its provider."""

    NONE = "none"  # of the request alone: the provider is well
    LIGHT = "light"  # it may pass with the next request
    GRAVE = "grave"  # the next request would fail too, or cost a time-out to find out


@dataclass(frozen=True, kw_only=True)
class ModelSwitched:
    """Another model of the chain is asked from here on: an event."""

    from_model: str  # PROVIDER:MODEL
    to_model: str
    code: str = ""  # of the failure, as of errors; empty: one that is preferred answers again
    kind: str = ""  # of the failure, as its details say
    message: str = ""  # at most SAID characters


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What one model of the chain came to."""

    model: str
    error: Trouble

    @property
    def kind(self) -> str:
        """The kind that the error's details say."""
        return str(self.error.details.get("kind") or "")


def blame(error: Trouble) -> Blame:
    """Return what `error` says of who was asked."""
    kind, status = error.details.get("kind"), error.details.get("status")
    if kind in {TOO_LONG, FILTERED}:
        return Blame.NONE
    if isinstance(error, ModelUnavailable) or kind in GRAVE:
        return Blame.GRAVE
    if isinstance(status, int) and 400 <= status < 500 and status != 408:
        return Blame.NONE  # it understood the request and did not want it
    return Blame.LIGHT


def is_of_model(error: Trouble) -> bool:
    """Whether another model of the same provider may well answer."""
    kind, status = error.details.get("kind"), error.details.get("status")
    is_there = kind not in OF_PROVIDER and status not in REFUSED_KEY
    return isinstance(error, ModelUnavailable) and is_there


def has_no_list(error: Trouble) -> bool:
    """Whether a provider answered that it lists no models: it is there."""
    details = error.details
    return details.get("kind") == NO_LIST or details.get("status") in WITHOUT_LIST


def is_told_by_list(error: Trouble) -> bool:
    """Whether a provider that lists its models has what `error` says was missing."""
    kind, status = error.details.get("kind"), error.details.get("status")
    return kind in OF_PROVIDER or status in REFUSED_KEY


def asked_wait_s(error: Trouble) -> float:
    """Return how many seconds the provider asked to be left alone; 0 where it said nothing."""
    asked = error.details.get("retry_after_s")
    is_number = isinstance(asked, (int, float)) and not isinstance(asked, bool)
    return max(0.0, float(asked)) if is_number and asked is not None else 0.0


def switched(from_model: str, to_model: str, failure: Failure | None) -> ModelSwitched:
    """Return the event of going on to another model; without `failure` the first is back."""
    if failure is None:
        return ModelSwitched(from_model=from_model, to_model=to_model)
    return ModelSwitched(
        from_model=from_model,
        to_model=to_model,
        code=failure.error.code,
        kind=failure.kind,
        message=failure.error.message[:SAID],
    )


def resting(model: str, wait_s: float, cause: Trouble | None) -> Trouble:
    """Return the failure of a model that is not asked, since its provider failed just before.

    It passes with time where `cause` does: a refused key stays refused.
    """
    why = f" ({cause.message[:SAID]})" if cause is not None else ""
    message = f"{model} failed before and is left alone for another {wait_s:.0f} s{why}"
    passes = cause is None or is_passing(cause)
    away = cause is None or is_outage(cause.details)
    details = {"kind": RESTING, "retry_after_s": wait_s, IS_OUTAGE: away}
    hint = "" if cause is None else cause.hint
    if isinstance(cause, ModelUnavailable):
        return ModelUnavailable(message, hint=hint, details=details)
    return ModelFailed(message, hint=hint, details=details, retryable=passes)


def all_failed(failures: Sequence[Failure]) -> Trouble:
    """Return the one error for a chain in which nobody answered; it keeps every cause.

    It passes where one of them may pass, and asks for a shorter request where that alone was
    wrong with somebody who is there.
    """
    if len(failures) == 1:
        return failures[0].error
    causes = [
        {
            "model": each.model,
            "code": each.error.code,
            "kind": each.kind,
            "message": each.error.message[:SAID],
            "hint": each.error.hint,
        }
        for each in failures
    ]
    said = "; ".join(
        each.error.message if each.kind == RESTING else f"{each.model}: {each.error.message}"
        for each in failures
    )
    hint = " | ".join(f"{each.model}: {each.error.hint}" for each in failures if each.error.hint)
    waits = [asked_wait_s(each.error) for each in failures if is_passing(each.error)]
    details: dict[str, object] = {
        "kind": _kind(failures),
        "causes": causes,
        IS_OUTAGE: any(is_outage(each.error.details) for each in failures),
    }
    shortest = min(waits, default=0.0)
    if shortest:
        details["retry_after_s"] = shortest
    message = f"none of the {len(failures)} models of the chain answered: {said}"
    if all(isinstance(each.error, ModelUnavailable) for each in failures):
        return ModelUnavailable(message, hint=hint, details=details)
    retryable = any(is_passing(each.error) for each in failures)
    return ModelFailed(message, hint=hint, details=details, retryable=retryable)


def is_passing(error: Trouble) -> bool:
    """Whether the same request may be answered after a while."""
    return error.retryable or is_outage(error.details)


def _kind(failures: Sequence[Failure]) -> str:
    kinds = [each.kind for each in failures]
    if TOO_LONG in kinds:
        return TOO_LONG
    return next((kind for kind in kinds if kind in PASSING_TROUBLES), ALL_FAILED)


__all__ = [
    "ALL_FAILED",
    "FILTERED",
    "NO_LIST",
    "RESTING",
    "TOO_LONG",
    "Blame",
    "Failure",
    "ModelSwitched",
    "Trouble",
    "all_failed",
    "asked_wait_s",
    "blame",
    "has_no_list",
    "is_of_model",
    "is_passing",
    "is_told_by_list",
    "resting",
    "switched",
]
