"""What the engine adds to thinking: a step, sandboxed in `process` and journalled with full sync.

The model is scripted and thinks in no time. A step is one request, one read of a file by the
toolbox, and their events (B16).
"""

import asyncio
import json
import os
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
from patchyard.actors.model import ModelActor
from patchyard.contracts.actor import Actor, Casting
from patchyard.domain.budget import PlanLimits
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.messages import ModelRequest
from patchyard.domain.plan import PlanSpec, State
from patchyard.engine.workflow import Workflow
from patchyard.models.scripted import ScriptedModel, ScriptedReply

FEW, MANY, VERY_MANY = 10, 210, 1010
AGENTS = Path(sys.executable).parent / "agents"


def _repository(folder: Path) -> Path:
    repository = folder / "repository"
    repository.mkdir()
    for number in range(10):
        (repository / f"file{number}.txt").write_text(f"{number}\n" * 200)
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
        git(repository, *command)
    return repository


def _answers(steps: int) -> ScriptedModel:
    """Reads files one after the other and finishes; the strategy is made at once."""
    turns = iter(range(steps))

    def answer(request: ModelRequest) -> ScriptedReply:
        is_planning = request.purpose == "strategize"
        number = None if is_planning else next(turns, None)
        if number is None:
            return ScriptedReply(calls=(("finish", {"summary": "done, nothing to change"}),))
        arguments = {"path": f"file{number % 10}.txt", "start_line": number % 190 + 1}
        return ScriptedReply(calls=(("read_file", arguments),))

    return ScriptedModel(answering=answer)


async def _run_s(steps: int) -> float:
    async with opened() as yard:
        model = _answers(steps)

        async def actor(_casting: Casting) -> Actor:
            return ModelActor(model=model)

        workflow = Workflow(replace(yard.equipment, actor=actor))
        spec = PlanSpec(
            task="read",
            repository=str(_repository(yard.folder)),
            environment=ExecutionEnvironment.PROCESS,
            limits=PlanLimits(steps=None, tokens=None, seconds=None, usd=None),
        )
        plan_id = await workflow.create(spec)
        started = time.perf_counter()
        state = await workflow.run(plan_id)
        if state.state != State.COMPLETE or state.tool_calls < steps:
            raise RuntimeError(f"{state.state} after {state.tool_calls} calls")
        return time.perf_counter() - started


def _step_ms(few: int, many: int) -> float:
    """The slope between two runs: what is done once a plan does not count."""
    return (asyncio.run(_run_s(many)) - asyncio.run(_run_s(few))) * 1000 / (many - few)


@measured("a step, over the first 200", target=4)
def track_step() -> float:
    return _step_ms(FEW, MANY)


@measured("a step, from 200 to 1,000", target=4)
def track_step_later() -> float:
    return _step_ms(MANY, VERY_MANY)


class _FirstRequest(BaseHTTPRequestHandler):
    """Notes when a model is asked for the first time, and then fails."""

    def do_POST(self) -> None:
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
        ThreadingHTTPServer(("127.0.0.1", 0), _FirstRequest) as server,
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
        command = [AGENTS, "run", "read", "--repo", _repository(folder), "--model", "openai:gpt-4o"]
        taken = []
        for _ in range(5):
            server.asked_at.clear()
            started = time.perf_counter()
            subprocess.run(command, env=environ, check=False, capture_output=True)
            taken.append((server.asked_at[0] - started) * 1000)
        server.shutdown()
        thread.join()
        return sorted(taken)[2]
