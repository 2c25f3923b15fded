"""What the engine adds to thinking: a step, sandboxed in `process` and journalled with full sync.

The model is scripted and thinks in no time. A step is one request, one read of a file by the
toolbox, and their events (B16).
"""

import asyncio
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.measuring import measured
from benchmarks.workspace_bench import git
from benchmarks.yard import opened
from patchyard.actors.model import ModelActor, Settings
from patchyard.contracts.actor import Actor, Casting
from patchyard.domain.budget import PlanLimits
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.messages import ModelRequest
from patchyard.domain.plan import PlanSpec, State
from patchyard.engine.workflow import Workflow
from patchyard.models.budgeted import BudgetedModel
from patchyard.models.scripted import ScriptedModel, ScriptedReply

STEPS = 5000
TENTH = STEPS // 10
UNBOUNDED = Settings(request_bytes=1_000_000_000)
AGENTS = Path(sys.executable).parent / "agents"


def _repository(folder: Path) -> Path:
    repository = folder / "repository"
    repository.mkdir()
    for number in range(10):
        (repository / f"file{number}.txt").write_text(f"{number}\n" * 200)
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
        git(repository, *command)
    return repository


class _Reading:
    """Answers of a model that reads a file a step, and when each step was asked for."""

    def __init__(self) -> None:
        self.asked_at: list[float] = []

    def answer(self, request: ModelRequest) -> ScriptedReply:
        """Read the next place; finish after the last, and at once while planning."""
        number = len(self.asked_at)
        if request.purpose != "strategize":
            self.asked_at.append(time.perf_counter())
        if request.purpose == "strategize" or number >= STEPS:
            return ScriptedReply(calls=(("finish", {"summary": "done, nothing to change"}),))
        arguments = {"path": f"file{number % 10}.txt", "start_line": number % 190 + 1}
        return ScriptedReply(calls=(("read_file", arguments),))


async def _read_on(settings: Settings) -> list[float]:
    """Carry out one plan of STEPS steps; return when each was asked for."""
    async with opened() as yard:
        reading = _Reading()

        async def actor(casting: Casting) -> Actor:
            model = BudgetedModel(ScriptedModel(answering=reading.answer), casting.meter)
            return ModelActor(model=model, settings=settings)

        workflow = Workflow(replace(yard.equipment, actor=actor))
        spec = PlanSpec(
            task="read",
            repository=str(_repository(yard.folder)),
            environment=ExecutionEnvironment.PROCESS,
            limits=PlanLimits(steps=None, tokens=None, seconds=None, usd=None),
        )
        state = await workflow.run(await workflow.create(spec))
        if state.state != State.COMPLETE or state.tool_calls < STEPS:
            raise RuntimeError(f"{state.state} after {state.tool_calls} calls")
        return reading.asked_at


@functools.cache
def _tenths_ms(settings: Settings) -> list[float]:
    """The median step of each tenth of one plan, in milliseconds."""
    asked_at = asyncio.run(_read_on(settings))
    steps = [(after - before) * 1000 for before, after in itertools.pairwise(asked_at)]
    return [statistics.median(steps[first : first + TENTH]) for first in range(0, STEPS, TENTH)]


@measured("a step, the first 500", target=4)
def track_step() -> float:
    return _tenths_ms(Settings())[0]


@measured("a step, 4,500 to 5,000", target=4)
def track_step_late() -> float:
    return _tenths_ms(Settings())[-1]


@measured("a step, 4,500 to 5,000, without compaction")
def track_step_late_unbounded() -> float:
    return _tenths_ms(UNBOUNDED)[-1]


class _Model(ThreadingHTTPServer):
    """Notes when a model is asked, and fails then."""

    asked_at: list[float]


class _FirstRequest(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, _Model)
        self.server.asked_at.append(time.perf_counter())
        body = json.dumps({"error": {"message": "enough"}}).encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Says nothing."""


@measured("from agents run to the first model request", target=1000)
def track_first_request() -> float:
    with (
        tempfile.TemporaryDirectory(prefix="patchyard-bench-") as name,
        _Model(("127.0.0.1", 0), _FirstRequest) as server,
    ):
        folder = Path(name)
        folder.chmod(0o711)
        server.asked_at = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        environ = dict(os.environ) | {
            "PATCHYARD_HOME": str(folder / "home"),
            "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
            "OPENAI_API_KEY": "made-up",
        }
        repository = str(_repository(folder))
        command = [str(AGENTS), "run", "read", "--repo", repository, "--model", "openai:gpt-4o"]
        taken: list[float] = []
        for _ in range(5):
            server.asked_at.clear()
            started = time.perf_counter()
            subprocess.run(command, env=environ, check=False, capture_output=True)
            taken.append((server.asked_at[0] - started) * 1000)
        server.shutdown()
        thread.join()
        return sorted(taken)[2]
