"""Workers as processes of their own, over one worksite, to be killed, stopped and told to end."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from endings import ended
from engine.worksite import Worksite
from patchyard.clients.locks import holders
from patchyard.contracts.queue import Queue
from patchyard.domain.events import Event
from patchyard.domain.queue import Errand, job_of
from patchyard.engine.ledger import load, read_events
from patchyard.stores.stuck import WRITING

__all__ = ["LONGEST_S", "WorkerCrew", "crewed", "plans_in"]

LONGEST_S = 120.0


@dataclass(kw_only=True)
class WorkerCrew:
    """The workers of one worksite."""

    site: Worksite
    has_pool: bool = False  # else a killed worker leaves what waits in its pool for a minute
    working: list[subprocess.Popen[str]] = field(default_factory=list)
    spawned: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, name: str, *options: str) -> subprocess.Popen[str]:
        """Start a worker and return once it takes plans."""
        words = ["worker", "--name", name, *options]
        process = self.spawn(*words)
        assert process.stderr is not None
        said, line = "", ""
        while not line.startswith(f"worker {name}: up to"):
            line = process.stderr.readline()
            said += line
            assert line, said
        self.working.append(process)
        return process

    def spawn(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of ours."""
        process = subprocess.Popen(
            [sys.executable, "-m", "patchyard", *words],
            cwd=self.site.repository,
            env=self.site.environ | ({} if self.has_pool else {"PATCHYARD_POOL": "{size: 0}"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.spawned.append(process)
        return process

    def stop(self, process: subprocess.Popen[str], plan_id: str) -> None:
        """Stop the owner of a plan between two writes: in one it would be killed for the others."""
        database = self.site.folder / "home" / "patchyard.db"
        locks = {Path(f"{database}-shm"): WRITING, database.with_suffix(".owners") / plan_id: 0}
        while True:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if not any(process.pid in holders(path, byte=byte) for path, byte in locks.items()):
                return
            process.send_signal(signal.SIGCONT)
            time.sleep(0.02)

    def agents(self, *words: str) -> dict[str, Any]:
        """Run one command to its end and return its last JSON object."""
        out, err = ended(self.spawn(*words, "--format", "json"))
        assert out, err
        text = out.splitlines()[-1] if out.startswith('{"event"') else out
        body: dict[str, Any] = json.loads(text)
        return body

    def status(self, plan_id: str) -> dict[str, Any]:
        """Return what `plan status` says of a plan."""
        data: dict[str, Any] = self.agents("plan", "status", plan_id)["data"]
        return data

    async def queue(self, model: str, *, priority: int = 0, **options: Any) -> str:
        """Make a plan of a scripted model and leave it to the workers; return its id."""
        async with self.site.open() as (equipment, workflow):
            asked = self.site.asked_of(model, **options)
            plan_id = await self.site.made(workflow, asked)
            state, _ = await load(equipment.store.journal, plan_id)
            await equipment.queue.put(job_of(plan_id, state.known, priority=priority))
            return plan_id

    async def events(self, plan_id: str) -> Sequence[tuple[int, float, Event]]:
        """Return what the journal holds of a plan."""
        async with self.site.open() as (equipment, _):
            return await read_events(equipment.store.journal, plan_id)

    async def until(self, plan_id: str, kind: type[Event], *, count: int = 1) -> None:
        """Return once the journal holds so many events of a kind. Fails after two minutes."""
        deadline = time.monotonic() + LONGEST_S
        async with self.site.open() as (equipment, _):
            while time.monotonic() < deadline:
                found = await read_events(equipment.store.journal, plan_id)
                if sum(isinstance(event, kind) for _, _, event in found) >= count:
                    return
                await asyncio.sleep(0.02)
        raise AssertionError(f"no {kind.__name__} in {LONGEST_S:g} s")

    def end(self) -> None:
        """End all that still work."""
        for process in self.spawned:
            process.kill()
        for process in self.spawned:
            with process:
                pass


async def plans_in(queue: Queue) -> list[str]:
    """Return the plans that wait or are at work; not what workers do for the installation."""
    return [job.job_id for job, _ in await queue.jobs() if job.errand != Errand.CHORE]


@contextlib.contextmanager
def crewed(site: Worksite) -> Iterator[WorkerCrew]:
    """Yield a crew over `site`; none of it works on after the block."""
    crew = WorkerCrew(site=site)
    try:
        yield crew
    finally:
        crew.end()
