"""A person steers plans from the command line; what was said survives whoever is killed."""

import asyncio
import contextlib
import json
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from endings import ended
from mainjob.driver import Answer, Desk, Waiting, finish, shell, write
from patchyard.assembly import open_equipment
from patchyard.domain.chain import Entry, faults
from patchyard.engine import control
from terminals import at_a_terminal

pytestmark = [pytest.mark.service("bubblewrap")]

AGENTS = [sys.executable, "-m", "patchyard"]


def names(desk: Desk) -> list[str]:
    events: list[dict[str, Any]] = desk.agents("plan", "events").data["events"]
    return [event["event"] for event in events]


def run(desk: Desk, *replies: dict[str, Any], profile: str = "", **settings: str) -> Answer:
    path = desk.script(*replies)
    options = ["--automation-profile", profile] if profile else []
    words = ("run", "a task", "--model", f"scripted:{path}", "--validate", "", *options)
    return desk.agents(*words, environ=settings)


async def word_said(desk: Desk) -> None:
    """Wait until somebody has said something to the newest plan's owner."""
    async with open_equipment(desk.environ) as equipment:
        plan = (await equipment.store.summaries.summaries())[0][0]
        for _ in range(12_000):
            if await control.words(equipment.store.journal, plan):
                return
            await asyncio.sleep(0.01)
    raise AssertionError("nothing was said")


@pytest.fixture
def paused(desk: Desk) -> Desk:
    """A desk with a plan that was paused in the middle of a call."""
    waiting = Waiting(desk, "execute")
    process = waiting.start()
    pausing = desk.start("plan", "pause", "@last")
    asyncio.run(word_said(desk))
    waiting.release()
    ended(pausing)
    assert pausing.returncode == 0
    out, _ = ended(process)
    assert json.loads(out.splitlines()[-1])["error"]["code"] == "paused"
    assert process.returncode == 3
    return desk


def test_a_paused_plan_says_so_and_goes_on_where_it_was(paused: Desk) -> None:
    status = paused.agents("plan", "status")
    assert "it is paused" in status.data["waiting"]["for"]
    shown = paused.agents("plan", "status", is_json=False).out.decode()
    assert "paused" in shown
    assert f"next     agents plan resume {status.data['plan_id']}\n" in shown
    assert [row["note"] for row in paused.agents("plan", "list").data["plans"]] == ["paused"]
    before = len(names(paused))

    would = paused.agents("plan", "resume", "--dry-run").data["would"]

    assert would["steps"][0] == "end the pause"
    assert any("replay 1 turns" in step for step in would["steps"]), would
    assert len(names(paused)) == before  # nothing was written
    ended = paused.agents("plan", "resume")
    assert (ended.code, ended.data["state"]) == (0, "complete")
    assert ended.data["changed"]


def test_a_pause_outlives_an_owner_that_is_killed(desk: Desk) -> None:
    waiting = Waiting(desk, "execute")
    process = waiting.start()
    pausing = desk.start("plan", "pause", "@last")
    process.send_signal(signal.SIGKILL)
    ended(process)
    out, err = ended(pausing)
    assert pausing.returncode == 0, err
    assert out.startswith(b"paused")
    would = desk.agents("plan", "resume", "--dry-run").data["would"]
    (call,) = would["open_calls"]
    assert "attached to where its environment still runs" in call["would"]
    waiting.release()
    assert desk.agents("plan", "resume").data["state"] == "complete"


def test_guidance_is_told_once_although_both_are_killed(desk: Desk) -> None:
    waiting = Waiting(desk, "execute")
    process = waiting.start()
    process.send_signal(signal.SIGKILL)
    ended(process)
    said = desk.start("plan", "prompt", "@last", "mind the gap")
    ended(said)
    assert said.returncode == 0
    again = desk.start("plan", "resume", "@last", "--stream", "--format", "json")
    assert again.stdout is not None
    for line in again.stdout:
        if json.loads(line).get("event") == "Resumed":
            break
    assert again.poll() is None  # the call that the first one began still goes on
    again.send_signal(signal.SIGKILL)
    ended(again)
    waiting.release()

    resumed = desk.agents("plan", "resume")

    assert resumed.data["state"] == "complete", resumed.message
    events = desk.agents("plan", "events").data["events"]
    assert [event["text"] for event in events if event["event"] == "Guided"] == ["mind the gap"]
    told = [e for e in events if e["event"] == "TurnTaken" and "mind the gap" in str(e)]
    assert len(told) == 1
    refused = desk.agents("plan", "prompt", "@last", "too late")
    assert (refused.code, "correct" in refused.message) == (3, True)


