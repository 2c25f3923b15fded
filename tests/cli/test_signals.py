"""SIGTERM and SIGHUP stop a plan as cleanly as Ctrl-C does."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.worksite import Worksite, call, done

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(60)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    yield made
    asyncio.run(made.clear())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_stops_the_plan_and_says_how_to_go_on(site: Worksite, number: int) -> None:
    model = site.script([call("execute_command", command="sleep 50", timeout_s=60), done()])
    words = ["run", "wait", "--model", model, "--stream", "--format", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "patchyard", *words],
        cwd=site.repository,
        env=site.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            if json.loads(line).get("event") == "ToolCallRequested":
                process.send_signal(number)
                break
        body = json.loads(process.stdout.read().splitlines()[-1])
    assert process.wait(timeout=30) == 130
    assert body["error"]["code"] == "interrupted"
    status = subprocess.run(
        [sys.executable, "-m", "patchyard", "plan", "status", "--format", "json"],
        cwd=site.repository,
        env=site.environ,
        check=True,
        capture_output=True,
    )
    data = json.loads(status.stdout)["data"]
    assert (data["phase"], data["state"]) == ("execute", "cancelled")
