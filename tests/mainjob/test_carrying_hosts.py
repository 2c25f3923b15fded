"""The main job on a host over SSH that carries walls: as free as they let it be, and no freer."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from images import WITH_PYTHON, image
from mainjob.driver import LONGEST_S, Desk, call, finish, shell, write
from patchyard.clients.process import all_processes
from sshds import HOST, SshServer, serving_ssh, with_engine

pytestmark = [pytest.mark.service("sshd"), pytest.mark.service("bubblewrap")]


CARRIED = ["process", pytest.param("container", marks=pytest.mark.service("docker"))]


@pytest.fixture
def server(desk: Desk) -> Iterator[SshServer]:
    with serving_ssh(prepared=with_engine) as made:
        made.configure(desk.home)
        yield made
        assert made.environments() == []


@pytest.fixture(params=CARRIED)
def linked(desk: Desk, server: SshServer, request: pytest.FixtureRequest) -> Desk:
    """A desk whose project has that host."""
    assert desk.agents("project", "create", "shop").code == 0
    words = ["resource", "add", "ssh-host", "far", "--host", HOST, "--carries", request.param]
    words += ["--image", image(WITH_PYTHON)] if request.param == "container" else []
    made = desk.agents(*words)
    assert (made.code, made.data["carries"]) == (0, request.param)
    assert desk.agents("project", "link-resource", "shop", "far").code == 0
    assert server.environments() == []
    return desk


def test_a_plan_is_made_and_carried_out_behind_walls_there(linked: Desk, server: SshServer) -> None:
    script = linked.folder / "script.json"
    secret = server.home_there / "secret"
    secret.write_text("of the host\n")
    body = {
        "note": "written by hand",
        "strategize": [shell("cat a.txt > /tmp/seen; echo x > a.txt"), finish("planned")],
        "execute": [
            shell(f"pwd > where.txt; cat {secret} > seen.txt; ls -d /proc/1"),
            call("search_replace", path="a.txt", old_string="one", new_string="ONE"),
            finish("done"),
        ],
    }
    script.write_text(json.dumps(body))
    words = ["run", "do it", "--model", f"scripted:{script}", "--in", "far"]
    done = linked.agents(*words, "--validate", "test ! -s seen.txt && grep ONE a.txt")
    assert done.code == 0, done.message
    assert done.changed == {"a.txt": "modified", "seen.txt": "added", "where.txt": "added"}
    assert [gate["passed"] for gate in done.data["validation"]] == [True]
    reach = done.data["reach"]
    carries = linked.agents("resource", "show", "far").data["carries"]
    assert (reach["kind"], reach["walls"]) == ("ssh", carries)
    assert reach["network"]["summary"] == "none"
    events = linked.agents("plan", "events", "@last").data["events"]
    settled = [event for event in events if event["event"] == "ToolCallSettled"]
    assert [event.get("error", "") for event in settled] == ["COMMAND_FAILED", "", ""]
    diff = linked.agents("plan", "diff", "@last", is_json=False).out.decode()
    assert f"+{linked.repo}\n" in diff


def test_a_lost_call_is_taken_back_and_made_again(linked: Desk, server: SshServer) -> None:
    second = shell("cat before.txt >> ran; while ! test -e .git/go; do sleep 0.02; done")
    script = linked.script(write("before.txt", "before\n"), second, finish("done"))
    words = ("run", "do it", "--model", f"scripted:{script}", "--in", "far")
    killing = threading.Thread(target=kill_once, args=(server, str(linked.repo)))
    killing.start()
    done = linked.agents(*words)
    killing.join()
    assert done.code == 0, done.message
    assert done.changed == {"before.txt": "added", "ran": "added"}
    events = linked.agents("plan", "events", "@last").data["events"]
    assert [event["event"] for event in events].count("CallRepeated") == 1
    assert "+before\n+before" not in linked.agents("plan", "diff", is_json=False).out.decode()


def kill_once(server: SshServer, workspace: str) -> None:
    """Kill the first process of the environment in mid-call; let the call of the next one end."""
    lost = at_work(server)
    (first,) = [pid for each in all_processes() if is_first(pid := each.pid, workspace)]
    os.kill(first, signal.SIGKILL)
    (at_work(server, besides=lost) / ".git/go").touch()


def at_work(server: SshServer, *, besides: Path | None = None) -> Path:
    """Return the workspace of the environment whose command has written something."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        for written in server.base.glob("environments/*/workspace/ran"):
            if written.parent != besides:
                return written.parent
        time.sleep(0.01)
    raise AssertionError("no command has written anything")


def is_first(pid: int, workspace: str) -> bool:
    """Whether it is the first process of a namespace, and serves that workspace."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        (numbers,) = [line.split() for line in status.splitlines() if line.startswith("NSpid")]
        return workspace.encode() in words and len(numbers) > 2 and numbers[-1] == "1"
    return False


def test_safety_that_requires_a_sandbox_is_content_with_it(linked: Desk) -> None:
    (linked.home / ".config/patchyard").mkdir(parents=True)
    config = "safety: {require_sandbox: true}\n"
    (linked.home / ".config/patchyard/config.yaml").write_text(config)
    script = linked.script(shell("echo x > new.txt"), finish("done"))
    done = linked.agents("run", "do it", "--model", f"scripted:{script}", "--in", "far")
    assert (done.code, done.changed) == (0, {"new.txt": "added"}), done.message
    hosts = ("--allow-host", "example.org")
    refused = linked.agents("run", "do it", "--model", f"scripted:{script}", "--in", "far", *hosts)
    assert refused.code == 2
    assert "no gateway of this one is reached" in refused.message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("directory", "x", "--carries", "process"), "--carries is not for directory"),
        (("ssh-host", "x", "--host", "h", "--carries", "container"), "containers need an image"),
        (("ssh-host", "x", "--host", "h", "--image", "i"), "--image is not for ssh-host"),
        (("ssh-host", "x", "--host", "localhost", "--carries", "process"), "carries nothing"),
    ],
)
def test_what_no_host_carries_is_refused(desk: Desk, words: tuple[str, ...], said: str) -> None:
    refused = desk.agents("resource", "add", *words)
    assert (refused.code, said in refused.message) == (2, True), refused.message


@pytest.mark.timeout(600)  # some 140 attacks, over one connection
def test_the_battery_finds_no_way_through(linked: Desk) -> None:
    checked = linked.agents("env", "check", "far")
    assert checked.data["facts"]["carries"] in {"process", "container"}
    probed = linked.agents("env", "probe", "far")
    assert probed.code == 0, probed.message
    counts = probed.data["counts"]
    assert (counts["SUCCEEDED"], counts["known"]) == (0, 0)
    assert counts["held"] > 100
