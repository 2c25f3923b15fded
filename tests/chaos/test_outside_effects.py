"""On `host` a call reaches beyond its workspace: what it did there happens at most once.

`PATCHYARD_OUTSIDE` sets how many plans there are, `PATCHYARD_SEED` the seed.
"""

import itertools
import json
import random
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.killing import SEED, agents, amount, answered, journalled, opened
from chaos.matrix import badly_settled, left_running
from endings import ended
from patchyard.clients.process import ProcessRef
from patchyard.clients.process import kill as kill_exactly

PLANS = amount("PATCHYARD_OUTSIDE", sample=2, soak=40)
STEPS = 12
KILLS = 3

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(300 + 100 * PLANS),
]


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that the agent's user can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="patchyard-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def script(log: Path) -> str:
    """Each step writes one line outside; some take a while before, some after."""
    waits = ("", "sleep 0.1; ", "sleep 0.3; ")
    calls = [
        f"{waits[step % 3]}echo {step} >> {log}; {waits[step % 2]}true" for step in range(STEPS)
    ]
    replies = [
        {"calls": [{"name": "execute_command", "arguments": {"command": line}}]} for line in calls
    ]
    return json.dumps({"note": "written by hand", "execute": [*replies, {"finish": "done"}]})


def step_of(call: dict[str, Any]) -> int:
    return int(call["arguments"]["value"]["command"].partition("echo ")[2].split()[0])


def kill(process: Any, told: list[dict[str, Any]], *, is_engine: bool) -> None:
    """Kill the engine, or the toolboxes that it told of."""
    if is_engine:
        process.send_signal(signal.SIGKILL)
        return
    for event in told:
        if event["event"] == "EnvironmentStarted":
            kill_exactly(ProcessRef(**event["handle"]["details"]["root"]))


def outlived(yard: Path, rng: random.Random, *words: str) -> None:
    """Kill somebody several times, then let the plan end."""
    told: list[dict[str, Any]] = []
    for _ in range(KILLS):
        process = agents(yard, *words, "--stream", "--format", "json")
        assert process.stdout is not None
        lines = itertools.islice(process.stdout, rng.randint(20, 70))
        told += [line for line in map(json.loads, lines) if "event" in line]
        threading.Event().wait(rng.uniform(0, 0.3))
        kill(process, told, is_engine=rng.random() < 0.6)
        ended(process)
        words = ("plan", "resume", "@last")
    end = answered(yard, *words)
    assert end["exit_code"] == 0, end["error"]


@pytest.mark.parametrize("number", range(PLANS))
def test_what_a_call_does_outside_happens_once_or_is_reported(public: Path, number: int) -> None:
    rng = random.Random(SEED + number)
    log = public / "outside.log"
    log.touch()
    log.chmod(0o666)
    with opened(public / "yard") as yard:
        (yard / "script.json").write_text(script(log))
        outlived(
            yard, rng, "run", "x", "--in", "host", "--model", f"scripted:{yard / 'script.json'}"
        )
        events = journalled(yard)
        assert badly_settled(events) == []
        assert left_running(yard, events) == []
        calls = {e["call_id"]: e for e in events if e["event"] == "ToolCallRequested"}
        unknown = {
            step_of(calls[event["call_id"]])
            for event in events
            if event["event"] == "ToolCallSettled" and event.get("error") == "OUTCOME_UNKNOWN"
        }
        done = [int(line) for line in log.read_text().splitlines()]
        assert len(done) == len(set(done))
        assert set(range(STEPS)) - set(done) <= unknown
