"""Failures that pass by themselves: the same step again, a bounded number of times."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from engine.told import ENDING, Recorder, heard, state_of, until, with_actor, writing
from engine.worksite import ADD, Worksite
from patchyard.contracts.actor import Answered, Brief, Turn
from patchyard.contracts.environment import Environment
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.domain.errors import (
    EnvironmentBroken,
    ModelFailed,
    ModelUnavailable,
    PatchyardError,
    PlanPaused,
)
from patchyard.domain.events import TurnTaken
from patchyard.domain.plan import Phase, State
from patchyard.domain.safety import SafetyProfile
from patchyard.domain.steering import RetryPlanned
from patchyard.engine import persisting
from patchyard.engine.directing import Directing
from patchyard.engine.equipment import Equipment
from patchyard.engine.report import plan_data
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


class Busy(Recorder):
    """An actor whose model is busy at first."""

    def __init__(
        self, turns: Sequence[Turn], busy: int, kind: str = "", *, is_passing: bool = True
    ) -> None:
        super().__init__(turns)
        self.is_passing = is_passing
        self.busy = busy
        self.kind = kind

    async def next(self, answers: Sequence[Answered], *, note: str = "") -> Turn:
        if self.busy:
            self.busy -= 1
            details = {"retry_after_s": 0.01, "kind": self.kind}
            raise ModelFailed("slow down", retryable=self.is_passing, details=details)
        return await super().next(answers, note=note)


async def busy_plan(
    site: Worksite,
    equipment: Equipment,
    busy: int,
    most: int = 3,
    kind: str = "",
    *,
    is_passing: bool = True,
) -> tuple[Workflow, str]:
    workflow = Workflow(
        with_actor(equipment, Busy([writing(1), ENDING], busy, kind, is_passing=is_passing)),
        watching=Watching(on_event=site.heard.append),
    )
    asked: Asked = site.asked(ADD)
    spec = spec_of(asked, site.environ)
    safety = SafetyProfile(max_retries_per_step=most)
    return workflow, await workflow.create(replace(spec, safety=safety))


async def test_a_busy_model_is_asked_again_in_the_same_place(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persisting, "wait_before", lambda *_, **__: 0.01)
    async with site.open() as (equipment, _):
        workflow, plan_id = await busy_plan(site, equipment, 3)
        ended = await workflow.run(plan_id)
        events = await (await site.ledger(equipment, plan_id)).events()
    planned = [event for _, _, event in events if isinstance(event, RetryPlanned)]
    assert [(each.number, each.most, each.code) for each in planned] == [
        (number, 3, "model_failed") for number in (1, 2, 3)
    ]
    assert ended.state == State.COMPLETE
    assert len([1 for _, _, event in events if isinstance(event, TurnTaken)]) == 3
    assert ended.steered.retry is None


async def test_retries_end_where_the_plan_says_so(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persisting, "wait_before", lambda *_, **__: 0.01)
    async with site.open() as (equipment, _):
        workflow, plan_id = await busy_plan(site, equipment, 2, most=1)
        with pytest.raises(ModelFailed, match="slow down"):
            await workflow.run(plan_id)
        state = await state_of(site, equipment, plan_id)
        assert (state.phase, state.state) == (Phase.EXECUTE, State.ERRORED)
        assert (await workflow.resume(plan_id)).state == State.COMPLETE


async def test_a_client_error_is_not_made_a_second_time(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persisting, "wait_before", lambda *_, **__: 0.01)
    async with site.open() as (equipment, _):
        workflow, plan_id = await busy_plan(site, equipment, 1, is_passing=False)
        with pytest.raises(ModelFailed, match="slow down"):
            await workflow.run(plan_id)
        assert (await state_of(site, equipment, plan_id)).state == State.ERRORED
    assert heard(site, RetryPlanned) == []


async def test_an_outage_is_waited_for_as_long_as_the_plan_has_time(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persisting, "wait_before", lambda *_, **__: 0.01)
    async with site.open() as (equipment, _):
        workflow, plan_id = await busy_plan(site, equipment, 5, most=1, kind="rate_limited")
        ended = await workflow.run(plan_id)
        workflow, plan_id = await busy_plan(site, equipment, 5, most=0, kind="rate_limited")
        with pytest.raises(ModelFailed):
            await workflow.run(plan_id)
    assert ended.state == State.COMPLETE
    assert [event.most for event in heard(site, RetryPlanned)] == [0] * 5


async def test_a_wait_for_a_busy_model_is_shown_and_ends_with_a_pause(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persisting, "wait_before", lambda *_, **__: 600.0)
    async with site.open() as (equipment, _):
        workflow, plan_id = await busy_plan(site, equipment, 1)
        working = asyncio.create_task(workflow.run(plan_id))
        async with asyncio.timeout(120):
            await until(site, RetryPlanned)
            shown = (await plan_data(await site.ledger(equipment, plan_id)))["waiting"]["for"]
            await Directing(equipment).pause(plan_id)
            with pytest.raises(PlanPaused):
                await working
        assert "retry 1 of 3" in shown
        assert (await workflow.resume(plan_id)).state == State.COMPLETE


class Away(Recorder):
    """An actor whose model is away when it is to begin."""

    def __init__(self, failures: Sequence[PatchyardError]) -> None:
        super().__init__([writing(1), ENDING])
        self.failures = list(failures)

    async def begin(self, brief: Brief) -> Recorder:
        if self.failures:
            raise self.failures.pop(0)
        return await super().begin(brief)


def loading() -> ModelFailed:
    details = {"status": 503, "retry_after_s": 0.01}
    return ModelFailed("it is loading", retryable=True, details=details)


async def test_a_model_that_is_away_when_a_phase_begins_is_waited_for(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persisting, "wait_before", lambda *_, **__: 0.01)
    gone = ModelUnavailable("nobody is there", details={"kind": "refused"})
    async with site.open() as (equipment, _):
        away = Away([loading() for _ in range(5)])
        workflow = Workflow(
            with_actor(equipment, away), watching=Watching(on_event=site.heard.append)
        )
        ended = await workflow.run(await site.made(workflow, site.asked(ADD)))
        assert (ended.state, ended.failure) == (State.COMPLETE, None)
        assert len(heard(site, RetryPlanned)) == 5
        workflow = Workflow(with_actor(equipment, Away([gone])))
        with pytest.raises(ModelUnavailable, match="nobody is there"):  # it never answered
            await workflow.run(await site.made(workflow, site.asked(ADD)))


class Shaky:
    """An environment kind to whose places nobody can attach at first."""

    def __init__(self, inner: Environment) -> None:
        self.refusals = 1
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def attach(self, handle: EnvironmentHandle) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise EnvironmentBroken("it went away")
        return await self._inner.attach(handle)


async def test_a_place_that_is_lost_at_once_is_made_anew(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persisting, "wait_before", lambda *_, **__: 0.01)
    kind = ExecutionEnvironment.PROCESS
    async with site.open() as (equipment, _):
        shaky = Shaky(equipment.environment(kind))
        equipped = replace(equipment, environments={kind: cast("Environment", shaky)})
        workflow = Workflow(equipped, watching=Watching(on_event=site.heard.append))
        ended = await workflow.run(await site.made(workflow, site.asked(ADD)))
    (planned,) = heard(site, RetryPlanned)
    assert (planned.code, planned.message) == ("environment_broken", "it went away")
    assert ended.state == State.COMPLETE
    assert ended.turn == 2  # nothing was asked again
