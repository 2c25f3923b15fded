"""The main job on a host over SSH, linked as a resource and named by it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainjob.driver import Desk, call, finish, shell, write
from sshds import HOST, SshServer, serving_ssh

pytestmark = pytest.mark.service("sshd")


@pytest.fixture
def server(desk: Desk) -> Iterator[SshServer]:
    with serving_ssh() as made:
        made.configure(desk.home)
        yield made
        assert made.environments() == []


@pytest.fixture
def linked(desk: Desk, server: SshServer) -> Desk:
    """A desk whose project has that host."""
    assert desk.agents("project", "create", "shop").code == 0
    made = desk.agents("resource", "add", "ssh-host", "far", "--host", HOST)
    assert (made.code, made.data["address"]) == (0, HOST)
    assert desk.agents("project", "link-resource", "shop", "far").code == 0
    assert server.environments() == []
    return desk


def asked(desk: Desk) -> set[tuple[str, str]]:
    """Where calls were sent."""
    events = desk.agents("plan", "events", "@last").data["events"]
    return {(e["kind"], e.get("resource", "")) for e in events if e["event"] == "ToolCallRequested"}


@pytest.mark.parametrize("name", ["far", "ssh"])
def test_a_linked_host_does_the_main_job(linked: Desk, server: SshServer, name: str) -> None:
    script = linked.script(
        shell(
            "pwd > where.txt; wc -c < a.txt > copy.txt; mkdir deep; git log --format=%s > deep/log"
        ),
        write("new.txt", "new\n"),
        call("search_replace", path="a.txt", old_string="one", new_string="ONE"),
        shell("chmod +x new.txt; ln -s copy.txt link; rm a.txt; echo $PATCHYARD_ENVIRONMENT"),
        finish("done"),
    )
    words = ["run", "do it", "--model", f"scripted:{script}", "--in", name]
    done = linked.agents(*words, "--validate", "test -x new.txt && ! test -e a.txt")
    assert done.code == 0, done.message
    assert done.changed == {
        "a.txt": "deleted",
        "copy.txt": "added",
        "deep/log": "added",
        "link": "added",
        "new.txt": "added",
        "where.txt": "added",
    }
    assert asked(linked) == {("ssh", "far")}
    assert [gate["passed"] for gate in done.data["validation"]] == [True]
    assert "authorized_keys" not in (server.folder / "log").read_text()


def test_several_kinds_work_on_one_workspace(linked: Desk) -> None:
    (linked.repo / ".patchyard").mkdir()
    config = "tools: {execute_command: {execution_environment: far}}\n"
    (linked.home / ".config/patchyard").mkdir(parents=True)
    (linked.home / ".config/patchyard/config.yaml").write_text(config)
    script = linked.script(
        write("made.txt", "by a sandbox\n"),
        shell("cat made.txt > seen.txt; echo by a host >> made.txt"),
        call("read_file", path="made.txt"),
        write("last.txt", "by a sandbox\n"),
        shell("cat last.txt >> seen.txt"),
        finish("done"),
    )
    done = linked.agents("run", "do it", "--model", f"scripted:{script}", "--in", "process")
    assert done.code == 0, done.message
    assert done.changed == dict.fromkeys(("last.txt", "made.txt", "seen.txt"), "added")
    assert asked(linked) == {("ssh", "far"), ("process", "")}
    diff = linked.agents("plan", "diff", "@last", is_json=False).out.decode()
    assert "+by a sandbox\n+by a host\n" in diff
    assert diff.count("+by a sandbox") == 4


def test_commands_while_planning_are_refused_there(linked: Desk) -> None:
    script = linked.folder / "planning.json"
    body = {
        "note": "written by hand",
        "strategize": [shell("touch x"), finish("planned")],
        "execute": [write("new.txt", "new\n"), finish("done")],
    }
    script.write_text(json.dumps(body))
    done = linked.agents("run", "do it", "--model", f"scripted:{script}", "--in", "far")
    events = linked.agents("plan", "events", "@last").data["events"]
    settled = [event for event in events if event["event"] == "ToolCallSettled"]
    assert done.code == 0, done.message
    assert settled[0]["error"] == "READ_ONLY"
    assert "`--in process` (or add the host with `--carries process`)" in settled[0]["message"]


def test_a_call_whose_toolbox_is_lost_is_unknown_and_never_made_again(
    linked: Desk, server: SshServer
) -> None:
    outside = server.folder / "outside"
    outside.touch()
    outside.chmod(0o666)
    script = linked.script(
        write("before.txt", "before\n"),
        shell(f"echo ran >> {outside}; kill -9 $PPID; sleep 5"),
        shell("cat before.txt > after.txt"),
        finish("done"),
    )
    done = linked.agents("run", "do it", "--model", f"scripted:{script}", "--in", "far")
    assert done.code == 0, done.message
    assert outside.read_text() == "ran\n"
    assert done.changed == {"after.txt": "added", "before.txt": "added"}
    events = linked.agents("plan", "events", "@last").data["events"]
    settled = [event for event in events if event["event"] == "ToolCallSettled"]
    assert [event.get("error", "") for event in settled] == ["", "OUTCOME_UNKNOWN", ""]


def test_a_host_that_is_away_is_exit_4_with_the_cure(linked: Desk, server: SshServer) -> None:
    script = linked.script(write("new.txt", "new\n"), finish("done"))
    server.stop()
    done = linked.agents("run", "do it", "--model", f"scripted:{script}", "--in", "far")
    server.start()
    said = f"{HOST} (port {server.port}) cannot be reached"
    assert (done.code, said in done.message) == (4, True), done.message
    again = linked.agents("plan", "resume", "@last")
    assert (again.code, again.changed) == (0, {"new.txt": "added"}), again.message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ssh-host", "x"), "needs a host"),
        (("ssh-host", "x", "--host", "-oProxyCommand=x"), "no address"),
        (("directory", "x", "--host", "h"), "--host is not for directory"),
        (("directory", "x", "--transport", "ssh"), "--transport is not for directory"),
    ],
)
def test_a_host_that_makes_no_sense_is_refused(
    desk: Desk, words: tuple[str, ...], said: str
) -> None:
    refused = desk.agents("resource", "add", *words)
    assert (refused.code, said in refused.message) == (2, True), refused.message


def test_env_check_says_what_a_host_needs(desk: Desk) -> None:
    checked = desk.agents("env", "check", "ssh")
    assert checked.code == 4
    assert "agents resource add ssh-host" in checked.message
    assert json.loads(checked.out)["data"]["is_ready"] is False
    assert Path(desk.home, ".ssh").exists() is False


def test_a_host_can_be_tried_by_its_name_and_the_battery_says_what_it_does_not_stop(
    linked: Desk,
) -> None:
    checked = linked.agents("env", "check", "far").data
    assert checked["is_ready"]
    assert {"limit": "cpus", "held_by": "nothing"} in checked["facts"]["limits"]
    probed = linked.agents("env", "probe", "far")
    assert probed.code == 0, probed.message
    assert probed.data["counts"]["held"] > 0
    unlisted = [each["attack"] for each in probed.data["rulings"] if each["verdict"] == "SUCCEEDED"]
    assert unlisted == []
