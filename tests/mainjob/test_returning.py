"""`agents gc` and `agents disk`, as people call them."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from mainjob.driver import Desk, Waiting, finish, shell, write

pytestmark = pytest.mark.service("bubblewrap")

SOON = {"PATCHYARD_KEEP": "{workspaces: 0.001s}"}


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else's temporary folders take part."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_disk_gc_and_its_dry_run_speak_of_the_same_things(desk: Desk) -> None:
    plan_id = desk.run(write("b", "two\n")).data["plan_id"]
    assert desk.agents("gc").data["returned"] == []

    shown = desk.agents("disk", environ=SOON).data
    dry = desk.agents("gc", "--dry-run", environ=SOON).data
    done = desk.agents("gc", environ=SOON)

    assert shown["may_go_bytes"] == dry["freed_bytes"] > 0
    assert [each["name"] for each in dry["returned"]] == [plan_id]
    assert [each["name"] for each in done.data["returned"]] == [plan_id]
    assert done.code == 0
    assert desk.agents("gc", environ=SOON).data["returned"] == []
    assert desk.agents("plan", "apply").code == 0
    assert (desk.repo / "b").read_text() == "two\n"


def test_people_read_sizes_places_and_reasons(desk: Desk) -> None:
    desk.run(write("b", "two\n"))
    said = desk.agents("gc", "--dry-run", is_json=False, environ=SOON).out.decode()
    assert "its plan has been finished for long" in said
    assert "1 thing" in said
    shown = desk.agents("disk", is_json=False).out.decode()
    assert "workspace" in shown
    assert "`agents gc` would give back 0 B" in shown


def test_a_wrong_time_to_keep_is_refused_with_the_right_form(desk: Desk) -> None:
    answer = desk.agents("gc", environ={"PATCHYARD_KEEP": "{journals: soon}"})
    assert answer.code == 2
    assert "90s, 30m or 1h" in answer.message


def test_a_repository_cannot_say_how_long_things_are_kept(desk: Desk) -> None:
    plan_id = desk.run(write("b", "two\n")).data["plan_id"]
    (desk.repo / ".patchyard").mkdir()
    (desk.repo / ".patchyard/config.yaml").write_text("keep: {workspaces: 0.001s}\n")
    assert desk.agents("gc").data["returned"] == []
    assert desk.agents("plan", "status", plan_id).code == 0


def test_without_room_new_plans_are_refused_and_old_ones_go_on(desk: Desk) -> None:
    tight = {"PATCHYARD_KEEP": "{free: 900TiB}"}
    place = desk.script(write("b", "two\n"), {"text": "no call"})
    made = desk.agents(
        "run", "x", "--model", f"scripted:{place}", "--automation-profile", "manual"
    ).data["plan_id"]

    refused = desk.agents("run", "x", "--model", f"scripted:{place}", environ=tight)

    assert (refused.code, refused.body["error"]["code"]) == (4, "no_room")
    assert "agents gc" in refused.message
    assert len(desk.agents("plan", "list").data["plans"]) == 1
    assert desk.agents("plan", "strategize", made, environ=tight).code == 0


def test_a_run_lets_the_janitor_pass_once_an_hour(desk: Desk) -> None:
    first = desk.run(write("b", "two\n")).data["plan_id"]
    home = Path(desk.environ["PATCHYARD_HOME"])
    assert desk.run(write("c", "two\n")).code == 0
    assert first in workspaces(desk)
    hour_ago = time.time() - 3700
    os.utime(home / "swept", (hour_ago, hour_ago))
    waiting = Waiting(desk, "execute")

    with waiting.released(once=lambda: first not in workspaces(desk)):
        answer = desk.agents("run", "x", "--model", waiting.model, environ=SOON)

    assert answer.code == 0
    assert first not in workspaces(desk)
    assert answer.data["plan_id"] in workspaces(desk)
    assert (home / "swept").stat().st_mtime > hour_ago + 3600


def workspaces(desk: Desk) -> list[str]:
    """Return the names of the workspaces that are there."""
    return [place.name for place in (desk.folder / "workspaces/tasks").iterdir()]


def test_a_finished_plan_whose_workspace_was_returned_goes_on_with_its_work(desk: Desk) -> None:
    made = desk.run(write("b", "two\n"), finish("first"), options=["--validate", "test -f b"])
    assert made.code == 0, made.message
    plan = made.data["plan_id"]
    assert [each["name"] for each in desk.agents("gc", environ=SOON).data["returned"]] == [plan]
    desk.script(write("b", "two\n"), finish("first"), write("c", "three\n"), finish("second"))

    assert desk.agents("plan", "correct", plan, "--mode", "append", "--guidance", "c too").code == 0
    went_on = desk.agents("plan", "resume", plan)

    assert went_on.code == 0, went_on.message
    assert went_on.changed == {"b": "added", "c": "added"}
    assert desk.agents("plan", "replay", plan).data["replay"]["is_same"]


def test_a_finished_plan_whose_workspace_was_returned_can_be_rolled_back(desk: Desk) -> None:
    steps = (write("b", "two\n"), shell("echo three > c"), finish("done"))
    made = desk.run(*steps, options=["--validate", "test -f c"])
    plan, tree = made.data["plan_id"], made.data["changeset"]["tree"]
    marks = made.data["execution"]["checkpoints"]
    desk.agents("gc", environ=SOON)

    back = desk.agents("plan", "rollback", plan, marks[1]["checkpoint_id"], "--yes")

    assert back.code == 0, back.message
    assert (back.data["phase"], back.data["state"]) == ("execute", "queued")
    again = desk.agents("plan", "resume", plan)
    assert again.code == 0, again.message
    assert again.data["changeset"]["tree"] == tree


def test_a_fork_needs_room_too(desk: Desk) -> None:
    made = desk.run(write("b", "two\n"))
    tight = {"PATCHYARD_KEEP": "{free: 900TiB}"}
    for words in (("fork", "@last"), ("retry", "@last", "once more")):
        refused = desk.agents("plan", *words, environ=tight)
        assert (refused.code, refused.body["error"]["code"]) == (4, "no_room")
    assert [p["plan_id"] for p in desk.agents("plan", "list").data["plans"]] == [
        made.data["plan_id"]
    ]


def test_an_attempt_after_a_revert_begins_on_the_base_although_the_workspace_was_returned(
    desk: Desk,
) -> None:
    steps = (shell("echo once >> b"), finish("done"))
    made = desk.run(*steps, options=["--validate", "test -f b"])
    plan = made.data["plan_id"]
    for to in ("execute", "strategize"):
        assert [each["name"] for each in desk.agents("gc", environ=SOON).data["returned"]] == [plan]
        assert desk.agents("plan", "revert", plan, "--to-phase", to).code == 0
        again = desk.agents("plan", "resume", plan)
        assert again.code == 0, again.message
        assert again.data["changeset"]["tree"] == made.data["changeset"]["tree"], to
