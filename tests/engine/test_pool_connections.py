"""The connection that the pool made to a place: a plan goes on with it, and none is left open."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.springs import LONGEST_S, Spring, springing
from engine.worksite import ADD, Worksite, done
from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken, FencedOff
from patchyard.engine import parting, pool
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a place that is given away may answer late."""
    monkeypatch.setattr(pool, "ANSWER_S", LONGEST_S)


@pytest.fixture
async def spring(site: Worksite) -> AsyncIterator[Spring]:
    async with springing(site) as made:
        yield made


async def test_a_plan_goes_on_with_the_connection_that_the_pool_made(
    spring: Spring, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spring.filled()
    process = spring.equipment.environment(ExecutionEnvironment.PROCESS)
    attach, reached = process.attach, []

    async def noted(handle: EnvironmentHandle) -> Toolbox:
        reached.append(handle.environment_id)
        return await attach(handle)

    monkeypatch.setattr(process, "attach", noted)
    (started,) = await spring.started(await spring.plan(ADD, done()))
    assert started.is_from_pool
    assert started.handle.environment_id not in reached


async def test_a_connection_that_no_plan_asked_for_is_closed(site: Worksite) -> None:
    async with springing(site) as spring:
        given = await spring.pool.take(await spring.filled())
        assert given is not None
        await spring.pool.close()
        assert spring.pool.connection(given.handle.environment_id) is None
        await spring.pool.give_up(given)


async def test_a_connection_is_closed_where_its_plan_ends_before_it_asks(
    spring: Spring, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = await spring.filled()
    pooled = await spring.waiting(wish)
    (ready,) = spring.ready

    async def fenced(*_: object) -> None:
        raise FencedOff("another process owns it")

    workflow = Workflow(spring.equipment)
    plan_id = await workflow.create(spring.spec(ADD, done()))
    await workflow.strategize(plan_id)
    monkeypatch.setattr("patchyard.engine.places.end_strays", fenced)
    with pytest.raises(FencedOff):
        await workflow.execute(plan_id)
    assert (await spring.started(plan_id))[0].is_from_pool
    assert spring.pool.connection(pooled.handle.environment_id) is None
    with pytest.raises(EnvironmentBroken):
        await ready.toolbox.attach("any")


@pytest.mark.parametrize(
    ("moment", "expected"), [("waiting", "few seconds"), ("ending", "did not end in time")]
)
async def test_a_place_that_never_ends_does_not_hold_up_the_end_of_its_pool(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, moment: str, expected: str
) -> None:
    monkeypatch.setattr(parting, "PARTING_S", 0.2)
    monkeypatch.setattr(parting, "LEAST_S", 0.1)
    async with springing(site) as spring:
        wish = await spring.filled()
        process = spring.equipment.environment(ExecutionEnvironment.PROCESS)
        end, asked, left = process.end, asyncio.Event(), list[EnvironmentHandle]()

        async def never(handle: EnvironmentHandle) -> None:
            left.append(handle)
            asked.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(process, "end", never)
        if moment == "ending":
            (ready,) = spring.ready
            spring.pool.prepare(replace(wish, programs={"other": "1"}))
            await asked.wait()
            assert ready not in spring.ready
        async with asyncio.timeout(LONGEST_S):
            await spring.pool.close()
        assert asked.is_set()
        assert not spring.ready
        assert any(expected in text for text in spring.told)
        spring.told.clear()
        for each in left:
            await end(each)
