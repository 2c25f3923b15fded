"""Plans whose calls run in a virtual machine, by the command line."""

import os
import signal

import pytest

from machines import lend
from mainjob.driver import Desk, finish, shell, write
from mainjob.test_routes import asked
from patchyard.clients.berths import MARK
from patchyard.clients.process import all_processes, marked
from services import kernel_folder

pytestmark = [pytest.mark.service("qemu"), pytest.mark.timeout(900)]


@pytest.fixture
def linked(desk: Desk) -> Desk:
    """A desk whose project has a machine."""
    own = ["--image", kernel_folder()] if kernel_folder() else []
    made = desk.agents("resource", "add", "vm-image", "box", *own)
    assert (made.data["type"], made.data["image"]) == ("vm-image", kernel_folder())
    desk.agents("project", "create", "shop")
    assert desk.agents("project", "link-resource", "shop", "box").code == 0
    lend(desk.folder / "state" / "run")
    return desk


def machines(desk: Desk) -> list[int]:
    """What runs of the last plan's environments, by their mark."""
    events = desk.agents("plan", "events", "@last").data["events"]
    begun = [each["handle"]["environment_id"] for each in events if "handle" in each]
    assert begun
    marks = [f"{MARK}={each}" for each in begun]
    return [process.pid for mark in marks for process in marked(mark, all_processes())]


def test_a_plan_runs_in_a_machine_of_its_own(linked: Desk) -> None:
    script = linked.script(
        shell("uname -n > where.txt; git log --oneline | wc -l >> where.txt; ls -A /home"),
        shell("mkfifo pipe other; touch where.txt; chmod 4644 where.txt"),
        shell("rm other"),
        write("new.txt", "new\n"),
        finish("done"),
    )
    words = ["run", "do it", "--model", f"scripted:{script}", "--in", "vm"]
    done = linked.agents(*words, "--validate", "grep -q sandbox where.txt && test -e new.txt")
    assert done.code == 0, done.message
    assert done.changed == {"new.txt": "added", "where.txt": "added"}
    assert {kind for kind, _ in asked(linked)} == {"vm"}
    assert [gate["passed"] for gate in done.data["validation"]] == [True]
    left = [(each["kind"], each["path"]) for each in done.data["findings"]]
    assert left == [("special_file", "pipe"), ("setuid", "where.txt")]
    assert machines(linked) == []


def test_too_little_memory_is_known_before_a_model_is_asked(desk: Desk) -> None:
    own = ["--image", kernel_folder()] if kernel_folder() else []
    desk.agents("resource", "add", "vm-image", "box", *own)
    desk.agents("project", "create", "shop")
    desk.agents("project", "link-resource", "shop", "box")
    done = desk.run(finish("done"), in_="vm", options=("--limit", "memory=128M"))
    assert (done.code, "cannot start with 128 MiB" in done.message) == (4, True), done.message
    events = desk.agents("plan", "events", "@last").data["events"]
    assert "TurnRequested" not in [event["event"] for event in events]


def test_setup_commands_leave_their_layer_in_a_machine_too(linked: Desk) -> None:
    script = linked.script(shell("cat made/by-setup > seen.txt"), finish("done"))
    words = ["run", "do it", "--model", f"scripted:{script}", "--in", "box"]
    done = linked.agents(*words, "--setup", "mkdir -p made && echo laid > made/by-setup")
    assert done.code == 0, done.message
    assert done.changed == {"seen.txt": "added"}


def test_a_plan_goes_on_when_its_engine_is_killed_in_mid_call(linked: Desk) -> None:
    script = linked.script(shell("echo begun > begun; sleep 3; echo done >> begun"), finish("done"))
    words = ["run", "do it", "--model", f"scripted:{script}", "--in", "vm"]
    process = linked.start(*words, "--stream")
    assert process.stdout is not None
    while b"ToolCallRequested" not in (line := process.stdout.readline()) and line:
        continue
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    again = linked.agents("plan", "resume", "@last")
    if again.data.get("phase") != "apply":
        again = linked.agents("plan", "execute", "@last")
    assert again.code == 0, again.message
    assert again.changed == {"begun": "added"}
