"""Plans whose environments break in mid-call: each goes on as if nothing had been, or says why not.

The kill matrix kills engines, toolboxes and lines; here a container engine dies, a machine stands
still, and the clock jumps.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.killing import (
    agents,
    answered,
    environment_of,
    journalled,
    opened,
    rest_of,
    unsettled,
    up_to_a_word,
)
from chaos.matrix import left_mounted, left_running
from engine.held import release
from engine.test_recovery import lines
from engine.worksite import Worksite, call
from environments.dockerds import OwnEngine, engine
from images import WITHOUT_PYTHON, image
from machines import lend
from patchyard.assembly import open_equipment
from patchyard.clients.berths import MARK, from_details
from patchyard.clients.controls import ANSWER_S
from patchyard.clients.guest_toolbox import WatchedToolbox
from patchyard.clients.process import all_processes, kill, marked
from patchyard.clients.removal import remove_tree
from patchyard.domain.checkpoint import CallRepeated, CallUndone
from patchyard.domain.events import EnvironmentStarted, Event, ToolCallSettled
from patchyard.domain.holdings import Holdings
from patchyard.domain.plan import Phase, State
from patchyard.domain.project import Project
from patchyard.domain.resource import VM_IMAGE, Resource
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import take_in
from services import kernel_folder

__all__ = ["engine"]  # a fixture

pytestmark = [pytest.mark.service("root"), pytest.mark.timeout(600)]

COMMAND = "echo begun; echo once >> log.txt; sleep {pause}; echo then >> log.txt"
HELD = COMMAND.replace("sleep {pause}", "while ! test -e go; do sleep 0.02; done")
DAY_S = 86_400


@pytest.fixture
def yard() -> Iterator[Path]:
    """A repository and a home."""
    top = Path(tempfile.mkdtemp(prefix="patchyard-faults-", dir="/tmp"))
    with opened(top / "yard") as folder:
        yield folder
    remove_tree(top)


@pytest.fixture
def contained(yard: Path, engine: OwnEngine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its plans work in a container of the test's own engine."""
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    answered(yard, "project", "create", "yard")
    answered(yard, "project", "context", "set", "execution_environment", "container")
    box = ("container-instance", "box", "--image", image(WITHOUT_PYTHON))
    answered(yard, "resource", "add", *box)
    answered(yard, "project", "link-resource", "yard", "box")
    return yard


def begun(
    yard: Path, command: str, *options: str
) -> "tuple[subprocess.Popen[bytes], list[dict[str, Any]]]":
    """A plan with one command, up to that command's first word, and what it has told."""
    steps = [{"calls": [{"name": "execute_command", "arguments": {"command": command}}]}]
    body = {"note": "written by hand", "execute": [*steps, {"finish": "all is done"}]}
    (yard / "script.json").write_text(json.dumps(body))
    words = ("run", "steps", "--model", f"scripted:{yard}/script.json", *options)
    process = agents(yard, *words, "--stream", "--format", "json")
    return process, up_to_a_word(process)


def require_whole(yard: Path) -> None:
    """Fail unless the call took effect once, and nothing of the plan is left."""
    assert unsettled(yard) == []
    patch = answered(yard, "plan", "diff", "@last")["data"]["patch"]
    assert [line for line in patch.splitlines() if line.startswith("+")][1:] == ["+once", "+then"]
    assert left_running(yard, journalled(yard)) == []
    assert left_mounted(yard) == []


@pytest.mark.service("docker")
def test_a_plan_whose_container_engine_is_killed_goes_on_when_that_is_back(
    contained: Path, engine: OwnEngine
) -> None:
    process, told = begun(contained, HELD)
    engine.kill()
    release(Worksite(folder=contained))
    told += rest_of(process)[0]
    stopped = next(line for line in told if "exit_code" in line)
    assert stopped["error"]["code"] == "environment_broken"
    assert "DOCKER_HOST" in stopped["error"]["hint"]
    assert sum(line.get("event") == "ToolCallSettled" for line in told) == 1
    engine.start()
    assert answered(contained, "plan", "resume", "@last")["exit_code"] == 0
    require_whole(contained)
    assert engine.containers() == []


