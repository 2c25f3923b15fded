"""What a failure says of its provider, and the one error for a chain in which nobody answered."""

import pytest

from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.failover import (
    TOO_LONG,
    Blame,
    Failure,
    Trouble,
    all_failed,
    blame,
    is_of_model,
    is_passing,
    resting,
    switched,
)
from patchyard.domain.retry import is_outage


def failed(kind: str = "", *, retryable: bool = False, **details: object) -> ModelFailed:
    return ModelFailed("no", details={"kind": kind, **details}, retryable=retryable)


def away(kind: str = "", **details: object) -> ModelUnavailable:
    return ModelUnavailable("gone", hint="come", details={"kind": kind, **details})


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (failed("context_too_long", status=400), Blame.NONE),
        (failed("filtered"), Blame.NONE),
        (failed("status", status=400), Blame.NONE),
        (failed("status", status=408), Blame.LIGHT),
        (failed("status", status=500), Blame.LIGHT),
        (failed("cut"), Blame.LIGHT),
        (failed("rate_limited", status=429), Blame.GRAVE),
        (failed("timeout"), Blame.GRAVE),
        (failed("idle"), Blame.GRAVE),
        (away("refused"), Blame.GRAVE),
    ],
)
def test_blame(error: Trouble, found: Blame) -> None:
    assert blame(error) == found


def test_a_missing_model_is_no_fault_of_its_provider() -> None:
    assert is_of_model(away("status", status=404))
    assert not is_of_model(away("status", status=401))
    assert not is_of_model(away("refused"))
    assert not is_of_model(failed("status", status=500))


def test_one_error_keeps_every_cause() -> None:
    found = all_failed(
        [
            Failure(model="a:1", error=away("refused")),
            Failure(model="b:2", error=failed("rate_limited", retryable=True, retry_after_s=7.0)),
        ]
    )
    assert isinstance(found, ModelFailed)
    assert found.retryable
    assert found.message == "none of the 2 models of the chain answered: a:1: gone; b:2: no"
    assert [cause["model"] for cause in found.details["causes"]] == ["a:1", "b:2"]
    assert "retry_after_s" not in found.details  # the first may be back sooner
    assert is_outage(found.details)


def test_the_shortest_wait_that_was_asked_for_counts() -> None:
    waits = (9.0, 7.0)
    causes = [failed("rate_limited", retryable=True, retry_after_s=wait) for wait in waits]
    found = all_failed([Failure(model=f"{n}:m", error=each) for n, each in enumerate(causes)])
    assert found.details["retry_after_s"] == 7.0


def test_where_nobody_is_there_it_says_so() -> None:
    causes = [Failure(model=f"{n}:m", error=away("status", status=401)) for n in "ab"]
    found = all_failed(causes)
    assert isinstance(found, ModelUnavailable)
    assert (found.exit_code, found.hint) == (4, "a:m: come | b:m: come")
    assert not is_outage(found.details)
    assert all_failed(causes[:1]) is causes[0].error


def test_who_is_left_alone_since_nobody_was_there_is_still_not_there_and_may_come_back() -> None:
    left = resting("a:m", 20.0, away("refused"))
    found = all_failed(
        [Failure(model="a:m", error=left), Failure(model="b:m", error=away("refused"))]
    )
    assert (left.exit_code, found.exit_code) == (4, 4)
    assert is_passing(left)
    assert is_outage(found.details)
    mixed = [Failure(model="a:m", error=left), Failure(model="b:m", error=failed("status"))]
    assert (all_failed(mixed).exit_code, all_failed(mixed).retryable) == (1, True)


def test_a_request_that_is_too_long_for_who_is_there_is_to_be_shortened() -> None:
    causes = [
        Failure(model="a:1", error=away("refused")),
        Failure(model="b:2", error=failed(TOO_LONG)),
    ]
    assert all_failed(causes).details["kind"] == TOO_LONG


def test_a_switch_says_why_and_a_return_does_not() -> None:
    event = switched("a:1", "b:2", Failure(model="a:1", error=away("refused")))
    assert (event.code, event.kind, event.message) == ("model_unavailable", "refused", "gone")
    assert switched("b:2", "a:1", None).code == ""
