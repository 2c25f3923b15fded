"""Workers killed while they carry out plans of 5 to 60 steps: no plan shows that one was.

The kill matrix for plans that wait in the queue: another worker goes on where one was killed, and
a new one comes in its place. What anybody could read in the journal before a kill stays there.
`PATCHYARD_WORKERS` sets how many are killed at least, `PATCHYARD_ZOMBIE_WORKERS` how many are
stopped and wake when another has taken over, `PATCHYARD_SEED` the seed.
"""

import asyncio
import random
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from chaos.killing import SEED, amount, answered, journalled, opened
from chaos.matrix import badly_settled, case, left_mounted, left_running, undisturbed
from chaos.victims import hit
from crews import WorkerCrew, crewed, plans_in
from endings import ended
from engine.worksite import Worksite
from patchyard.domain.codec import to_json
from patchyard.domain.events import Event, Moved
from patchyard.domain.plan import Phase, State
from patchyard.domain.queue import DEAD_S, Taken
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import read_events

KILLS = amount("PATCHYARD_WORKERS", sample=8, soak=300)
PLANS = 4
KILLS_A_YARD = 8  # fewer than the deaths after which a plan waits for a person
AT_ONCE = 2
WORKERS = ("w0", "w1")
TARGETS = ("engine", "engine", "both")  # the worker; the worker and PID 1 inside in one moment
LONGEST_YARD_S = 600.0
ZOMBIES = amount("PATCHYARD_ZOMBIE_WORKERS", sample=1, soak=24)
STOPPED_S = amount("PATCHYARD_STOPPED_S", sample=int(DEAD_S) + 1, soak=60)
ZOMBIES_AT_ONCE = 6

Rows = Sequence[tuple[int, float, Event]]
Disturb = Callable[
    [WorkerCrew, Sequence[str], random.Random], Coroutine[None, None, tuple[list[str], list[str]]]
]

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(900 + 10 * KILLS),
]


def of_one_yard(folder: Path, seed: int, disturb: Disturb) -> tuple[list[str], int]:
    """Queue the plans of one case and disturb their workers; what is wrong then, and how often."""
    script = folder / f"script-{seed}.json"
    script.write_text(case(seed).script)
    with opened(folder / f"undisturbed-{seed}") as yard:
        tree = undisturbed(yard, script)
    with opened(folder / str(seed)) as yard:
        words = ("run", "steps", "-d", "--model", f"scripted:{script}")
        plans = [answered(yard, *words)["data"]["plan_id"] for _ in range(PLANS)]
        rng = random.Random(seed)
        with crewed(Worksite(folder=yard)) as crew:
            found, done = asyncio.run(disturb(crew, plans, rng))
            for worker in crew.working:
                worker.terminate()
                ended(worker)
        for plan in plans:
            found += [f"{plan}: {text}" for text in _wrongs(yard, plan, tree)]
        found += left_mounted(yard)
        return [f"seed {seed}: {text} (after {done})" for text in found], len(done)


async def killed(
    crew: WorkerCrew, plans: Sequence[str], rng: random.Random
) -> tuple[list[str], list[str]]:
    """Kill workers until all plans are done; what was read and is lost, and the kills."""
    read: dict[str, Rows] = {}
    kills: list[str] = []
    for name in WORKERS:
        crew.start(name)
    async with crew.site.open() as (equipment, _):
        deadline = time.monotonic() + LONGEST_YARD_S
        while await plans_in(equipment.queue):
            assert time.monotonic() < deadline, kills
            await asyncio.sleep(rng.choice((0.05, rng.uniform(0, 0.5), rng.uniform(0, 2.0))))
            if len(kills) < KILLS_A_YARD and rng.random() < 0.8:
                read = await _rows(equipment, plans)
                number = rng.randrange(len(WORKERS))
                if _is_at_work(WORKERS[number], read):
                    kills.append(_kill(crew, number, rng.choice(TARGETS), read))
        return _lost(read, await _rows(equipment, plans)), kills


