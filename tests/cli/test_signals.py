"""SIGTERM and SIGHUP stop a plan as cleanly as Ctrl-C does."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from endings import LONGEST_S, ended
from engine.worksite import Worksite, call, done
from patchyard.clients.process import read_stat

pytestmark = pytest.mark.service("bubblewrap")

#: An interrupt that Python drops, as it can among the imports of a command: within a finalizer.
DROPPED = """
import signal, sys

class Gone:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "patchyard.cli.worker":
            Gone()

from patchyard.cli.main import main
sys.meta_path.insert(0, Finder())
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
main()
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    yield made
    asyncio.run(made.clear())


def told(site: Worksite, *words: str) -> bytes:
    """Return what a command that only looks prints."""
    return subprocess.run(
        [sys.executable, "-m", "patchyard", *words],
        cwd=site.repository,
        env=site.environ,
        check=True,
        capture_output=True,
    ).stdout


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
    assert process.wait(timeout=120) == 130
    assert body["error"]["code"] == "interrupted"
    status = told(site, "plan", "status", "--format", "json")
    data = json.loads(status)["data"]
    assert (data["phase"], data["state"]) == ("execute", "cancelled")
    why = told(site, "plan", "errors")
    assert b"it was cancelled" in why


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGINT] * 2])
@pytest.mark.parametrize("options", [[], ["--ref", "main"]])
def test_a_signal_ends_a_git_that_waits_and_the_command(
    site: Worksite, tmp_path: Path, numbers: list[signal.Signals], options: list[str]
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    said = programs / "said"
    (programs / "git").write_text(
        f"#!/bin/sh\necho $$ >{said}.new\nmv {said}.new {said}\nexec sleep 600\n"
    )
    (programs / "git").chmod(0o755)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "patchyard",
            "run",
            "wait",
            "--model",
            site.script([done()]),
            *options,
        ],
        cwd=site.repository,
        env={**site.environ, "PATH": f"{programs}:{site.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    end = time.monotonic() + LONGEST_S
    while not said.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    git = int(said.read_text())

    for number in numbers:
        process.send_signal(number)

    _, told_last = ended(process)
    assert process.returncode == 130, told_last
    assert b"the newest plan" not in told_last
    is_stopped = b"`agents plan list --all` shows whether a plan was begun" in told_last
    assert is_stopped or (b"killed;" in told_last and len(numbers) > 1)
    while (found := read_stat(git)) is not None and found.state not in "ZX":
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("options", "reading"),
    [(["--stream", "--format", "json"], "stdout"), (["--stream"], "stderr")],
)
def test_a_reader_that_goes_away_stops_the_plan_cleanly(
    site: Worksite, options: list[str], reading: str
) -> None:
    model = site.script([call("execute_command", command="sleep 50", timeout_s=60), done()])
    process = subprocess.Popen(
        [sys.executable, "-m", "patchyard", "run", "wait", "--model", model, *options],
        cwd=site.repository,
        env=site.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    gone, other = process.stdout, process.stderr
    if reading == "stderr":
        gone, other = other, gone
    gone.readline()
    gone.close()
    with other:
        said = other.read()
    assert process.wait(timeout=120) == 130
    assert b"Traceback" not in said
    assert b"plan resume" in said or reading == "stderr"
    status = told(site, "plan", "status", "--format", "json")
    data = json.loads(status)["data"]
    assert data["state"] in {"cancelled", "queued"}  # it had begun, or had not yet
    assert data["waiting"] is None or "nobody" in data["waiting"]["for"]


def test_an_interrupt_that_python_drops_among_imports_stops_the_command(site: Worksite) -> None:
    process = subprocess.run(
        [sys.executable, "-c", DROPPED, "worker"],
        cwd=site.repository,
        env=site.environ,
        capture_output=True,
        check=False,
        timeout=120,
    )

    assert b"Exception ignored" in process.stderr
    assert process.returncode == 130, process.stderr.decode()
    assert b"was never awaited" not in process.stderr