def test_without_a_terminal_an_approval_ends_with_3_and_names_the_commands(desk: Desk) -> None:
    stopped = run(desk, shell("echo ran > ran.txt"), finish(), profile="supervised")

    plan = stopped.data["plan_id"]
    assert stopped.code == 3
    assert stopped.body["error"]["code"] == "approval_needed"
    assert f"agents plan approve {plan}" in stopped.message
    assert stopped.data["approval"]["name"] == "execute"
    assert desk.agents("plan", "approve").code == 0
    asked = desk.agents("plan", "resume")
    assert (asked.code, asked.data["approval"]["subject"]) == (3, "call")
    assert "echo ran > ran.txt" in asked.data["approval"]["shown"]
    assert "echo ran" in desk.agents("plan", "approve", is_json=False).out.decode()
    ended = desk.agents("plan", "resume")
    assert ended.changed == {"ran.txt": "added"}
    assert desk.agents("plan", "approve").code == 3


def test_a_rejected_call_is_told_to_the_actor_with_the_reason(desk: Desk) -> None:
    run(desk, shell("rm -rf ."), finish(), finish(), PATCHYARD_APPROVALS="execute_command")
    desk.agents("plan", "reject", "@last", "not all of it")
    ended = desk.agents("plan", "resume")
    assert (ended.code, ended.data["changed"]) == (0, False)
    events = desk.agents("plan", "events").data["events"]
    (settled,) = [event for event in events if event["event"] == "ToolCallSettled"]
    assert settled["error"] == "REJECTED"
    assert "not all of it" in settled["message"]


def test_at_a_terminal_the_question_is_asked_there(desk: Desk) -> None:
    path = desk.script(shell("echo ran > ran.txt"), finish())
    words = (*AGENTS, "run", "x", "--model", f"scripted:{path}", "--validate", "")
    environ = {**desk.environ, "TERM": "xterm", "PATCHYARD_APPROVALS": "run"}
    with at_a_terminal(words, cwd=desk.repo, environ=environ) as terminal:
        terminal.wait_for("y, n, or why not:")
        terminal.type("y\n")
        assert "ran.txt" in terminal.rest()
    assert "Approved" in names(desk)


def test_what_the_safety_profile_forbids_is_refused(desk: Desk) -> None:
    said = run(
        desk, write("new.txt", "x"), finish(), finish(), PATCHYARD_SAFETY="{categories: [read]}"
    )
    assert (said.code, said.data["changed"]) == (0, False)
    events = desk.agents("plan", "events").data["events"]
    (settled,) = [event for event in events if event["event"] == "ToolCallSettled"]
    assert settled["error"] == "NOT_ALLOWED"
    path = desk.script(finish())
    for kind in ("host", "mock"):
        words = ("run", "x", "--model", f"scripted:{path}", "--in", kind)
        bare = desk.agents(*words, environ={"PATCHYARD_SAFETY": "{require_sandbox: true}"})
        assert (bare.code, "--in process" in bare.message) == (3, True)


def test_a_plan_goes_back_and_is_corrected_by_command(desk: Desk) -> None:
    run(desk, write("one.txt", "1\n"), finish(), write("two.txt", "2\n"), finish())
    added = desk.agents("plan", "correct", "@last", "--mode", "append", "--guidance", "two as well")
    assert (added.data["phase"], added.data["state"]) == ("execute", "queued")
    assert desk.agents("plan", "resume").changed == {"one.txt": "added", "two.txt": "added"}
    back = desk.agents("plan", "revert", "@last", "--reason", "not like that")
    assert (back.data["phase"], back.data["state"]) == ("strategize", "queued")
    assert back.data["automation"]["reverts"] == 1
    assert desk.agents("plan", "resume").changed == {"one.txt": "added"}
    unknown = desk.agents("plan", "revert", "@last", "--to-phase", "apply", is_json=False)
    assert unknown.code == 2


def test_an_export_holds_the_whole_chain_and_takes_no_files_place(desk: Desk) -> None:
    run(desk, write("one.txt", "1\n" * 3000), finish())
    target = desk.folder / "plan.json"

    said = desk.agents("plan", "export", "@last", "--to", str(target))

    plan = json.loads(target.read_text())
    assert target.stat().st_mode & 0o777 == 0o600
    entries = [Entry(stream=plan["plan_id"], **event) for event in plan["events"]]
    assert faults(entries, head=said.data["head"]) == ()
    assert plan["head"] == entries[-1].hash
    assert plan["bodies"]
    assert plan["plan"]["changed"]
    assert plan["patch"]
    assert sorted(Path(desk.folder).glob("plan.json*")) == [target]
    again = desk.agents("plan", "export", "@last", "--to", str(target))
    assert (again.code, "exists already" in again.message) == (2, True)
    nowhere = desk.agents("plan", "export", "@last", "--to", str(desk.folder / "no/plan.json"))
    assert (nowhere.code, "no folder" in nowhere.message) == (2, True)