@pytest.mark.service("docker")
def test_a_plan_whose_container_engine_starts_anew_goes_on_in_another_container(
    contained: Path, engine: OwnEngine
) -> None:
    process, told = begun(contained, HELD)
    engine.kill()
    engine.start()  # which ends what runs
    told += up_to_a_word(process)
    release(Worksite(folder=contained))
    told += rest_of(process)[0]
    assert next(line for line in told if "exit_code" in line)["exit_code"] == 0
    assert sum(line.get("event") == "EnvironmentStarted" for line in told) == 2
    require_whole(contained)
    assert engine.containers() == []


@pytest.mark.service("bubblewrap")
def test_an_engine_for_which_the_machine_runs_a_day_longer_ends_what_it_finds(yard: Path) -> None:
    """Clocks of the kernel tell a process from a later one of its number: here they jump."""
    process, _ = begun(yard, COMMAND.format(pause=2), "--in", "process")
    process.kill()
    process.communicate()
    later = ["unshare", "--time", "--fork", f"--monotonic={DAY_S}", f"--boottime={DAY_S}"]
    words = [sys.executable, "-m", "patchyard", "plan", "resume", "@last"]
    done = subprocess.run(
        [*later, *words], cwd=yard / "repo", env=environment_of(yard), check=False
    )
    assert done.returncode == 0
    require_whole(yard)


@pytest.mark.anyio
@pytest.mark.service("bubblewrap")
@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
async def test_a_wall_clock_that_jumps_under_a_call_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    """The engine's own clock: that of the whole machine cannot be set here."""
    site = Worksite.make(tmp_path, {"a.txt": "one\n"})
    real = time.time
    asked = site.asked(call("execute_command", command=COMMAND.format(pause=0.5)), seconds=60)
    async with open_equipment(site.environ) as equipment:

        def jump(_stream: str, _text: str) -> None:
            monkeypatch.setattr(time, "time", lambda: real() + jump_s)

        watching = Watching(on_event=site.heard.append, on_output=jump)
        workflow = Workflow(equipment, watching=watching)
        plan_id = await site.made(workflow, asked)
        state = await workflow.run(plan_id)
    assert (state.phase, state.state) == (Phase.EXECUTE, State.COMPLETE)
    assert [each.error for each in site.heard if isinstance(each, ToolCallSettled)] == [None]
    assert abs(time.time() - real()) > DAY_S / 2
    assert 0 < state.spent.seconds < 60
    await site.clear()


@pytest.mark.anyio
@pytest.mark.service("qemu")
async def test_a_plan_whose_machine_stands_still_goes_on_in_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WatchedToolbox, "look_s", 0.3)
    site = Worksite.make(tmp_path, {"a.txt": "one\n"})
    box = Resource(name="box", type=VM_IMAGE, image=kernel_folder())
    shop = Project(name="shop", repository=str(site.repository), resources=("box",))
    holdings = Holdings(projects={"shop": shop}, resources={"box": box})
    lend(tmp_path / "home" / "run")
    struck: list[str] = []

    def stop_once(_stream: str, _text: str) -> None:
        if struck:
            return
        (begun_in,) = [each.handle for each in site.heard if isinstance(each, EnvironmentStarted)]
        machine = from_details(begun_in, "init")
        assert machine is not None
        assert kill(machine, signal.SIGSTOP)
        monkeypatch.setattr(WatchedToolbox, "answer_s", 2.0)
        struck.append(begun_in.environment_id)

    def patient_again(event: Event) -> None:
        site.heard.append(event)
        if isinstance(event, CallUndone):  # another machine follows, which may be slow
            monkeypatch.setattr(WatchedToolbox, "answer_s", ANSWER_S)

    asked = site.asked(call("execute_command", command=COMMAND.format(pause=1)), kind="vm")
    async with open_equipment(site.environ) as equipment:
        watching = Watching(on_event=patient_again, on_output=stop_once)
        workflow = Workflow(equipment, watching=watching)
        plan_id = await workflow.create(take_in(asked, site.environ, holdings).spec)
        state = await workflow.run(plan_id)
        assert (state.phase, state.state) == (Phase.EXECUTE, State.COMPLETE)
        assert await lines(equipment, site, plan_id) == ["once", "then"]
    kinds = [type(event) for event in site.heard]
    assert [kinds.count(each) for each in (CallUndone, CallRepeated, EnvironmentStarted)] == [
        1,
        1,
        2,
    ]
    assert not [
        process
        for event in site.heard
        if isinstance(event, EnvironmentStarted)
        for process in marked(f"{MARK}={event.handle.environment_id}", all_processes())
    ]
    assert not list((tmp_path / "home" / "run").glob("0*"))
    await site.clear()
