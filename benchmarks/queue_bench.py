"""What it costs to take a job from the queue, synced, and to give it back."""

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import measured
from patchyard.clients.clock import SystemClock
from patchyard.domain.queue import Limits
from patchyard.stores.membership import Membership
from patchyard.stores.queue import SQLiteQueue
from patchyard.stores.sqlite import SQLiteJournal

JOBS = 10_000  # that wait
PROJECTS = 20
CLAIMS = 1_000
LIMITS = Limits(per_project=5, per_model=50)


async def _per_job_ms(room: int) -> float:
    """The mean time of one job from the queue to its settlement, `room` of them in one step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "patchyard.db")
        journal, clock = SQLiteJournal.open(path), SystemClock()
        membership = Membership(journal, path, clock)
        queue = SQLiteQueue(membership, clock)
        try:
            await _fill(journal)
            await queue.join("bench", room)
            started = time.perf_counter()
            claims = 0.0
            for _ in range(CLAIMS // room):
                before = time.perf_counter()
                taken = await queue.claim(room, LIMITS)
                claims += time.perf_counter() - before
                assert len(taken) == room
                for hold, _job in taken:
                    await queue.settle(hold)
            whole = time.perf_counter() - started
            return (claims if room == 1 else whole) / CLAIMS * 1000
        finally:
            membership.rest()
            await journal.close()


async def _fill(journal: SQLiteJournal) -> None:
    rows = [
        (f"job-{number:05}", "run", f"project-{number % PROJECTS}", "m", 0, 0.0, 0.0, 1.0)
        for number in range(JOBS)
    ]
    await journal.within(
        lambda connection: connection.executemany(
            "INSERT INTO jobs (job, errand, project, model, priority, not_before, every_s, queued)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
    )
    await journal.within(
        lambda connection: connection.execute(
            "INSERT INTO lanes (project, model) SELECT DISTINCT project, model FROM jobs"
        )
    )


@measured("queue: claim of one job out of 10,000", target=1.0)
def track_claim() -> float:
    return asyncio.run(_per_job_ms(1))


@measured("queue: claim by fours, and settle, a job", target=1.0)
def track_claim_by_fours() -> float:
    return asyncio.run(_per_job_ms(4))
