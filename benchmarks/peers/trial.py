"""One contender carries out one plot: when it asked, what it held, what it wrote, what a kill cost.

Knows no contender by name.
"""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers import process_tree
from benchmarks.peers.contenders import Contender, Places
from benchmarks.peers.process_tree import Memory, Spent
from benchmarks.peers.scripted_model import Arrival, Plot, ScriptedServer

__all__ = ["Failed", "Killed", "Trial", "kill_trial", "timed_trial"]

SAMPLE_S = 0.25
STALL_S = 90.0  # without a request the contender is taken to be stuck
KILL_AFTER_S = 0.25  # into a command that takes two seconds
KILLED_AT = 20  # the step whose command runs when the engine is killed
KILL_STEPS = 25
SETTLING_S = 3.0


class Failed(Exception):
    """A contender did not come to its end; the message says what it said last."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one run showed."""

    first_request_s: float
    steps_ms: Sequence[float]  # from one request to the next
    peak: Memory
    spent: dict[int, Spent]  # by the step at which it was read
    sent: int  # bytes of the last request

    def median_ms(self, until: int, *, last: int) -> float | None:
        """Return the median of the `last` steps before step `until`; None where it is beyond."""
        if until > len(self.steps_ms) + 1:
            return None
        return statistics.median(self.steps_ms[max(until - last, 1) : until])


@dataclass(frozen=True, kw_only=True)
class Killed:
    """What a kill -9 of the engine in the middle of a step cost."""

    answer_s: float  # from the next start to its first request
    steps_lost: int  # finished ones that the first request afterwards does not hold
    effects: tuple[int, int] | None  # lines in the file at the end, and those written twice
    survivors: int  # processes left SETTLING_S after the end of everything


