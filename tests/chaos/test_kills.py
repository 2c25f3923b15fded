"""`kill -9` of the engine at seeded instants: after resume each effect happened exactly once.

`PATCHYARD_KILLS` sets how many plans are killed (20 in CI), `PATCHYARD_SEED` the seed.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite

STEPS = 10
KILLS = int(os.environ.get("PATCHYARD_KILLS", "20"))
SEED = int(os.environ.get("PATCHYARD_SEED", "20261121"))
LATEST_S = 2.5  # of a plan that takes about as long

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


def script() -> dict[str, Any]:
    """Ten steps, each an effect that shows when it is doubled; every third one takes a while."""
    replies = []
    for step in range(STEPS):
        pause = "sleep 0.15; " if step % 3 == 0 else ""
        command = f"{pause}echo step-{step} >> effects.log"
        replies.append({"calls": [{"name": "execute_command", "arguments": {"command": command}}]})
    return {
        "note": "written by hand",
        "execute": [*replies, {"finish": "all steps are done"}],
    }


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("kills")
    repository = folder / "repo"
    repository.mkdir()
    (repository / "README").write_text("a repository\n")
    run = ["git", "-c", "user.name=T", "-c", "user.email=t@localhost"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*run, *arguments], cwd=repository, check=True)
    (folder / "script.json").write_text(json.dumps(script()))
    yield folder
    asyncio.run(Worksite(folder=folder).clear())


def agents(yard: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PATCHYARD_HOME": str(yard / "home"),
        "WORKSPACE_DIR": str(yard / "workspaces"),
        "HOME": str(yard),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "patchyard", *arguments],
        cwd=yard / "repo",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def answered(yard: Path, *arguments: str) -> dict[str, Any]:
    process = agents(yard, *arguments, "--format", "json")
    out, err = process.communicate(timeout=120)
    assert out, err.decode()
    body: dict[str, Any] = json.loads(out)
    return body


def killed_run(yard: Path, after_s: float) -> bool:
    """Start the plan and kill the engine after some time; whether a plan was made by then."""
    before = len(answered(yard, "plan", "list", "--all")["data"]["plans"])
    script_path = yard / "script.json"
    process = agents(yard, "run", "do ten steps", "--model", f"scripted:{script_path}")
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    return len(answered(yard, "plan", "list", "--all")["data"]["plans"]) > before


@pytest.mark.parametrize("number", range(KILLS))
def test_each_effect_happens_once_whenever_the_engine_is_killed(yard: Path, number: int) -> None:
    rng = random.Random(SEED * 1000 + number)  # noqa: S311 - seeded on purpose
    if not killed_run(yard, rng.uniform(0.2, LATEST_S)):
        return  # killed before the plan was made: there is nothing to lose
    second = rng.uniform(0.2, LATEST_S) if number % 4 == 0 else None
    if second is not None:
        resuming = agents(yard, "plan", "resume", "@last")
        time.sleep(second)
        resuming.send_signal(signal.SIGKILL)
        resuming.communicate(timeout=30)
    end = answered(yard, "plan", "resume", "@last")
    assert end["exit_code"] == 0, end["error"]
    patch = answered(yard, "plan", "diff", "@last")["data"]["patch"]
    added = [line[1:] for line in patch.splitlines() if line.startswith("+step-")]
    assert added == [f"step-{step}" for step in range(STEPS)]
    assert unsettled(yard) == []


def unsettled(yard: Path) -> list[str]:
    events = answered(yard, "plan", "events", "@last")["data"]["events"]
    asked = {e["call_id"] for e in events if e["event"] == "ToolCallRequested"}
    settled = [e["call_id"] for e in events if e["event"] == "ToolCallSettled"]
    assert len(settled) == len(set(settled))
    return sorted(asked - set(settled))
