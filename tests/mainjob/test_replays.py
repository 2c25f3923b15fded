"""A plan whose calls are made once more comes to the same change, or the difference is said."""

import json
import signal
import time
from pathlib import Path

import pytest

from mainjob.driver import Answer, Desk, call, finish, shell, write

pytestmark = [pytest.mark.service("bubblewrap")]


def run(desk: Desk, *options: str, **settings: str) -> Answer:
    path = desk.folder / "script.json"
    words = ("run", "a task", "--model", f"scripted:{path}", *options)
    return desk.agents(*words, environ=settings)


def without_model(desk: Desk) -> None:
    """Take the script away: who would ask the model now fails."""
    (desk.folder / "script.json").unlink()


def test_a_replay_needs_no_model_and_comes_to_the_same_tree(desk: Desk) -> None:
    desk.script(
        write("one.txt", "1\n"),
        shell("echo 2 >> one.txt; chmod +x one.txt; rm a.txt"),
        call("search_replace", path="one.txt", old_string="1", new_string="one"),
        call("execute_command", command="sleep 0.2; echo late > late.txt", background=True),
        shell("until test -s late.txt; do sleep 0.02; done"),
        finish("first"),
        shell("grep -q fine fine.txt || echo fine > fine.txt"),
        finish("second"),
    )
    ended = run(desk, "--validate", "test -e fine.txt")
    assert (ended.code, ended.data["state"]) == (0, "complete"), ended.message
    without_model(desk)

    again = desk.agents("plan", "replay", "@last")

    assert again.code == 0, again.message
    assert again.data["replay"]["is_same"]
    assert again.data["replay"]["tree"] == ended.data["changeset"]["tree"]
    assert desk.agents("plan", "status").data["plan_id"] == ended.data["plan_id"]  # still @last
    child = desk.agents("plan", "status", again.data["replay"]["plan_id"])
    refused = desk.agents("plan", "fork", child.data["plan_id"])
    assert (refused.code, ended.data["plan_id"] in refused.message) == (3, True), refused.message
    assert child.data["parent"] == {"plan_id": ended.data["plan_id"], "kinship": "replay"}
    assert child.data["cost"]["tokens"] == 0
    left = list((desk.folder / "workspaces/tasks").glob(f"{child.data['plan_id']}*"))
    assert left == []


def test_what_comes_out_otherwise_is_named(desk: Desk) -> None:
    desk.script(shell("date +%N > now.txt"), write("same.txt", "x\n"), finish())
    run(desk, "--validate", "")
    again = desk.agents("plan", "replay")
    assert (again.code, again.body["error"]["code"]) == (1, "replay_differs")
    assert again.body["error"]["details"]["paths"] == ["now.txt"]
    said = desk.agents("plan", "replay", is_json=False)
    assert said.out.decode().strip() == "now.txt"


def test_a_refused_call_is_not_made_in_a_replay_either(desk: Desk) -> None:
    desk.script(write("no.txt", "x\n"), finish(), finish())
    run(desk, "--validate", "", PATCHYARD_APPROVALS="write_file")
    desk.agents("plan", "reject", "@last", "no")
    assert desk.agents("plan", "resume").data["changed"] is False
    assert desk.agents("plan", "replay").data["replay"]["is_same"]


def test_background_jobs_are_found_by_their_new_names(desk: Desk) -> None:
    begins = (
        call("execute_command", command="echo on > on.txt; sleep 60", background=True),
        shell("until test -s on.txt; do sleep 0.02; done"),
    )
    desk.script(*begins, finish())
    first = run(desk, "--validate", "")
    job = next(
        event["call_id"]
        for event in desk.agents("plan", "events").data["events"]
        if event["event"] == "ToolCallRequested"
    )
    assert first.code == 0
    added = desk.agents("plan", "correct", "@last", "--mode", "append", "--guidance", "stop it")
    assert added.code == 0
    desk.script(*begins, finish(), call("job_kill", job_id=job), finish())
    assert desk.agents("plan", "resume").code == 0
    again = desk.agents("plan", "replay")
    assert again.data["replay"]["is_same"], again.message


