"""What every queue does: each job to one worker at a time, within limits, also when some die."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchyard.domain.announcing import Announcement, Skills
from patchyard.domain.errors import Conflict, FencedOff
from patchyard.domain.queue import DEAD_S, DEATHS, Errand, Job, Limits
from queue_halls import HALLS, Hall, job

pytestmark = pytest.mark.anyio


@pytest.fixture(params=sorted(HALLS))
async def hall(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hall]:
    made = HALLS[request.param](folder=tmp_path)
    yield made
    await made.close()


async def test_jobs_are_taken_in_the_order_they_came(hall: Hall) -> None:
    worker = await hall.post("w", concurrency=3)
    for name in ("b", "a", "c"):
        await worker.queue.put(job(name))
    assert [name for _, name in await worker.take(2)] == ["b", "a"]
    assert [name for _, name in await worker.take(2)] == ["c"]
    assert await worker.take(2) == []


async def test_a_job_goes_to_one_worker(hall: Hall) -> None:
    one, two = await hall.post("one"), await hall.post("two")
    await one.queue.put(job("a"))
    await two.queue.put(job("a"))  # it is there already
    ((hold, _),) = await one.take()
    assert await two.take() == []
    assert [(each.job_id, name) for each, name in await two.queue.jobs()] == [("a", "one")]
    await one.crew.settle(hold)
    assert await two.queue.jobs() == []
    assert await two.take() == []


async def test_a_higher_priority_comes_first(hall: Hall) -> None:
    worker = await hall.post("w")
    await worker.queue.put(job("low", priority=-1))
    await worker.queue.put(job("usual"))
    await worker.queue.put(job("high", project="q", priority=5))
    assert [name for _, name in await worker.take(3)] == ["high", "usual", "low"]


async def test_a_worker_for_roles_takes_their_plans_alone_and_what_is_anybodys(hall: Hall) -> None:
    tester, all_ = await hall.post("t", concurrency=9), await hall.post("a", concurrency=9)
    for name, role in (("d1", "developer"), ("t1", "tester"), ("r1", "reviewer"), ("t2", "tester")):
        await tester.queue.put(job(name, role=role, priority=9 if role == "developer" else 0))
    assert await tester.take(9, roles=("architect",)) == []
    assert [name for _, name in await tester.take(1, roles=("tester",))] == ["t1"]
    await tester.queue.put(job("chore:x"))
    roles = ("tester", "reviewer")
    assert [name for _, name in await tester.take(9, roles=roles)] == ["chore:x", "r1", "t2"]
    assert [name for _, name in await all_.take(9)] == ["d1"]
    assert await tester.take(9, roles=roles) == []


async def test_what_a_worker_says_of_itself_is_seen_as_long_as_it_lives(hall: Hall) -> None:
    worker, other = await hall.post("w", concurrency=2), await hall.post()
    skills = Skills(roles=("tester",), takes_all=False, capabilities=("a",), version="1")
    own = worker.membership.member
    said = Announcement(member_id=own.member_id, worker="w", skills=skills, concurrency=2)
    assert [each.announced for each in await other.queue.members()] == [None]
    for load in (0, 1):
        now = replace(said, load=load, is_draining=bool(load))
        await worker.crew.announce(now)
        assert [each.announced for each in await other.queue.members()] == [now]
    hall.clock.seconds += DEAD_S + 1
    assert await other.queue.members() == []
    with pytest.raises(FencedOff):
        await worker.crew.announce(replace(said, member_id="gone"))


async def test_projects_take_turns(hall: Hall) -> None:
    worker = await hall.post("w", concurrency=9)
    for number in range(4):
        await worker.queue.put(job(f"big-{number}", project="big"))
    for number in range(2):
        await worker.queue.put(job(f"small-{number}", project="small"))
    assert [name for _, name in await worker.take(4)] == ["big-0", "small-0", "big-1", "small-1"]


async def test_the_project_served_longest_ago_comes_next_when_none_is_at_work(hall: Hall) -> None:
    worker = await hall.post("w")
    for project in ("a", "b"):
        for number in range(2):
            await worker.queue.put(job(f"{project}{number}", project=project))
    taken = []
    for _ in range(4):
        ((hold, name),) = await worker.take()
        taken.append(name)
        await worker.crew.settle(hold)
    assert taken == ["a0", "b0", "a1", "b1"]


async def test_a_limit_of_a_project_holds_over_all_workers(hall: Hall) -> None:
    one, two = await hall.post("one", concurrency=4), await hall.post("two", concurrency=4)
    limits = Limits(per_project=2, projects={"q": 1})
    for number in range(3):
        await one.queue.put(job(f"p{number}"))
        await one.queue.put(job(f"q{number}", project="q"))
    first = await one.take(1, limits)
    others = await two.take(4, limits)
    assert sorted(name for _, name in [*first, *others]) == ["p0", "p1", "q0"]
    await one.crew.settle(first[0][0])
    assert [name for _, name in await one.take(4, limits)] == ["p2"]


async def test_a_limit_of_a_model_lets_jobs_of_another_pass(hall: Hall) -> None:
    worker = await hall.post("w", concurrency=4)
    limits = Limits(per_model=1)
    for name, model in (("a", "m"), ("b", "m"), ("c", "n")):
        await worker.queue.put(job(name, model=model))
    assert [name for _, name in await worker.take(4, limits)] == ["a", "c"]


async def test_a_delayed_job_waits_until_its_time(hall: Hall) -> None:
    worker = await hall.post("w")
    await worker.queue.put(replace(job("later"), not_before=hall.clock.now() + 5))
    await worker.queue.put(job("now"))
    assert [name for _, name in await worker.take(2)] == ["now"]
    hall.clock.seconds += 5
    assert [name for _, name in await worker.take(2)] == ["later"]


async def test_a_job_that_comes_back_waits_until_then(hall: Hall) -> None:
    worker = await hall.post("w")
    await worker.queue.put(Job(job_id="chore:x", errand=Errand.CHORE, every_s=60.0))
    ((hold, _),) = await worker.take()
    await worker.crew.settle(hold, again_at=hall.clock.now() + 60)
    assert await worker.take() == []
    hall.clock.seconds += 60
    await worker.beat()
    ((again, name),) = await worker.take()
    assert (name, again.lease.generation) == ("chore:x", hold.lease.generation + 1)


async def test_what_a_silent_worker_had_goes_to_another_and_it_is_fenced_off(hall: Hall) -> None:
    silent, other = await hall.post("silent"), await hall.post("other")
    await silent.queue.put(job("a"))
    ((lost, _),) = await silent.take(1, Limits(per_project=1))
    hall.clock.seconds += DEAD_S + 1
    await other.beat()
    assert await other.take(1, Limits(per_project=1)) == []
    assert await other.crew.reap() == []
    ((hold, name),) = await other.take(1, Limits(per_project=1))
    assert (name, hold.lease.generation) == ("a", lost.lease.generation + 1)
    with pytest.raises(FencedOff):
        await silent.crew.settle(lost)
    with pytest.raises(FencedOff):
        await silent.crew.reap()
    assert await silent.take() == []  # nothing is there to take
    await other.queue.put(job("b"))
    with pytest.raises(FencedOff):
        await silent.crew.claim(1, Limits())
    await other.queue.withdraw("b")
    with pytest.raises(FencedOff):
        await lost.confirm()
    await silent.crew.join("silent", 1)
    assert await silent.take() == []
    await other.crew.settle(hold)
    assert await other.queue.jobs() == []


async def test_a_worker_that_is_not_silent_loses_nothing(hall: Hall) -> None:
    steady, other = await hall.post("steady"), await hall.post("other")
    await steady.queue.put(job("a"))
    ((hold, _),) = await steady.take()
    for _ in range(5):
        hall.clock.seconds += DEAD_S - 1
        await steady.beat()
        await other.beat()
        assert await other.crew.reap() == []
    await hold.confirm()
    assert await other.take() == []


async def test_a_job_that_outlives_too_many_owners_waits_for_a_person(hall: Hall) -> None:
    last = await hall.post("last")
    await last.queue.put(job("a"))
    for number in range(DEATHS):
        worker = await hall.post(f"w{number}")
        assert len(await worker.take()) == 1
        hall.clock.seconds += DEAD_S + 1
        await last.beat()
        await last.crew.reap()
    assert await last.take() == []
    ((left, _),) = await last.queue.jobs()
    assert left.deaths == DEATHS


async def test_a_job_that_failed_counts_as_one_whose_owner_died(hall: Hall) -> None:
    worker = await hall.post("w")
    await worker.queue.put(job("a"))
    ((hold, _),) = await worker.take()
    await worker.crew.settle(hold, again_at=hall.clock.now(), has_failed=True)
    ((left, _),) = await worker.queue.jobs()
    assert left.deaths == 1
    ((hold, _),) = await worker.take()
    await worker.crew.settle(hold, again_at=hall.clock.now())
    ((left, _),) = await worker.queue.jobs()
    assert left.deaths == 0  # it went well since


async def test_the_plan_of_a_dead_command_is_an_orphan_until_somebody_takes_it(hall: Hall) -> None:
    command, worker = await hall.post(), await hall.post("w")
    async with command.claims.claim("a", errand=Errand.STRATEGIZE):
        hall.clock.seconds += DEAD_S + 1
        await worker.beat()
        assert await worker.crew.reap() == [("a", Errand.STRATEGIZE)]
        assert await worker.crew.reap() == [("a", Errand.STRATEGIZE)]
        await worker.queue.adopt(replace(job("a"), errand=Errand.STRATEGIZE))
        assert await worker.crew.reap() == []
        ((hold, name),) = await worker.take()
        assert name == "a"
        await worker.crew.settle(hold)
        await worker.queue.adopt(job("a"))  # somebody slow, who was told of it as well
        assert await worker.queue.jobs() == []


async def test_a_change_made_at_once_leaves_no_orphan(hall: Hall) -> None:
    command, worker = await hall.post(), await hall.post("w")
    async with command.claims.claim("a"):
        hall.clock.seconds += DEAD_S + 1
        await worker.beat()
        assert await worker.crew.reap() == []


async def test_a_command_that_carries_a_queued_plan_out_takes_it_from_the_queue(hall: Hall) -> None:
    command, worker = await hall.post(), await hall.post("w")
    await worker.queue.put(job("a"))
    async with command.claims.claim("a", errand=Errand.RUN):
        assert await worker.take() == []
    assert await worker.queue.jobs() == []


async def test_a_plan_that_a_command_changes_is_not_taken_meanwhile(hall: Hall) -> None:
    command, worker = await hall.post(), await hall.post("w")
    await worker.queue.put(job("a"))
    async with command.claims.claim("a"):
        assert await worker.take() == []
    assert [name for _, name in await worker.take()] == ["a"]


async def test_what_a_worker_has_no_command_can_claim(hall: Hall) -> None:
    command, worker = await hall.post(), await hall.post("w")
    await worker.queue.put(job("a"))
    ((hold, _),) = await worker.take()
    with pytest.raises(Conflict, match="worker w"):
        async with command.claims.claim("a"):
            pytest.fail("claimed twice")
    await worker.crew.settle(hold)
    async with command.claims.claim("a"):
        pass


async def test_a_worker_that_changes_a_plan_gives_it_back_and_stays_a_worker(hall: Hall) -> None:
    worker, other = await hall.post("w"), await hall.post()
    async with worker.claims.claim("a"):
        pass
    async with other.claims.claim("a"):
        assert [each.name for each in await other.queue.members() if each.is_worker] == ["w"]


async def test_a_job_taken_out_of_the_queue_is_not_begun(hall: Hall) -> None:
    worker = await hall.post("w")
    await worker.queue.put(job("a"))
    await worker.queue.withdraw("a")
    await worker.queue.withdraw("a")
    assert await worker.take() == []


async def test_two_living_workers_cannot_have_one_name(hall: Hall) -> None:
    first = await hall.post("w")
    second = await hall.post()
    with pytest.raises(Conflict, match="a worker w already"):
        await second.crew.join("w", 1)
    await first.crew.leave()
    assert (await second.crew.join("w", 2)).concurrency == 2
    assert [each.name for each in await second.queue.members()] == ["w"]


async def test_the_name_of_a_dead_worker_is_free_with_all_it_had(hall: Hall) -> None:
    first = await hall.post("w")
    await first.queue.put(job("a"))
    await first.take()
    hall.clock.seconds += DEAD_S + 1
    second = await hall.post("w")
    assert [name for _, name in await second.take()] == ["a"]


async def test_a_worker_that_leaves_gives_back_what_it_had(hall: Hall) -> None:
    leaving, other = await hall.post("leaving"), await hall.post("other")
    await leaving.queue.put(job("a"))
    await leaving.take()
    await leaving.crew.leave(is_draining=True)
    shown = {each.name: each.is_draining for each in await other.queue.members()}
    assert shown == {"leaving": True, "other": False}
    assert await other.take() == []
    await leaving.crew.leave()
    assert [name for _, name in await other.take()] == ["a"]


async def test_without_room_nothing_is_taken(hall: Hall) -> None:
    worker = await hall.post("w")
    await worker.queue.put(job("a"))
    assert await worker.take(0) == []


async def test_a_lane_that_was_emptied_takes_jobs_again(hall: Hall) -> None:
    worker = await hall.post("w")
    for name in ("a", "b"):
        await worker.queue.put(job(name))
        ((hold, taken),) = await worker.take()
        await worker.crew.settle(hold)
        assert (taken, await worker.take()) == (name, [])


async def test_a_job_of_a_path_that_is_no_utf8_waits_and_is_taken(hall: Hall) -> None:
    worker = await hall.post("w", concurrency=3)
    await worker.queue.put(job("a", project="/caf\udce9"))
    await worker.queue.put(job("b", project="/caf\udce9"))
    await worker.queue.put(job("c", project="/café"))
    limits = Limits(per_project=1)
    taken = await worker.take(3, limits)
    assert [name for _, name in taken] == ["a", "c"]
    await worker.crew.settle(taken[0][0])
    assert [name for _, name in await worker.take(3, limits)] == ["b"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET errand = 'dance' WHERE job = 'a'",
        "UPDATE jobs SET not_before = 'x', priority = 9 WHERE job = 'a'",
        "UPDATE jobs SET priority = x'ff' WHERE job = 'a'",
    ],
)
async def test_a_damaged_job_hides_no_other_and_is_told_once(
    hall: Hall, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await hall.post("w", concurrency=3)
    for name in ("a", "b", "c"):
        await worker.queue.put(job(name))
    await worker.journal.within(lambda connection: connection.execute(statement))
    assert [name for _, name in await worker.take(2)] == ["b", "c"]
    assert await worker.take(2) == []
    assert [each.job_id for each, _ in await worker.queue.jobs()] == ["b", "c"]
    assert [record.getMessage() for record in caplog.records] == [
        "the job a of the queue: it is damaged"
    ]


async def test_a_damaged_lease_hides_no_plan_of_a_dead_process(hall: Hall) -> None:
    worker, dead = await hall.post("w"), await hall.post()
    for name in ("a", "b"):
        await dead.claims.claim(name, errand=Errand.RUN).__aenter__()
    statement = "UPDATE leases SET errand = 'dance' WHERE job = 'a'"
    await worker.journal.within(lambda connection: connection.execute(statement))
    hall.clock.seconds += DEAD_S + 1
    await worker.beat()
    assert await worker.crew.reap() == [("b", Errand.RUN)]


@pytest.mark.parametrize("beat", ["soon", b"\xff", float("inf")])
async def test_a_damaged_member_hides_no_other_that_is_dead(hall: Hall, beat: object) -> None:
    worker, damaged, dead = await hall.post("w"), await hall.post("x"), await hall.post()
    for post, name in ((damaged, "a"), (dead, "b")):
        await post.claims.claim(name, errand=Errand.RUN).__aenter__()
    statement = "UPDATE members SET beat = ?, since = ?, concurrency = ? WHERE name = 'x'"
    await worker.journal.within(lambda known: known.execute(statement, (beat, "x", "x")))
    hall.clock.seconds += DEAD_S + 1
    await worker.beat()
    assert [each.name for each in await worker.queue.members()] == ["w"]
    assert await worker.crew.reap() == [("a", Errand.RUN), ("b", Errand.RUN)]
    await worker.crew.join("x", 1)  # its name is free
