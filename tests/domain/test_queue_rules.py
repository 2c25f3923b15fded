"""Which job comes next, what limits say, and how settings say them."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.faults import Fault
from patchyard.domain.plan import PlanSpec
from patchyard.domain.queue import (
    DEATHS,
    Errand,
    Job,
    Limits,
    Member,
    Seat,
    full_scope,
    job_of,
    next_job,
    scopes_of,
)
from patchyard.domain.slots import slots_of
from patchyard.engine.standing import NOBODY, Standing, waits_for

JOB = Job(job_id="a", project="shop", model="m", number=1)
SEAT = Seat(boot="b", namespace="n", pid=1, started=1)
WORKER = Member(member_id="M", name="w", seat=SEAT, beat=0.0, concurrency=1)

heads = st.lists(
    st.tuples(
        st.builds(
            Job,
            job_id=st.just("j"),
            project=st.sampled_from("pqr"),
            model=st.sampled_from("mn"),
            priority=st.integers(-1, 1),
            number=st.integers(1, 50),
        ),
        st.integers(0, 9),
    ),
    max_size=6,
)
scopes = st.sampled_from([f"project:{name}" for name in "pqr"] + [f"model:{name}" for name in "mn"])


@given(heads=heads, taken=st.dictionaries(scopes, st.integers(0, 4)), limit=st.integers(1, 3))
def test_the_next_job_has_room_and_none_with_room_has_a_higher_priority(
    heads: list[tuple[Job, int]], taken: dict[str, int], limit: int
) -> None:
    limits = Limits(per_project=limit, per_model=limit + 1)
    free = [job for job, _ in heads if full_scope(scopes_of(job, "w"), taken, limits) is None]
    chosen = next_job(heads, taken, limits, worker="w")
    assert (chosen is None) == (not free)
    if chosen is not None:
        assert chosen in free
        assert chosen.priority == max(job.priority for job in free)
        equals = [job for job in free if job.priority == chosen.priority]
        fewest = min(taken.get(f"project:{job.project}", 0) for job in equals)
        assert taken.get(f"project:{chosen.project}", 0) == fewest


def test_a_chore_takes_a_slot_of_its_worker_alone() -> None:
    chore = Job(job_id="chore:x", errand=Errand.CHORE)
    assert scopes_of(chore, "w") == ("worker:w",)
    assert scopes_of(JOB, "w") == ("worker:w", "project:shop", "model:m")


def test_a_plan_without_project_waits_in_the_lane_of_its_repository() -> None:
    spec = PlanSpec(task="t", repository="/srv/shop", model="m")
    assert job_of("P", spec).project == "/srv/shop"
    assert job_of("P", replace(spec, project="shop", agent="recipe")).model == ""
    assert scopes_of(job_of("P", replace(spec, model="")), "w") == (
        "worker:w",
        "project:/srv/shop",
    )


def test_settings_say_limits_in_general_and_for_some() -> None:
    limits = slots_of({"per_project": 3, "projects": {"shop": 1}, "models": {"a:b": 2}}, ())
    assert limits.of("project:shop") == 1
    assert limits.of("project:other") == 3
    assert (limits.of("model:a:b"), limits.of("model:c")) == (2, None)
    assert limits.of("worker:w") is None


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"per_project": 0}, ("slots", "per_project")),
        ({"per_model": True}, ("slots", "per_model")),
        ({"models": {"m": "two"}}, ("slots", "models", "m")),
        ({"projects": 3}, ("slots", "projects")),
        ({"per_worker": 3}, ("slots",)),
    ],
)
def test_slots_that_are_none_are_refused_with_their_place(said: Any, place: Any) -> None:
    with pytest.raises(Fault) as caught:
        slots_of(said, ("slots",))
    assert caught.value.place[: len(place)] == place


@pytest.mark.parametrize(
    ("job", "workers", "said"),
    [
        (replace(JOB, deaths=DEATHS), [], "a person: it was given up 10 times"),
        (JOB, [], NOBODY),
        (replace(JOB, not_before=130.0), [WORKER], "its time, in 30 s"),
        (JOB, [WORKER], "a slot of project shop (2 of 2 taken)"),
        (replace(JOB, project="q"), [WORKER], "a free worker"),
    ],
)
def test_a_job_that_waits_says_for_what(job: Job, workers: list[Member], said: str) -> None:
    taken = Counter({"project:shop": 2})
    found = waits_for(job, workers, taken, Limits(per_project=2), 100.0)
    assert found.startswith(said)
    assert Standing(job=job, waits_for=found).data()["waits_for"] == found
