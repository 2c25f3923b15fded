"""Four workers on one database, one killed or stopped every few seconds: plans are done once.

`PATCHYARD_SOAK=1` makes it 1,000 plans, a higher number that many; `PATCHYARD_SEED` says which
worker is killed when.
"""

import asyncio
import itertools
import os
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from crews import WorkerCrew, crewed, plans_in
from endings import ended
from engine.worksite import Worksite, call, done
from patchyard.domain.changeset import ChangeSet
from patchyard.domain.codec import from_json
from patchyard.domain.events import Event, Moved
from patchyard.domain.plan import State
from patchyard.domain.queue import DEAD_S, Taken, job_of
from patchyard.engine.ledger import Ledger
from patchyard.intake import spec_of
from timing import promised

SOAK = int(os.environ.get("PATCHYARD_SOAK") or 0)
PLANS = {0: 40, 1: 1000}.get(SOAK, SOAK)
SEED = int(os.environ.get("PATCHYARD_SEED", "20261121"))
WORKERS = ("w0", "w1", "w2", "w3")
AT_ONCE = 2  # plans of one worker
PROJECTS = 4
LIMIT = 3  # plans of one project at once
STOPPED = 0.3  # of the victims, in the long run: they come back
BETWEEN_S = (0.8, 2.5)  # kills
WITHIN_S = 3600 if SOAK else 900
TAKEN_OVER_S = promised(15.0)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(WITHIN_S + 300),
]


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A time during which a worker was at a plan, by the plan's journal."""

    plan_id: str
    worker: str
    slots: tuple[str, ...]
    start: float
    end: float


@pytest.fixture
async def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkerCrew]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    site = Worksite.make(tmp_path, {"a.txt": "one\n"})
    settings = tmp_path / "config" / "patchyard" / "config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"slots: {{per_project: {LIMIT}}}\n")
    with crewed(site) as made:
        yield made
    await site.clear()


async def queued(crew: WorkerCrew) -> list[str]:
    """Queue short plans of several projects, each with an effect that shows when it is doubled."""
    command = "echo begun >> log; sleep 0.2; echo ended >> log"
    model = crew.site.script([call("execute_command", command=command, timeout_s=50), done()])
    plans = []
    async with crew.site.open() as (equipment, workflow):
        asked = crew.site.asked_of(model)
        spec = spec_of(asked, crew.site.environ)
        base = await equipment.trees.snapshot(crew.site.repository)
        for number in range(PLANS):
            named = replace(spec, project=f"project-{number % PROJECTS}")
            plan_id = await workflow.create(named, base=base)
            await equipment.queue.put(job_of(plan_id, named))
            plans.append(plan_id)
    return plans


async def killing(crew: WorkerCrew, rng: random.Random) -> tuple[list[float], list[float]]:
    """Kill one worker after the other, with a new one in its place, until all is done.

    A plan has ended since the kill before. Returns when one was killed, and when one was stopped.
    """
    deadline = time.monotonic() + WITHIN_S
    before = PLANS
    killed, halted = list[float](), list[float]()
    stopped: dict[int, asyncio.Task[None]] = {}
    options = ("--concurrency", str(AT_ONCE))
    for name in WORKERS:
        crew.start(name, *options)
    async with crew.site.open() as (equipment, _):
        while left := await plans_in(equipment.queue):
            assert time.monotonic() < deadline, left
            await asyncio.sleep(rng.uniform(*BETWEEN_S))
            if len(left) == before:
                continue  # on a busy machine no plan would end between two kills
            before = len(left)
            victim = rng.randrange(len(WORKERS))
            process = crew.working[victim]
            if SOAK and victim not in stopped and rng.random() < STOPPED:
                halted.append(time.time())
                process.send_signal(signal.SIGSTOP)
                stopped[victim] = asyncio.create_task(going_on(process, stopped, victim))
                continue
            process.send_signal(signal.SIGKILL)
            ended(process)
            killed.append(time.time())
            crew.working[victim] = crew.start(WORKERS[victim], *options)
            crew.working.pop()
        if stopped:
            await asyncio.wait(stopped.values())
    return killed, halted


async def going_on(
    process: subprocess.Popen[str], stopped: dict[int, asyncio.Task[None]], number: int
) -> None:
    """Let a stopped worker come back, long after the others have taken what it had."""
    await asyncio.sleep(DEAD_S * 1.5)
    process.send_signal(signal.SIGCONT)
    del stopped[number]


def stretches(plan_id: str, events: Sequence[tuple[int, float, Event]]) -> list[Stretch]:
    """Return who was at a plan when: from its taking until the last event before the next."""
    found: list[Stretch] = []
    taken: tuple[Taken, float] | None = None
    last = 0.0
    for _, at, event in [*events, (0, 0.0, Taken(worker="", generation=0))]:
        if isinstance(event, Taken):
            if taken is not None:
                who, start = taken
                found.append(
                    Stretch(
                        plan_id=plan_id, worker=who.worker, slots=who.slots, start=start, end=last
                    )
                )
            taken = (event, at)
        last = at
    return found


def most_at_once(times: Sequence[Stretch]) -> int:
    changes = sorted([(each.start, 1) for each in times] + [(each.end, -1) for each in times])
    count = most = 0
    for _, change in changes:
        count += change
        most = max(most, count)
    return most


async def test_each_plan_is_done_once_and_no_limit_is_passed_whoever_is_killed(
    crew: WorkerCrew,
) -> None:
    plans = await queued(crew)
    killed, halted = await killing(crew, random.Random(SEED))

    assert killed
    at_work: list[Stretch] = []
    endings: Counter[tuple[str, str]] = Counter()
    async with crew.site.open() as (equipment, _):
        for plan_id in plans:
            ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
            events = await ledger.events()
            moves = [event for _, _, event in events if isinstance(event, Moved)]
            failure = ledger.state.failure
            ending = f"{ledger.state.phase}/{ledger.state.state}"
            endings[ending, failure.message if failure else ""] += 1
            if ending != "execute/complete":
                continue
            assert sum(move.state == State.COMPLETE for move in moves) == 2, plan_id
            captured = ledger.state.changeset
            assert captured is not None
            changes = from_json(ChangeSet, await ledger.value(captured.body))
            assert [(each.path, each.added) for each in changes.changes] == [("log", 2)], plan_id
            assert (ledger.state.open_calls, ledger.state.environments) == ({}, {})
            at_work += stretches(plan_id, events)
    assert endings == {("execute/complete", ""): PLANS}
    for name in WORKERS:
        assert most_at_once([each for each in at_work if each.worker == name]) <= AT_ONCE
    projects = {slot for each in at_work for slot in each.slots if slot.startswith("project:")}
    assert len(projects) == PROJECTS
    for project in projects:
        assert most_at_once([each for each in at_work if project in each.slots]) <= LIMIT
    waited = waits(at_work)
    assert (statistics.median(waited) if halted else max(waited, default=0.0)) < TAKEN_OVER_S


def waits(at_work: Sequence[Stretch]) -> list[float]:
    """Return how long each plan waited for its next worker.

    While others are stopped, all workers may be, and slots stay taken until they count as dead.
    """
    return [
        after.start - before.end
        for before, after in itertools.pairwise(at_work)
        if before.plan_id == after.plan_id
    ]