def test_without_a_change_set_or_its_layer_there_is_nothing_to_replay(desk: Desk) -> None:
    desk.script(write("one.txt", "1\n"), finish())
    run(desk, "--validate", "", "--automation-profile", "manual")
    nothing = desk.agents("plan", "replay")
    assert (nothing.code, "nothing to compare with" in nothing.message) == (3, True)


@pytest.mark.service("overlay")
def test_a_replay_stands_on_the_setup_layer_that_there_was(desk: Desk) -> None:
    (desk.repo / ".gitignore").write_text("deps/\n")
    desk.script(shell("cat deps/version > version.txt"), finish())
    setup = "mkdir -p deps; date +%N > deps/version"  # another one whenever it is run
    ended = run(desk, "--setup", setup, "--validate", "")
    assert ended.code == 0, ended.message
    assert desk.agents("plan", "replay").data["replay"]["is_same"]
    layers = [place for place in Path(desk.folder).rglob(".layers") if place.is_dir()]
    for place in layers:
        for layer in place.iterdir():
            layer.rename(layer.with_name(f"{layer.name}-away"))
    gone = desk.agents("plan", "replay")
    assert (gone.code, "setup layer" in gone.message) == (4, True)


def test_a_replay_that_was_killed_goes_on_or_is_made_again(desk: Desk) -> None:
    desk.script(shell("sleep 0.5; echo 1 >> log.txt"), shell("echo 2 >> log.txt"), finish())
    ended = run(desk, "--validate", "")
    without_model(desk)
    process = desk.start("plan", "replay", "--stream", "--format", "json")
    assert process.stdout is not None
    child = ""
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "ToolCallRequested":
            child = event["plan_id"]
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()

    again = desk.agents("plan", "replay")
    resumed = desk.agents("plan", "resume", child)

    assert again.data["replay"]["is_same"], again.message
    assert resumed.data["changeset"]["tree"] == ended.data["changeset"]["tree"], resumed.message


def test_what_reached_beyond_the_workspace_is_done_again_only_where_that_is_said(
    desk: Desk,
) -> None:
    outside = desk.folder / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    for number, (kind, more) in enumerate(
        (("host", ()), ("process", ("--mount", f"{outside}:rw"))), start=1
    ):
        log = outside / f"log-{number}"
        desk.script(shell(f"echo once >> {log}"), write("a.txt", f"{number}\n"), finish())
        assert run(desk, "--in", kind, "--validate", "", *more).code == 0

        refused = desk.agents("plan", "replay")
        assert (refused.code, "--yes" in refused.message) == (3, True), refused.message
        assert log.read_text() == "once\n"

        assert desk.agents("plan", "replay", "@last", "--yes").data["replay"]["is_same"]
        assert log.read_text() == "once\nonce\n"


def test_a_call_that_was_cut_short_is_named_where_the_difference_is(desk: Desk) -> None:
    count = "for n in $(seq 80); do echo $n >> count.txt; sleep 0.1; done"
    path = desk.script(shell(count, timeout_s=60), finish(), finish())
    with desk.start("run", "a task", "--model", f"scripted:{path}", "--validate", "") as process:
        while not list(desk.folder.glob("workspaces/tasks/*/root/count.txt")):
            assert process.poll() is None
            time.sleep(0.02)
        assert desk.agents("plan", "limit", "@last", "--timeout", "1s").code == 0
        assert process.wait(timeout=120) == 5
    assert desk.agents("plan", "limit", "@last", "--timeout", "+1h").code == 0
    resumed = desk.agents("plan", "resume")
    assert resumed.code == 0, resumed.message
    again = desk.agents("plan", "replay")
    assert again.code == 1
    assert "1 call of the plan was cut short" in again.message


def test_an_attempt_that_was_given_up_is_not_compared_with_the_next(desk: Desk) -> None:
    desk.script(write("one.txt", "1\n"), finish())
    assert run(desk, "--validate", "").code == 0
    assert desk.agents("plan", "revert", "@last", "--to-phase", "execute").code == 0
    refused = desk.agents("plan", "replay")
    assert (refused.code, "no change set yet" in refused.message) == (3, True), refused.message
