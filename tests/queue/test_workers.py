"""Workers as processes: what one leaves, however it ends, another carries on."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from crews import LONGEST_S, WorkerCrew, crewed, plans_in
from engine.held import WAITING, release, said
from engine.worksite import ADD, Worksite, call, done
from patchyard.domain.events import (
    EnvironmentStarted,
    ToolCallRequested,
    ToolCallSettled,
    WorkSummarised,
)
from patchyard.domain.ids import is_ulid
from patchyard.domain.queue import Taken
from patchyard.engine.directing import Directing
from timing import promised

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
]

TAKEN_OVER_S = promised(15.0)  # issue: a dead worker's plans go on within it


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    yield made
    await made.clear()


@pytest.fixture
def crew(site: Worksite) -> Iterator[WorkerCrew]:
    with crewed(site) as made:
        yield made


def steps(count: int, *, seconds: float) -> list[dict[str, Any]]:
    """Steps that each show when they begin and when they end."""
    return [
        call(
            "execute_command",
            command=f"echo {n} begun >> log; sleep {seconds}; echo {n} ended >> log",
            timeout_s=50,
        )
        for n in range(count)
    ]


def shown(count: int) -> list[str]:
    return [f"{n} {what}" for n in range(count) for what in ("begun", "ended")]


def log(crew: WorkerCrew, plan_id: str) -> list[str]:
    patch = crew.agents("plan", "diff", plan_id)["data"]["patch"]
    return [line[1:] for line in patch.splitlines() if line[:1] == "+" and line[:2] != "++"]


async def workers_of(crew: WorkerCrew, plan_id: str) -> list[tuple[str, int]]:
    found = await crew.events(plan_id)
    taken = [event for _, _, event in found if isinstance(event, Taken)]
    return [(event.worker, event.generation) for event in taken]


async def test_a_detached_run_returns_at_once_and_a_worker_carries_it_out(
    site: Worksite, crew: WorkerCrew
) -> None:
    model = site.script([*steps(1, seconds=0), done()])
    body = crew.agents("run", "do it", "--model", model, "--validate", "", "-d")
    plan_id = body["data"]["plan_id"]
    assert (body["exit_code"], body["data"]["workers"]) == (0, [])
    assert (body["data"]["phase"], body["data"]["state"]) == ("strategize", "queued")
    assert crew.status(plan_id)["waiting"]["for"] == "a worker: none is alive"
    (listed,) = crew.agents("plan", "list")["data"]["plans"]
    assert listed["queue"]["waits_for"] == "a worker: none is alive"
    assert crew.agents("plan", "watch", plan_id)["data"]["state"] == "queued"
    crew.start("w")
    end = crew.agents("plan", "watch", plan_id)
    assert (end["data"]["phase"], end["data"]["state"]) == ("execute", "complete")
    assert log(crew, plan_id) == shown(1)
    assert await workers_of(crew, plan_id) == [("w", 1)]


async def test_a_plan_of_a_worker_says_whose_it_is_and_one_that_waits_says_for_what(
    site: Worksite, crew: WorkerCrew
) -> None:
    hang = call("execute_command", command="sleep 600", timeout_s=500)
    model = site.script([hang, ADD, done()])
    crew.start("w", "--concurrency", "1")
    taken = await crew.queue(model)
    await crew.until(taken, ToolCallRequested)
    body = crew.agents("run", "do it", "--model", model, "--priority", "4", "-d")
    assert body["data"]["queue"]["waits_for"] == "a free worker"
    out, _ = crew.spawn("plan", "list").communicate(timeout=LONGEST_S)
    assert "(worker w)" in out
    assert "(waits for a free worker)" in out
    out, _ = crew.spawn("plan", "status", taken).communicate(timeout=LONGEST_S)
    assert "worker w, process" in out
    assert crew.status(taken)["owner"]["worker"] == "w"
    held = crew.agents("plan", "apply", taken)
    assert (held["exit_code"], "worker w" in held["error"]["message"]) == (3, True)
    for plan_id in (body["data"]["plan_id"], taken):
        assert crew.agents("plan", "cancel", plan_id)["data"]["state"] == "cancelled"
    again = crew.agents("plan", "resume", taken, "--detach")
    assert (again["exit_code"], again["data"]["workers"]) == (0, ["w"])
    await crew.until(taken, WorkSummarised)


async def test_a_paused_plan_that_is_left_to_a_worker_goes_on(
    site: Worksite, crew: WorkerCrew
) -> None:
    plan_id = await crew.queue(site.script([WAITING, *steps(2, seconds=0), done()]))
    crew.start("w")
    await crew.until(plan_id, ToolCallRequested)
    async with site.open() as (equipment, _):
        pausing = asyncio.ensure_future(Directing(equipment).pause(plan_id))
        await said(equipment, plan_id)
        release(site)
        assert (await pausing).steered.paused is not None
        assert await plans_in(equipment.queue) == []
    assert crew.agents("plan", "resume", plan_id, "-d")["exit_code"] == 0
    await crew.until(plan_id, WorkSummarised)
    assert log(crew, plan_id) == shown(2)


async def test_a_killed_workers_plan_goes_on_in_time_with_each_effect_once(
    site: Worksite, crew: WorkerCrew
) -> None:
    workers = {name: crew.start(name) for name in ("first", "second")}
    plan_id = await crew.queue(site.script([*steps(1, seconds=0), WAITING, done()]))
    await crew.until(plan_id, ToolCallRequested, count=2)
    ((owner, _),) = await workers_of(crew, plan_id)
    workers.pop(owner).kill()
    killed = time.time()
    await crew.until(plan_id, Taken, count=2)
    release(site)
    await crew.until(plan_id, WorkSummarised)
    assert await workers_of(crew, plan_id) == [(owner, 1), (*workers, 2)]
    taken = [at for _, at, event in await crew.events(plan_id) if isinstance(event, Taken)]
    assert taken[-1] - killed < TAKEN_OVER_S
    assert log(crew, plan_id) == shown(1)


def at_work(crew: WorkerCrew, model: str) -> tuple["subprocess.Popen[str]", str]:
    """Start a command; return it, and its plan, once it has sent its first call."""
    command = crew.spawn("run", "do it", "--model", model, "--stream", "--format", "json")
    assert command.stdout is not None
    for event in map(json.loads, command.stdout):
        if event["event"] == "ToolCallRequested":
            return command, event["plan_id"]
    raise AssertionError("it ended before its first call")


async def test_a_worker_carries_on_what_a_killed_command_had_begun(
    site: Worksite, crew: WorkerCrew
) -> None:
    command, plan_id = at_work(crew, site.script([*steps(2, seconds=0.5), done()]))
    command.kill()
    command.communicate(timeout=LONGEST_S)
    crew.start("w")
    await crew.until(plan_id, WorkSummarised)
    assert log(crew, plan_id) == shown(2)


async def test_a_stopped_worker_that_comes_back_cannot_write_and_works_on_as_another(
    site: Worksite, crew: WorkerCrew
) -> None:
    plan_id = await crew.queue(site.script([*steps(6, seconds=1.5), done()]))
    stopped = crew.start("stopped")
    await crew.until(plan_id, ToolCallRequested, count=2)
    crew.stop(stopped, plan_id)
    silent = time.time()
    crew.start("other")
    await crew.until(plan_id, Taken, count=2)
    assert time.time() - silent < TAKEN_OVER_S
    stopped.send_signal(signal.SIGCONT)
    await crew.until(plan_id, WorkSummarised)
    assert await workers_of(crew, plan_id) == [("stopped", 1), ("other", 2)]
    assert log(crew, plan_id) == shown(6)
    assert crew.agents("plan", "verify", plan_id)["exit_code"] == 0
    crew.working[1].send_signal(signal.SIGTERM)
    crew.working[1].wait(LONGEST_S)
    after = await crew.queue(site.script([*steps(1, seconds=0), done()]))
    await crew.until(after, WorkSummarised)
    assert await workers_of(crew, after) == [("stopped", 1)]


async def test_a_stopped_command_that_comes_back_says_that_it_lost_its_plan(
    site: Worksite, crew: WorkerCrew
) -> None:
    command, plan_id = at_work(crew, site.script([*steps(5, seconds=1.5), done()]))
    crew.stop(command, plan_id)
    crew.start("w")
    await crew.until(plan_id, Taken)
    command.send_signal(signal.SIGCONT)
    out, _ = command.communicate(timeout=LONGEST_S)
    body = json.loads(out.splitlines()[-1])
    assert (command.returncode, body["error"]["code"]) == (3, "fenced_off")
    await crew.until(plan_id, WorkSummarised)
    assert log(crew, plan_id) == shown(5)


def until_it_stops(worker: "subprocess.Popen[str]") -> None:
    """Return once a worker says that it has heard of its end."""
    assert worker.stderr is not None
    line = worker.stderr.readline()
    while "stopping" not in line:
        assert line
        line = worker.stderr.readline()


async def test_a_worker_told_to_end_leaves_its_plan_at_a_step_for_the_next(
    site: Worksite, crew: WorkerCrew
) -> None:
    plan_id = await crew.queue(site.script([WAITING, *steps(3, seconds=0), done()]))
    first = crew.start("first")
    await crew.until(plan_id, ToolCallRequested)
    first.send_signal(signal.SIGTERM)
    until_it_stops(first)
    release(site)
    _, told = first.communicate(timeout=LONGEST_S)
    assert (first.returncode, "left for the next worker" in told) == (0, True)
    data = crew.status(plan_id)
    assert (data["phase"], data["state"]) == ("execute", "processing")
    found = await crew.events(plan_id)
    settled = [event for _, _, event in found if isinstance(event, ToolCallSettled)]
    assert [event.success for event in settled] == [True]
    crew.start("second")
    await crew.until(plan_id, WorkSummarised)
    assert log(crew, plan_id) == shown(3)


async def test_a_call_that_outlasts_the_time_to_end_is_cancelled_and_the_plan_goes_on(
    site: Worksite, crew: WorkerCrew
) -> None:
    hang = call("execute_command", command="echo hanging > log; sleep 600", timeout_s=500)
    plan_id = await crew.queue(site.script([hang, *steps(1, seconds=0), done()]))
    first = crew.start("first", "--drain", "1s")
    await crew.until(plan_id, ToolCallRequested)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=LONGEST_S)
    assert first.returncode == 0
    crew.start("second")
    await crew.until(plan_id, WorkSummarised)
    assert log(crew, plan_id)[-2:] == shown(1)


async def test_a_second_signal_ends_a_worker_at_once(site: Worksite, crew: WorkerCrew) -> None:
    hang = call("execute_command", command="sleep 600", timeout_s=500)
    plan_id = await crew.queue(site.script([hang, done()]))
    worker = crew.start("w")
    await crew.until(plan_id, ToolCallRequested)
    worker.send_signal(signal.SIGTERM)
    until_it_stops(worker)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(LONGEST_S) == 128 + signal.SIGKILL
    crew.agents("plan", "cancel", plan_id)


async def test_a_second_worker_of_one_name_is_refused(crew: WorkerCrew) -> None:
    crew.start("w")
    body = crew.agents("worker", "--name", "w")
    assert (body["exit_code"], body["error"]["code"]) == (3, "conflict")
    assert "another name" in body["error"]["hint"]


async def test_a_plan_that_waits_for_a_worker_can_be_cancelled(
    site: Worksite, crew: WorkerCrew
) -> None:
    plan_id = await crew.queue(site.script([*steps(1, seconds=0), done()]))
    assert crew.agents("plan", "cancel", plan_id)["data"]["state"] == "cancelled"
    last = await crew.queue(site.script([*steps(1, seconds=0), done()]))
    crew.start("w")
    await crew.until(last, WorkSummarised)
    assert await workers_of(crew, plan_id) == []


async def test_a_plan_that_a_worker_has_can_be_cancelled(site: Worksite, crew: WorkerCrew) -> None:
    hang = call("execute_command", command="sleep 600", timeout_s=500)
    plan_id = await crew.queue(site.script([hang, done()]))
    crew.start("w")
    await crew.until(plan_id, ToolCallRequested)
    assert crew.agents("plan", "cancel", plan_id)["data"]["state"] == "cancelled"
    async with site.open() as (equipment, _):
        assert await plans_in(equipment.queue) == []


async def test_under_the_profile_manual_a_plan_is_made_and_not_queued(
    site: Worksite, crew: WorkerCrew
) -> None:
    model = site.script([done()])
    body = crew.agents("run", "do it", "--model", model, "--automation-profile", "manual", "-d")
    assert (body["exit_code"], body["data"]["state"]) == (0, "queued")
    async with site.open() as (equipment, _):
        assert await equipment.queue.jobs() == []


async def test_what_is_said_of_the_queue_counts_with_detach_alone(
    site: Worksite, crew: WorkerCrew
) -> None:
    words = ["run", "do it", "--model", site.script([done()]), "--validate", ""]
    body = crew.agents(*words, "--priority", "3")
    assert (body["exit_code"], body["error"]["hint"]) == (2, "add -d")
    body = crew.agents(*words, "--priority", "3", "--not-before", "1h", "-d")
    queue = body["data"]["queue"]
    assert queue["priority"] == 3
    assert queue["not_before"] == pytest.approx(time.time() + 3600, abs=60)
    worker = crew.start("w")
    status = crew.status(body["data"]["plan_id"])
    assert status["waiting"]["for"].startswith("its time, in 3")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(LONGEST_S) == 0


async def test_a_variable_says_how_many_plans_of_a_project_may_be_at_work(
    site: Worksite, crew: WorkerCrew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHYARD_SLOTS", "{per_project: 1}")
    hang = call("execute_command", command="sleep 600", timeout_s=500)
    model = site.script([hang, done()])
    first, second = await crew.queue(model), await crew.queue(model)
    crew.start("w", "--concurrency", "2")
    await crew.until(first, ToolCallRequested)
    said = crew.status(second)["waiting"]["for"]
    assert said == f"a slot of project {site.repository} (1 of 1 taken)"
    for plan_id in (second, first):
        crew.agents("plan", "cancel", plan_id)


def pools_seen(crew: WorkerCrew, plan_id: str) -> Any:
    """Return what the screen of a plan says of pools, once the next place is made or waits."""
    deadline = time.monotonic() + LONGEST_S
    while not (pools := crew.status(plan_id)["pools"]):
        assert time.monotonic() < deadline
    return pools


async def test_the_second_plan_of_a_project_gets_a_place_that_waits_and_none_stays(
    site: Worksite, crew: WorkerCrew
) -> None:
    model = site.script([*steps(1, seconds=0), done()])
    crew.has_pool = True
    worker = crew.start("w")
    environments = []
    for _ in range(2):
        plan_id = await crew.queue(model)
        await crew.until(plan_id, WorkSummarised)
        found = [event for _, _, event in await crew.events(plan_id)]
        started = [e for e in found if isinstance(e, EnvironmentStarted) and e.purpose == "execute"]
        environments += [(each.handle.environment_id, each.is_from_pool) for each in started]
        assert log(crew, plan_id) == shown(1)
    assert len(dict(environments)) == 2
    assert environments[1][1]
    pools = pools_seen(crew, plan_id)
    assert [(pool["worker"], pool["size"]) for pool in pools] == [("w", 1)]
    assert [row["project"] for row in pools[0]["projects"]] == [str(site.repository)]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(LONGEST_S) == 0
    assert crew.status(plan_id)["pools"] == []
    assert not [each for each in (site.folder / "home/run").iterdir() if is_ulid(each.name)]
    trees = (site.folder / "workspaces/tasks").iterdir()
    assert len([each for each in trees if is_ulid(each.name)]) == 2


async def test_a_worker_that_is_to_do_nothing_at_once_is_refused(crew: WorkerCrew) -> None:
    assert crew.agents("worker", "--concurrency", "0")["exit_code"] == 2