async def stopped(
    crew: WorkerCrew, plans: Sequence[str], rng: random.Random
) -> tuple[list[str], list[str]]:
    """Stop a worker, let another go on, wake the first in between; what is lost, and the stop."""
    zombie = crew.start(WORKERS[0])
    async with crew.site.open() as (equipment, _):
        read: dict[str, Rows] = {}
        while not _is_at_work(WORKERS[0], read):
            zombie.send_signal(signal.SIGCONT)
            await asyncio.sleep(rng.uniform(0.1, 2.0))
            zombie.send_signal(signal.SIGSTOP)
            read = await _rows(equipment, plans)
        await asyncio.sleep(STOPPED_S)
        crew.start(WORKERS[1])
        deadline = time.monotonic() + LONGEST_YARD_S
        while not _is_taken_over(await _rows(equipment, plans)):
            assert time.monotonic() < deadline, "nobody took over what the stopped worker had"
            await asyncio.sleep(0.05)
        await asyncio.sleep(rng.choice((0, rng.uniform(0, 1.0), rng.uniform(0, 6.0))))
        zombie.send_signal(signal.SIGCONT)
        while await plans_in(equipment.queue):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
        return _lost(read, await _rows(equipment, plans)), [f"stopped after {_count(read)} events"]


def _lost(read: Mapping[str, Rows], last: Mapping[str, Rows]) -> list[str]:
    lost = [plan for plan, rows in read.items() if list(last[plan][: len(rows)]) != list(rows)]
    return [f"{plan}: events are lost that were read before" for plan in lost]


def _count(read: Mapping[str, Rows]) -> int:
    return sum(map(len, read.values()))


async def _rows(equipment: Equipment, plans: Sequence[str]) -> dict[str, Rows]:
    return {plan: await read_events(equipment.store.journal, plan) for plan in plans}


def _is_at_work(worker: str, read: Mapping[str, Rows]) -> bool:
    """Whether it carries a plan out, by the journals."""
    for rows in read.values():
        if _owners(rows)[-1:] == [worker] and not any(_is_end(event) for _, _, event in rows):
            return True
    return False


def _owners(rows: Rows) -> list[str]:
    return [event.worker for _, _, event in rows if isinstance(event, Taken)]


def _is_taken_over(read: Mapping[str, Rows]) -> bool:
    return any(_owners(rows)[:2] == list(WORKERS) for rows in read.values())


def _is_end(event: Event) -> bool:
    return isinstance(event, Moved) and (event.phase, event.state) == (
        Phase.EXECUTE,
        State.COMPLETE,
    )


def _kill(crew: WorkerCrew, number: int, target: str, read: Mapping[str, Rows]) -> str:
    """Kill one worker, with a new one in its place; what was killed."""
    worker = crew.working[number]
    told = [
        {"event": type(event).__name__, **to_json(event)}
        for rows in read.values()
        for _, _, event in rows
    ]
    with suppress(ProcessLookupError):
        hit(target, worker.pid, told)
    ended(worker)
    crew.working[number] = crew.start(WORKERS[number])
    crew.working.pop()
    return f"{target} of {WORKERS[number]} after {len(told)} events"


def _wrongs(yard: Path, plan: str, tree: str) -> list[str]:
    state = answered(yard, "plan", "status", plan)["data"]
    events = journalled(yard, plan)
    found = [*badly_settled(events), *left_running(yard, events)]
    made = (state["changeset"] or {}).get("tree")
    if made != tree or state["state"] != "complete":
        found.append(f"{state['phase']}/{state['state']} with {made}, undisturbed it is {tree}")
    return found


def test_no_kill_of_a_worker_shows_in_what_its_plans_come_to(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    found: list[str] = []
    kills, seed = 0, SEED
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while kills < KILLS:
            seeds = range(seed, seed + AT_ONCE)
            seed += AT_ONCE
            for wrong, count in pool.map(lambda each: of_one_yard(tmp_path, each, killed), seeds):
                found += wrong
                kills += count
    record_property("kills", kills)
    assert found == [], f"{kills} kills, seed {SEED}"


def test_no_worker_that_comes_back_from_the_dead_writes(tmp_path: Path) -> None:
    with ThreadPoolExecutor(ZOMBIES_AT_ONCE) as pool:
        seeds = range(SEED, SEED + ZOMBIES)
        found = pool.map(lambda each: of_one_yard(tmp_path, each, stopped), seeds)
        assert [text for wrong, _ in found for text in wrong] == []
