"""What a worker does with a job, whatever comes of it: settled once, tried again only so often."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call
from patchyard.assembly import open_equipment
from patchyard.contracts.claims import Hold
from patchyard.domain.errors import Conflict, PatchyardError, Unavailable
from patchyard.domain.plan import State
from patchyard.domain.queue import CHORE, Errand, Job, Limits, job_of
from patchyard.engine import control
from patchyard.engine import dispatcher as dispatching
from patchyard.engine.dispatcher import Chores, Dispatcher
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import load
from patchyard.engine.worker import Terms, Worker
from patchyard.intake import spec_of
from patchyard.stores.claims import LeaseClaims

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

Open = Callable[[], AbstractAsyncContextManager[Equipment]]


@dataclass(kw_only=True)
class Bench:
    """One worker's dispatcher over a worksite, and what it told."""

    site: Worksite
    equipment: Equipment
    told: list[str] = field(default_factory=list)
    chore: Callable[[Equipment], Awaitable[None]] | None = None
    opening: Open | None = None

    @property
    def dispatcher(self) -> Dispatcher:
        work = {"sweep": self.chore} if self.chore else {}
        return Dispatcher(
            self.equipment,
            self.opening or (lambda: open_equipment(self.site.environ)),
            chores=Chores(work=work, every_s=dict.fromkeys(work, 60.0)),
            told=self.told.append,
        )

    async def planned(self, *replies: Any, errand: Errand = Errand.RUN, **options: Any) -> str:
        async with self.site.open() as (_, workflow):
            spec = spec_of(self.site.asked(*replies, **options), self.site.environ)
            base = await self.equipment.trees.snapshot(self.site.repository)
            plan_id = await workflow.create(spec, base=base)
        state, _ = await load(self.equipment.store.journal, plan_id)
        await self.equipment.queue.put(job_of(plan_id, state.known, errand=errand))
        return plan_id

    async def taken(self) -> tuple[Hold, Job]:
        await self.equipment.crew.join("w", 1)
        ((hold, job),) = await self.equipment.crew.claim(1, Limits())
        return hold, job

    async def left(self) -> list[Job]:
        return [job for job, _ in await self.equipment.queue.jobs()]


class Broken(AbstractAsyncContextManager[Equipment]):
    """An engine that cannot be opened."""

    def __init__(self, trouble: Exception) -> None:
        self._trouble = trouble

    async def __aenter__(self) -> Equipment:
        raise self._trouble

    async def __aexit__(self, *_: object) -> None:
        """Never entered."""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    site = Worksite.make(tmp_path, {"a.txt": "one\n"})
    async with open_equipment(site.environ) as equipment:
        yield Bench(site=site, equipment=equipment)
    await site.clear()


async def test_each_errand_is_carried_as_far_as_it_was_to_go(bench: Bench) -> None:
    plan_id = await bench.planned(ADD, errand=Errand.STRATEGIZE)
    await bench.dispatcher.carry_out(*await bench.taken())
    assert await bench.left() == []
    state, _ = await load(bench.equipment.store.journal, plan_id)
    assert (str(state.phase), state.state) == ("strategize", State.COMPLETE)
    await bench.equipment.queue.put(job_of(plan_id, state.known, errand=Errand.EXECUTE))
    await bench.dispatcher.carry_out(*await bench.taken())
    state, _ = await load(bench.equipment.store.journal, plan_id)
    assert (str(state.phase), state.state) == ("execute", State.COMPLETE)
    assert await bench.left() == []


async def test_a_plan_that_failed_is_for_a_person(bench: Bench) -> None:
    plan_id = await bench.planned(ADD, validate=("false",), rounds=0)
    await bench.dispatcher.carry_out(*await bench.taken())
    state, _ = await load(bench.equipment.store.journal, plan_id)
    assert state.state == State.CONSTRAINED
    assert await bench.left() == []


async def test_an_apply_that_was_refused_is_for_a_person(bench: Bench) -> None:
    edit = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "two\n"}}]}
    plan_id = await bench.planned(edit, apply_to="worktree")
    (bench.site.repository / "a.txt").write_text("mine\n")
    await bench.dispatcher.carry_out(*await bench.taken())
    state, _ = await load(bench.equipment.store.journal, plan_id)
    assert state.applied is None
    assert await bench.left() == []


@pytest.mark.parametrize("trouble", [Unavailable("no room"), RuntimeError("a bug")])
async def test_what_a_plan_is_not_to_blame_for_is_tried_again_after_a_pause(
    bench: Bench, trouble: Exception
) -> None:
    await bench.planned(ADD)

    bench.opening = lambda: Broken(trouble)
    before = bench.equipment.clock.now()
    await bench.dispatcher.carry_out(*await bench.taken())
    (job,) = await bench.left()
    assert job.deaths == 1
    assert job.not_before >= before + dispatching.PAUSE_S
    assert str(trouble) in bench.told[-1]


async def test_a_chore_comes_back_and_its_failure_is_told(bench: Bench) -> None:
    async def fails(_: Equipment) -> None:
        raise Unavailable("nothing to sweep with")

    bench.chore = fails
    (chore,) = Chores(work={"sweep": fails}, every_s={"sweep": 60.0}).jobs()
    assert (chore.job_id, chore.errand) == (f"{CHORE}sweep", Errand.CHORE)
    await bench.equipment.queue.put(chore)
    before = bench.equipment.clock.now()
    await bench.dispatcher.carry_out(*await bench.taken())
    (job,) = await bench.left()
    assert (job.deaths, job.not_before >= before + 60) == (0, True)
    assert bench.told == ["chore:sweep: nothing to sweep with"]