@dataclass(kw_only=True)
class _Stage:
    """One folder, one server, and the contender's processes."""

    contender: Contender
    places: Places
    server: ScriptedServer
    peak: Memory = field(default_factory=lambda: Memory(rss=0, pss=0))

    async def spawn(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        with (self.places.folder / "said").open("ab") as said:
            return await asyncio.create_subprocess_exec(
                *command,
                cwd=self.places.work,
                env=_surroundings(self.contender, self.places),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    async def finish(
        self, process: asyncio.subprocess.Process, *, at_most_s: float = 900.0
    ) -> None:
        """Wait for the end while watching; kill it when its time is over. Raises Failed."""
        waiting = asyncio.ensure_future(process.wait())
        began = time.monotonic()
        while not waiting.done():
            await asyncio.wait([waiting], timeout=SAMPLE_S)
            self.sample()
            arrivals = self.server.arrivals
            quiet_since = max(began, arrivals[-1].at) if arrivals else began
            if arrivals and time.monotonic() - began > at_most_s:
                process.kill()
                await waiting
                return
            if time.monotonic() - quiet_since > STALL_S:
                raise Failed(f"stuck after {len(arrivals)} requests: {self.last_words()}")
        if not self.server.has_ended:
            raise Failed(f"ended with {process.returncode}: {self.last_words()}")

    def sample(self) -> None:
        """Look at the memory of all its processes."""
        now = process_tree.memory(os.getpid())
        self.peak = Memory(rss=max(self.peak.rss, now.rss), pss=max(self.peak.pss, now.pss))

    def last_words(self) -> str:
        text = (self.places.folder / "said").read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join([*self.server.failures[-1:], *lines[-3:]])[-300:]


def _surroundings(contender: Contender, places: Places) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    home = places.folder / "home"
    home.mkdir(exist_ok=True)
    return {
        **kept,
        "HOME": str(home),
        "NO_PROXY": "127.0.0.1",
        "DO_NOT_TRACK": "1",
        "OPENAI_API_KEY": "made-up",
        "OPENAI_BASE_URL": places.url,
        **contender.environ(places),
    }


@contextlib.asynccontextmanager
async def _staged(contender: Contender, plot: Plot, venv: Path):
    """Set the stage; everything of it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="peers-"))
    await asyncio.to_thread(folder.chmod, 0o711)
    server = ScriptedServer(plot=plot)
    listening = await server.start()
    work = folder / "work"
    _make_repository(work)
    places = Places(folder=folder, work=work, venv=venv, url=server.url)
    try:
        yield _Stage(contender=contender, places=places, server=server)
    finally:
        process_tree.end_all()
        listening.close()
        shutil.rmtree(folder, ignore_errors=True)


def _make_repository(work: Path) -> None:
    work.mkdir()
    (work / "readme.txt").write_text("A repository to take steps in.\n")
    named = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run(["git", "-C", work, *named, *command], check=True)


async def timed_trial(
    contender: Contender, *, steps: int, venv: Path, at_most_s: float = 900.0
) -> Trial:
    """Let it take `steps` steps, or as many as it can in that time. Raises Failed."""
    plot = contender.plot(steps=steps)
    async with _staged(contender, plot, venv) as stage:
        marks = {mark for mark in (10, 100, 1000) if mark < steps} | {steps}
        spent: dict[int, Spent] = {}

        def read_marks(arrival: Arrival) -> None:
            if arrival.done in marks and arrival.done not in spent:
                spent[arrival.done] = process_tree.spent(os.getpid())
                stage.sample()

        stage.server.on_arrival = read_marks
        started = time.monotonic()
        process = await stage.spawn(contender.command(stage.places))
        await stage.finish(process, at_most_s=at_most_s)
        steps_at = _asked_at(stage.server.arrivals[len(plot.opening) :], steps)
        return Trial(
            first_request_s=stage.server.arrivals[0].at - started,
            steps_ms=[(after - before) * 1000 for before, after in itertools.pairwise(steps_at)],
            peak=stage.peak,
            spent=spent,
            sent=stage.server.arrivals[-1].size,
        )


def _asked_at(arrivals: Sequence[Arrival], steps: int) -> list[float]:
    """Return when each step was asked for, and the end; Failed where one was not in its turn."""
    taken = arrivals[: steps + 1]  # who is told to end may ask once more whether it is so
    wrong = [place for place, arrival in enumerate(taken) if arrival.done != place]
    if wrong:
        raise Failed(f"request {wrong[0]} holds {taken[wrong[0]].done} steps")
    return [arrival.at for arrival in taken]


async def kill_trial(contender: Contender, *, venv: Path) -> Killed:
    """Kill its engine in the middle of a step, start it again, and look. Raises Failed."""
    plot = contender.plot(steps=KILL_STEPS, leaves_effects=True, slow_step=KILLED_AT)
    async with _staged(contender, plot, venv) as stage:
        asked = asyncio.Event()

        def watch(arrival: Arrival) -> None:
            if arrival.done == KILLED_AT - 1:
                asked.set()

        stage.server.on_arrival = watch
        stage.server.counts_known = True
        process = await stage.spawn(contender.command(stage.places))
        try:
            await asyncio.wait_for(asked.wait(), STALL_S)
        except TimeoutError:
            raise Failed(f"step {KILLED_AT} was not reached: {stage.last_words()}") from None
        await asyncio.sleep(KILL_AFTER_S)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        return await _after_kill(stage)


async def _after_kill(stage: _Stage) -> Killed:
    before = len(stage.server.arrivals)
    started = time.monotonic()
    again = stage.contender.again or stage.contender.command
    try:
        await stage.finish(await stage.spawn(again(stage.places)))
    except Failed as failed:
        if len(stage.server.arrivals) == before:
            raise Failed(f"after the kill: {failed}") from failed
    first = stage.server.arrivals[before]
    await asyncio.sleep(SETTLING_S)
    process_tree.reap()
    return Killed(
        answer_s=first.at - started,
        steps_lost=max(KILLED_AT - 1 - first.known, 0),
        effects=stage.server.effects if stage.server.has_ended else None,
        survivors=len(process_tree.below(os.getpid())) - 1,
    )
