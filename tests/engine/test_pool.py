"""Places made before a plan needs them: given to one plan, once, where all is as it wants it."""

import asyncio
import errno
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.springs import LONGEST_S, Spring, springing
from engine.worksite import ADD, Worksite, call, done
from environments.yards import marks_of
from images import WITH_PYTHON, image
from janitor.passing import gone, left, swept
from machines import lend
from patchyard.clients.process import ProcessRef, kill
from patchyard.contracts.pool import Pooled
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment
from patchyard.domain.environment_limits import EnvironmentLimits
from patchyard.domain.errors import Conflict, EnvironmentBroken
from patchyard.domain.resource import Resource
from patchyard.domain.retention import DAY_S, START_S, Family
from patchyard.engine import pool as warm
from patchyard.engine.adopting import from_pool
from patchyard.engine.wishing import spec_at
from patchyard.engine.workflow import Workflow
from patchyard.environments import keeping
from services import kernel_folder
from timing import promised

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a place that is given away may answer late."""
    monkeypatch.setattr(warm, "ANSWER_S", LONGEST_S)


@pytest.fixture
async def spring(site: Worksite) -> AsyncIterator[Spring]:
    async with springing(site) as made:
        yield made


def init_of(pooled: Pooled) -> ProcessRef:
    found = pooled.handle.details["init"]
    return ProcessRef(pid=found["pid"], started=found["started"])


def is_gone(pooled: Pooled) -> bool:
    return not init_of(pooled).is_alive and not Path(pooled.workspace.root).parent.exists()


def scribble(workspace: WorkspaceRef) -> None:
    Path(workspace.root, "half.txt").write_text("x")


def said(command: str) -> dict[str, Any]:
    """A call that keeps in the workspace what it prints."""
    return call("execute_command", command=f"({command}) > said.txt 2>&1", timeout_s=30)


def boxed(kind: ExecutionEnvironment) -> dict[str, Any]:
    """What sends a plan to a place of a kind."""
    if kind == ExecutionEnvironment.PROCESS:
        return {}
    if kind == ExecutionEnvironment.CONTAINER:
        box = Resource(name="box", type="container-instance", image=image(WITH_PYTHON))
    else:
        box = Resource(name="box", type="vm-image", image=kernel_folder())
    return {"environment": "box", "resources": (box,)}


KINDS = [
    ExecutionEnvironment.PROCESS,
    pytest.param(ExecutionEnvironment.CONTAINER, marks=pytest.mark.service("docker")),
    pytest.param(ExecutionEnvironment.VM, marks=marks_of("vm")),
]

LEAVING = (
    "ls -A . /tmp $HOME; ps -e | grep -c sleep;"
    " echo mine > /tmp/t; echo mine > kept.pyc; echo mine > $HOME/h; sleep 99 &"
)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_plan_gets_a_place_of_the_pool_that_none_had_before(
    site: Worksite, kind: ExecutionEnvironment
) -> None:
    if kind == ExecutionEnvironment.VM:
        lend(site.folder / "home" / "run")
    async with springing(site) as spring:
        spring.options = boxed(kind)
        plans, seen, listed = [], set(), []
        for number in range(3 if kind != ExecutionEnvironment.VM else 2):
            pooled = await spring.waiting(await spring.wish()) if number else None
            plan_id = await spring.plan(said(LEAVING), done())
            (started,) = await spring.started(plan_id)
            plans.append(plan_id)
            seen.add(started.handle.environment_id)
            listed.append(await spring.printed(plan_id))
            if pooled is not None:
                assert (started.handle.kind, started.is_from_pool) == (kind, True)
                assert started.handle.environment_id == pooled.handle.environment_id
                assert is_gone(pooled)
        assert len(seen) == len(plans)
        assert all(each == listed[0] for each in listed)
        assert "kept.pyc" not in listed[0]
    assert left(site) == sorted(plans)


async def test_a_plans_own_place_is_made_while_it_is_planned(spring: Spring) -> None:
    plan_id = await spring.plan(ADD, done())
    assert [each.is_from_pool for each in await spring.started(plan_id)] == [True]


async def test_without_a_pool_each_place_is_started_by_its_first_call(site: Worksite) -> None:
    async with springing(site, size=0) as spring:
        spring.pool.prepare(await spring.wish())
        plan_id = await spring.plan(ADD, done())
        assert [each.is_from_pool for each in await spring.started(plan_id)] == [False]
        assert await spring.plan(done())
        assert not spring.ready


async def test_a_place_over_another_base_is_ended_and_not_given(spring: Spring) -> None:
    old = await spring.waiting(await spring.filled())
    spring.site.repository.joinpath("a.txt").write_text("two\n")
    assert await spring.pool.take(await spring.wish()) is None
    await spring.until(lambda: is_gone(old))


OTHERS: list[dict[str, Any]] = [
    {"variables": {"A": "1"}},
    {"mounts": ("/usr/share:ro",)},
    {"include": ("deps",)},
    {"environment_limits": EnvironmentLimits(memory=2**30)},
    {"project": "another"},
]


@pytest.mark.parametrize("options", OTHERS, ids=lambda each: next(iter(each)))
async def test_a_place_that_was_made_with_other_settings_is_not_given(
    spring: Spring, options: dict[str, Any]
) -> None:
    made = await spring.filled()
    assert await spring.pool.take(await spring.wish(**options)) is None
    assert await spring.pool.take(made) is not None


async def test_a_place_is_made_again_where_other_programs_are_found(spring: Spring) -> None:
    wish = await spring.wish()
    spring.pool.prepare(wish)
    await spring.until(lambda: spring.ready, pause_s=0)  # and its task is still to be let go of
    old = await spring.waiting(wish)
    assert wish.programs
    spring.pool.prepare(wish)
    assert await spring.waiting(wish) == old
    spring.pool.prepare(replace(wish, programs={"python3": "another"}))
    await spring.until(lambda: is_gone(old))
    assert await spring.waiting(wish) != old


async def test_two_plans_that_want_one_place_do_not_both_get_it(spring: Spring) -> None:
    wish = await spring.filled()
    taken = await asyncio.gather(*(spring.pool.take(wish) for _ in range(3)))
    (given,) = [each for each in taken if each is not None]
    await spring.pool.give_up(given)
    assert is_gone(given)


async def test_a_place_that_died_is_noticed_and_a_new_one_is_started(spring: Spring) -> None:
    wish = await spring.filled()
    dead = await spring.waiting(wish)
    kill(init_of(dead))
    await spring.until(lambda: not init_of(dead).is_alive)
    plan_id = await spring.plan(ADD, done())
    assert [each.is_from_pool for each in await spring.started(plan_id)] == [False]
    await spring.until(lambda: is_gone(dead))


async def test_a_place_that_does_not_answer_is_not_given(
    spring: Spring, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = await spring.filled()
    pooled = await spring.waiting(wish)

    async def never(_: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(warm, "ANSWER_S", 0.05)
    monkeypatch.setattr(spring.ready[0].toolbox, "attach", never)
    assert await spring.pool.take(wish) is None
    await spring.until(lambda: is_gone(pooled))


async def test_a_place_whose_taker_is_cancelled_is_ended(spring: Spring) -> None:
    wish = await spring.filled()
    pooled = await spring.waiting(wish)
    taking = asyncio.create_task(spring.pool.take(wish))
    await asyncio.sleep(0)  # it waits for the toolbox to answer
    assert not spring.ready
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    await spring.until(lambda: is_gone(pooled))


async def test_a_place_that_nobody_takes_is_ended_after_its_time(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[warm.Ready] = []

    def noted(**parts: Any) -> warm.Ready:
        made.append(ready_of(**parts))
        return made[-1]

    ready_of = warm.Ready
    monkeypatch.setattr(warm, "Ready", noted)
    async with springing(site, age=0.05) as spring:
        spring.pool.prepare(await spring.wish())
        await spring.until(lambda: made)  # it may not wait any more when this looks
        await spring.until(lambda: is_gone(made[0].pooled))
        assert not spring.ready


async def test_no_more_wait_than_may(site: Worksite) -> None:
    async with springing(site, size=2, total=3) as spring:
        first = await spring.filled()
        await spring.until(lambda: len(spring.ready) == 2)
        oldest = spring.ready[0].pooled
        spring.pool.prepare(first)
        second = await spring.filled(project="another")
        await spring.until(lambda: is_gone(oldest))
        assert [each.wish for each in spring.ready].count(first) == 1
        third = await spring.filled(project="another", variables={"A": "1"})
        await spring.until(lambda: len(spring.ready) == 3)
        assert {each.wish.project for each in spring.ready} == {first.project, "another"}
        assert [each.wish for each in spring.ready].count(second) < 2
        assert third in [each.wish for each in spring.ready]


async def test_all_that_waits_or_is_made_ends_with_the_engine(site: Worksite) -> None:
    async with springing(site, size=2) as spring:
        waited = await spring.waiting(await spring.filled())
        async with asyncio.timeout(promised(3)):
            await spring.pool.close()
        await spring.pool.close()
        assert is_gone(waited)
        spring.pool.prepare(await spring.wish())
        assert not spring.ready
    assert left(site) == []


async def test_a_place_that_cannot_become_a_plans_own_is_ended(
    spring: Spring, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = await spring.waiting(await spring.filled())

    async def lost(*_: Any) -> None:
        raise Conflict("another process wrote")

    workflow = Workflow(spring.equipment)
    plan_id = await workflow.create(spring.spec(ADD, done()))
    await workflow.strategize(plan_id)
    ledger = await spring.site.ledger(spring.equipment, plan_id)
    monkeypatch.setattr(ledger, "record", lost)
    base = ledger.state.base
    assert base is not None
    with pytest.raises(Conflict):
        await from_pool(spring.equipment, ledger, base, [])
    assert is_gone(waited)
    assert left(spring.site) == []


async def test_where_a_place_cannot_be_given_for_want_of_room_one_is_started(
    spring: Spring, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spring.filled()
    waited = spring.pool.waiting[0].pooled

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(keeping, "write_adoption", full)
    plan_id = await Workflow(spring.equipment).create(spring.spec(said("ls"), done()))
    await Workflow(spring.equipment).run(plan_id)
    assert await spring.printed(plan_id) == ["a.txt", "said.txt"]
    assert not init_of(waited).is_alive


@pytest.mark.usefixtures("own_temporary_folder")
async def test_what_a_killed_engine_leaves_ends_by_itself_and_its_folders_go(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(*words: Any) -> EnvironmentSpec:
        return replace(spec_at(*words), orphan_grace_s=3.0)

    monkeypatch.setattr("patchyard.engine.pool.spec_at", impatient)
    async with springing(site) as spring:
        waited = await spring.waiting(await spring.filled())
        await spring.ready[0].toolbox.close()  # as its death does
        await spring.until(lambda: not init_of(waited).is_alive)
        assert gone(await swept(spring.equipment, days=0)) == {}
        found = gone(await swept(spring.equipment, days=START_S / DAY_S))
        assert found[Family.ENVIRONMENT] == [waited.handle.environment_id]
        assert found[Family.WORKSPACE] == [waited.workspace.workspace_id]
        assert left(site) == []


@pytest.mark.usefixtures("own_temporary_folder")
async def test_the_janitor_leaves_what_waits(spring: Spring) -> None:
    wish = await spring.filled()
    assert gone(await swept(spring.equipment, days=2 * START_S / DAY_S)) == {}
    given = await spring.pool.take(wish)
    assert given is not None
    await spring.pool.give_up(given)


class KilledError(BaseException):
    """Nothing of ours runs after it but what the test takes away."""


@pytest.mark.parametrize("step", ["adopt", "rename", "record"])
async def test_an_engine_killed_while_it_gives_a_place_away_leaves_a_plan_that_goes_on(
    spring: Spring, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    equipment = spring.equipment
    await spring.filled()
    waited = spring.pool.waiting[0].pooled
    workflow = Workflow(equipment)
    plan_id = await workflow.create(spring.spec(said("ls"), done()))
    await workflow.strategize(plan_id)
    ledger = await spring.site.ledger(equipment, plan_id)
    base = ledger.state.base
    assert base is not None

    async def nothing(*_: Any) -> None:
        pass

    done_by = {"adopt": equipment.adopting[0], "rename": equipment.workspaces, "record": ledger}
    real = getattr(done_by[step], step)

    async def killed(*args: Any) -> None:
        await real(*args)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(done_by[step], step, killed)
        patch.setattr(spring.pool, "give_up", nothing)
        patch.setattr(equipment.workspaces, "remove", nothing)
        with pytest.raises(KilledError):
            await from_pool(equipment, ledger, base, [])
    if step == "rename":  # a tree under the plan's name that its journal does not know
        place = Path(waited.workspace.root).parents[1] / plan_id
        scribble(replace(waited.workspace, root=str(place / "root")))
    await workflow.run(plan_id)
    assert await spring.printed(plan_id) == ["a.txt", "said.txt"]
    assert not init_of(waited).is_alive


async def test_a_place_that_nobody_reaches_or_that_does_not_end_is_told(
    spring: Spring, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = spring.equipment.environment(ExecutionEnvironment.PROCESS)
    wish = await spring.filled()

    async def broken(_: Any) -> None:
        raise EnvironmentBroken("no answer")

    with monkeypatch.context() as for_now:
        for_now.setattr(process, "attach", broken)
        other = replace(wish, project="another")
        spring.pool.prepare(other)
        assert await spring.pool.take(other) is None
    given = await spring.pool.take(wish)
    assert given is not None
    with monkeypatch.context() as for_now:
        for_now.setattr(process, "end", broken)
        await spring.pool.give_up(given)
    assert [line.rpartition(": ")[2] for line in spring.told] == ["no answer", "no answer"]
    spring.told.clear()
    await spring.pool.give_up(given)
    assert is_gone(given)