async def test_a_settlement_that_the_database_refuses_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "TROUBLED_S", 0.01)
    await bench.planned(ADD, errand=Errand.STRATEGIZE)
    hold, job = await bench.taken()
    settle, refusals = bench.equipment.crew.settle, [Conflict("locked"), Unavailable("full")]

    async def refused(*args: Any, **options: Any) -> None:
        if refusals:
            raise refusals.pop()
        await settle(*args, **options)

    monkeypatch.setattr(bench.equipment.crew, "settle", refused)
    await bench.dispatcher.carry_out(hold, job)
    assert bench.told[-2:] == ["full", "locked"]
    assert await bench.left() == []


async def test_a_plan_of_a_dead_command_is_adopted_only_where_there_is_more_to_do(
    bench: Bench,
) -> None:
    doing, stopped = await bench.planned(ADD), await bench.planned(ADD)
    async with bench.site.open() as (_, workflow):
        await workflow.cancel(stopped)
    for plan_id in (doing, stopped):
        await bench.equipment.queue.withdraw(plan_id)
    broken = "01K0000000000000000000000Z"
    async with open_equipment(bench.site.environ) as dead:
        assert isinstance(dead.claims, LeaseClaims)
        membership = dead.claims._membership
        membership._seat = replace(membership._seat, started=1)
        for plan_id in (doing, stopped, broken):
            claim = dead.claims.claim(plan_id, errand=Errand.RUN)
            await claim.__aenter__()
        await bench.equipment.crew.join("w", 1)
        await bench.dispatcher.adopt()
        assert [job.job_id for job in await bench.left()] == [doing]
        await bench.dispatcher.adopt()
    told = {text.partition(":")[0] for text in bench.told}
    assert (told, len(bench.told)) == ({f"plan {doing}", f"plan {broken}"}, 2)


async def test_a_plan_that_cannot_be_adopted_keeps_no_other_from_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_ids = [await bench.planned(ADD) for _ in range(3)]
    for plan_id in plan_ids:
        await bench.equipment.queue.withdraw(plan_id)

    async def orphans() -> Any:
        return [(plan_id, Errand.RUN) for plan_id in plan_ids]

    real = bench.equipment.queue.adopt
    adopted: list[str] = []

    async def adopt(job: Job) -> None:
        if job.job_id == plan_ids[1]:
            job.project.encode("ascii").index(b"\0")
        await real(job)
        adopted.append(job.job_id)

    monkeypatch.setattr(bench.equipment.crew, "reap", orphans)
    monkeypatch.setattr(bench.equipment.queue, "adopt", adopt)
    dispatcher = bench.dispatcher
    for _ in range(2):
        await dispatcher.adopt()
    assert adopted == [plan_ids[0], plan_ids[2]] * 2
    assert sum(plan_ids[1] in text for text in bench.told) == 1


async def test_a_settlement_that_meets_a_defect_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "TROUBLED_S", 0.01)
    await bench.planned(ADD, errand=Errand.STRATEGIZE)
    hold, job = await bench.taken()
    settle, defects = bench.equipment.crew.settle, [TypeError("a bug"), TypeError("a bug")]

    async def refused(*args: Any, **options: Any) -> None:
        if defects:
            raise defects.pop()
        await settle(*args, **options)

    monkeypatch.setattr(bench.equipment.crew, "settle", refused)
    await bench.dispatcher.carry_out(hold, job)
    assert sum("a bug" in text for text in bench.told) == 1
    assert await bench.left() == []


async def test_a_worker_goes_on_after_a_defect_of_a_round(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(
        bench.equipment, bench.dispatcher, Terms(name="w", concurrency=1), told=bench.told.append
    )
    claim, rounds = bench.equipment.crew.claim, 0

    async def defective(*args: Any, **options: Any) -> Any:
        nonlocal rounds
        rounds += 1
        if rounds < 3:
            raise UnicodeEncodeError("utf-8", "\udce9", 0, 1, "surrogates not allowed")
        worker.drain()
        return await claim(*args, **options)

    monkeypatch.setattr(bench.equipment.crew, "claim", defective)
    await asyncio.wait_for(worker.run(), 120)
    assert sum("surrogates not allowed" in text for text in bench.told) == 1


async def test_a_worker_goes_on_while_the_database_is_in_trouble(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles: list[PatchyardError] = [Unavailable("full")]
    reap = bench.equipment.crew.reap

    async def troubled() -> Any:
        if troubles:
            raise troubles.pop()
        return await reap()

    monkeypatch.setattr(bench.equipment.crew, "reap", troubled)
    plan_id = await bench.planned(ADD, errand=Errand.STRATEGIZE)
    terms = Terms(name="w", concurrency=1)
    worker = Worker(bench.equipment, bench.dispatcher, terms, told=bench.told.append)
    working = asyncio.create_task(worker.run())
    for _ in range(6000):
        if not await bench.left():
            break
        await asyncio.sleep(0.02)
    worker.drain()
    await asyncio.wait_for(working, 120)
    assert bench.told[0] == "plans of dead processes: full"
    state, _ = await load(bench.equipment.store.journal, plan_id)
    assert state.state == State.COMPLETE


async def test_a_cancel_between_the_claim_and_the_work_is_heard(bench: Bench) -> None:
    clock, journal = bench.equipment.clock, bench.equipment.store.journal
    slow = call("execute_command", command="sleep 30", timeout_s=40)
    plan_id = await bench.planned(slow)
    await control.say(journal, clock, plan_id, control.CANCEL)  # of an earlier owner
    since = clock.now()
    hold, job = await bench.taken()
    await control.say(journal, clock, plan_id, control.CANCEL)

    async with asyncio.timeout(120):
        await bench.dispatcher.carry_out(hold, job, since=since)

    state, _ = await load(journal, plan_id)
    assert state.state == State.CANCELLED