def test_an_export_of_a_damaged_journal_is_made_and_is_no_success(desk: Desk) -> None:
    run(desk, write("one.txt", "1\n"), finish())
    alter = "UPDATE events SET at = at + 1 WHERE version = 2"
    with contextlib.closing(sqlite3.connect(desk.folder / "state" / "patchyard.db")) as database:
        database.execute(alter)
        database.commit()
    target = desk.folder / "plan.json"

    said = desk.agents("plan", "export", "@last", "--to", str(target))

    assert (said.code, "is not what was written" in said.message) == (1, True)
    assert json.loads(target.read_text())["problems"] == said.data["problems"] != []


def test_a_rejected_phase_names_the_ways_that_are_left(desk: Desk) -> None:
    plan = run(desk, shell("echo ran > ran.txt"), finish(), profile="supervised").data["plan_id"]
    said = desk.agents("plan", "reject", "@last", is_json=False).out.decode()
    assert f"agents plan revert {plan}" in said
    assert f"agents plan execute {plan}" in said
    assert "resume carries it on" not in said
    assert desk.agents("plan", "resume").code == 3


def test_what_was_handed_over_is_corrected_once_it_was_taken_back(desk: Desk) -> None:
    run(desk, write("one.txt", "1\n"), finish(), write("two.txt", "2\n"), finish())
    assert desk.agents("plan", "apply", "--to", "worktree").code == 0
    correct = ("plan", "correct", "@last", "--mode", "append", "--guidance", "two as well")
    for words in (correct, ("plan", "revert", "@last")):
        refused = desk.agents(*words)
        assert (refused.code, "plan unapply" in refused.message) == (3, True), refused.message
    assert desk.agents("plan", "unapply").code == 0
    assert b"(taken back)" in desk.agents("plan", "list", is_json=False).out

    added = desk.agents(*correct)

    assert (added.data["phase"], added.data["state"]) == ("execute", "queued"), added.message
    assert desk.agents("plan", "resume").changed == {"one.txt": "added", "two.txt": "added"}


def test_what_was_handed_over_is_planned_anew_once_it_was_taken_back(desk: Desk) -> None:
    run(desk, write("one.txt", "1\n"), finish())
    assert desk.agents("plan", "apply", "--to", "worktree").code == 0
    assert desk.agents("plan", "unapply").code == 0
    back = desk.agents("plan", "revert", "@last", "--reason", "otherwise")
    assert (back.data["phase"], back.data["state"]) == ("strategize", "queued"), back.message
    assert desk.agents("plan", "resume").changed == {"one.txt": "added"}


def test_a_head_that_is_there_is_said_to_be_there(desk: Desk) -> None:
    head = run(desk, write("one.txt", "1\n"), finish()).data["journal_head"]
    said = desk.agents("plan", "verify", "@last", "--head", head[:16], is_json=False)
    assert f"an event still carries {head[:16]}" in said.out.decode()


@pytest.mark.parametrize("phase", ["strategize", "execute"])
def test_nothing_of_a_result_is_left_once_a_plan_has_gone_back(desk: Desk, phase: str) -> None:
    before = desk.run(write("b", "two\n"), options=("--validate", "true"))
    plan_id = before.data["plan_id"]
    assert before.data["receipt"]["verdict"] == "proven"
    assert desk.agents("plan", "revert", plan_id, "--to-phase", phase).code == 0

    status = desk.agents("plan", "status", plan_id).data
    assert (status["changeset"], status["changed"], status["validation"]) == (None, False, [])
    assert (status["proven_tree"], status["receipt"]["verdict"]) == (None, "nothing")
    place = desk.folder / "plan.json"
    assert desk.agents("plan", "export", plan_id, "--to", str(place)).code == 0
    assert json.loads(place.read_text())["patch"] is None
    diff = desk.agents("plan", "diff", plan_id)
    assert (diff.code, "has no change set" in diff.message) == (3, True)
    assert desk.agents("plan", "apply", plan_id).code == 3
    ended = desk.agents("plan", "resume", plan_id)
    assert ended.data["receipt"]["verdict"] == "proven"
