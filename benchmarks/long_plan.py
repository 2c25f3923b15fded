"""A plan of thousands of steps, carried out and taken up by processes that are then killed.

`python -m benchmarks.long_plan run|resume FOLDER STEPS` prints what it measured as JSON.
"""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from patchyard.assembly import open_equipment
from patchyard.cli.main import KEPT_RECORDS
from patchyard.domain.events import Event, TurnRequested
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of

__all__ = ["measures"]

SAMPLE = 100  # steps at the beginning and at the end


def measures(folder: Path, steps: int) -> dict[str, float]:
    """Run such a plan to its last step but one, kill it, take it up; return the figures."""
    folder.chmod(0o711)
    found: dict[str, float] = {}
    for word in ("run", "resume"):
        command = [sys.executable, "-m", "benchmarks.long_plan", word, str(folder), str(steps)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        found.update(json.loads(done.stdout.splitlines()[-1]))
    for place in _mounted(folder):
        subprocess.run(["umount", "-l", place], check=True)
    return found


def _mounted(folder: Path) -> Iterator[str]:
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        target = line.split(" ")[1]
        if target.startswith(f"{folder}/"):
            yield target


@dataclass
class _Watch:
    """Notes when each step began, and how much memory it found in use."""

    steps: int
    begun: list[float] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        if not isinstance(event, TurnRequested):
            return
        self.begun.append(time.perf_counter())
        if len(self.begun) % SAMPLE == 0:
            self.pages.append(int(Path("/proc/self/statm").read_text().split()[1]))
        if event.turn == self.steps:
            taken = [after - before for before, after in pairwise(self.begun)]
            first, last = taken[SAMPLE : 2 * SAMPLE], taken[-SAMPLE:]
            grown = self.pages[-1] - self.pages[len(self.pages) // 2]
            _end(
                ratio=median(last) / median(first), grown_mb=grown * os.sysconf("SC_PAGESIZE") / 1e6
            )


def _end(**figures: float) -> None:
    """Say the figures and die as by `kill -9`."""
    sys.stdout.write(f"{json.dumps(figures)}\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def _repository(folder: Path) -> str:
    repository = folder / "repository"
    repository.mkdir()
    (repository / "a").write_text("a\n")
    identity = ["-c", "user.name=B", "-c", "user.email=b@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", *identity, *words], cwd=repository, check=True)
    return str(repository)


def _script(folder: Path, steps: int) -> str:
    """Write a script of so many different commands; the same one again would end the plan."""
    commands = [{"command": f"echo {number}"} for number in range(steps)]
    calls = [{"name": "execute_command", "arguments": command} for command in commands]
    script = folder / "script.json"
    script.write_text(json.dumps({"execute": [{"calls": [call]} for call in calls]}))
    return f"scripted:{script}"


async def _run(folder: Path, steps: int) -> None:
    repository, model = _repository(folder), _script(folder, steps)
    asked = Asked(
        task="long",
        repository=repository,
        model=model,
        kind="process",
        steps=2 * steps,
        seconds=1e6,
        tokens=10**12,
    )
    environ = _environ(folder)
    async with open_equipment(environ) as equipment:
        workflow = Workflow(equipment, watching=Watching(on_event=_Watch(steps=steps)))
        await workflow.run(await workflow.create(spec_of(asked, environ)))


async def _resume(folder: Path) -> None:
    started = time.perf_counter()

    def asked(event: Event) -> None:
        if isinstance(event, TurnRequested):
            _end(resume_ms=(time.perf_counter() - started) * 1000)

    async with open_equipment(_environ(folder)) as equipment:
        ((plan_id, _),) = await equipment.store.summaries.summaries()
        await Workflow(equipment, watching=Watching(on_event=asked)).run(plan_id)


def _environ(folder: Path) -> dict[str, str]:
    own = {"PATCHYARD_HOME": str(folder / "home"), "WORKSPACE_DIR": str(folder / "workspaces")}
    return {**os.environ, **own}


if __name__ == "__main__":
    gc.set_threshold(KEPT_RECORDS)  # as the command does
    place = Path(sys.argv[2])
    asyncio.run(_run(place, int(sys.argv[3])) if sys.argv[1] == "run" else _resume(place))
