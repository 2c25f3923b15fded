"""What the commands that only look at a plan say, and what `--stream` shows."""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from mainjob.driver import Desk, shell, write

pytestmark = pytest.mark.service("bubblewrap")


def test_looks_at_a_plan_name_what_is_not_there(desk: Desk) -> None:
    said = desk.run(write("x", "x\n"), options=["--validate", "false", "--rounds", "0"])
    assert said.code == 1

    nothing = desk.agents("plan", "diff", "@last", "nope.txt")
    assert (nothing.code, "no change to nope.txt" in nothing.message) == (2, True)
    assert "changed: x" in nothing.message
    assert desk.agents("plan", "diff", "@last", "x").code == 0

    unknown = desk.agents("plan", "route", "@last", "nope")
    assert (unknown.code, "unknown tool 'nope'" in unknown.message) == (2, True)
    assert b"retryable: no" in desk.agents("plan", "errors", is_json=False).out


def test_workspaces_lie_where_they_are_wanted(desk: Desk) -> None:
    made = desk.run(write("x", "x\n"))
    assert made.code == 0, made.message
    tasks = desk.folder / "workspaces/tasks"  # WORKSPACE_DIR is the desk's workspaces
    assert (tasks / made.data["plan_id"]).is_dir()


def test_a_plan_that_has_ended_has_nothing_to_cancel(desk: Desk) -> None:
    desk.run(write("x", "x" * 500), options=["--max-steps", "1"])
    said = desk.agents("plan", "cancel", is_json=False)
    assert said.code == 0
    assert said.out.startswith(b"nothing to cancel: the plan is execute/constrained\n")
    assert b"the limit of 1 step is reached" in said.out
    assert b" 1 step, " in said.out
    listed = desk.agents("plan", "events", is_json=False).out.decode().splitlines()
    assert any(line.endswith("\u2026") for line in listed)


def test_a_failure_is_said_once_by_its_phase_and_once_at_the_end(desk: Desk) -> None:
    said = desk.run(write("x", "x\n"), options=["--validate", "false", "--rounds", "0"])
    why = said.data["error_message"]
    again = desk.agents("plan", "resume", is_json=False)
    assert (again.code, (again.out.decode() + again.err).count(why)) == (1, 2)
    assert why.encode() in desk.agents("plan", "status", is_json=False).out


PROMISED = {
    *("plan_id", "phase", "state", "action", "project", "base", "environment", "attempt"),
    *("strategy", "changeset_id", "changed", "changeset", "validation", "progress", "execution"),
    *("cost", "reach", "waiting", "findings", "error_message", "error_details"),
}


def test_every_look_tells_programs_all_that_is_promised_of_a_plan(desk: Desk) -> None:
    call = desk.run(write("x", "x\n")).data["changeset"]["files"][0]["call_id"]
    for words, own in (
        (("status",), set()),
        (("watch",), set()),
        (("tree",), {"decisions"}),
        (("explain",), {"decisions"}),
        (("events",), {"events"}),
        (("errors",), {"errors"}),
        (("route",), {"routes"}),
        (("diff",), {"patch"}),
        (("diff", "--stat"), {"files", "counts"}),
        (("logs", "@last", call), {"arguments", "result"}),
    ):
        said = desk.agents("plan", *words)
        data = json.loads(said.out.splitlines()[-1])["data"] if words == ("watch",) else said.data
        assert (PROMISED | own) - set(data) == set(), words
        assert data["state"] == "complete"


def test_a_log_in_a_pipe_has_the_exact_bytes(desk: Desk) -> None:
    made = desk.run(shell("printf 'a\\033[31mb\\377c\\n'"), write("x", "x\n"))
    assert made.code == 0, made.message
    events = desk.agents("plan", "events").data["events"]
    call = next(row["call_id"] for row in events if row["event"] == "ToolCallRequested")
    assert b"a\x1b[31mb\xffc\n" in desk.agents("plan", "logs", "@last", call, is_json=False).out


def test_a_part_of_an_id_must_be_said_and_fit_one(desk: Desk) -> None:
    assert desk.run(shell("true"), *[write(f"x{n}", "x\n") for n in range(33)]).code == 0
    events = desk.agents("plan", "events").data["events"]
    calls = [row["call_id"] for row in events if row["event"] == "ToolCallRequested"]
    assert desk.agents("plan", "logs", "@last", calls[0][-8:].lower()).data["success"]
    ends = [call[-1] for call in calls]
    twice = next(end for end in ends if ends.count(end) > 1)  # 34 ends of 32 letters
    for words, said in (
        (("logs", "@last", twice), "calls"),
        (("logs", "@last", ""), "no call ''"),
        (("explain", "@last", ""), "no decision ''"),
    ):
        answer = desk.agents("plan", *words)
        assert (answer.code, said in answer.message) == (2, True), answer.message


def test_a_limit_in_whole_numbers_takes_no_other(desk: Desk) -> None:
    assert desk.run(write("x", "x\n")).code == 0
    refused = desk.agents("plan", "limit", "--max-steps", "+1.5")
    assert (refused.code, "whole number" in refused.message) == (2, True)
    refused = desk.agents("plan", "limit", "--max-tokens", "+100")
    assert (refused.code, "--max-tokens 100" in refused.message) == (2, True)
    assert (
        b"tokens: not set" in desk.agents("plan", "limit", "--max-steps", "+1", is_json=False).out
    )


def test_a_stream_shows_what_commands_print_and_when_it_happened(desk: Desk) -> None:
    path = desk.script(shell("echo seen; echo warned >&2"), write("x", "x\n"))
    words = ("run", "x", "--model", f"scripted:{path}", "--validate", "", "--stream")
    said = desk.agents(*words, is_json=False)
    assert said.code == 0
    assert "│ seen" in said.err
    assert "│ warned" in said.err

    rows = [json.loads(line) for line in desk.agents(*words).out.splitlines()]
    texts = {(row["stream"], row["text"]) for row in rows if row.get("event") == "Output"}
    assert {("stdout", "seen\n"), ("stderr", "warned\n")} <= texts

    before = time.time()
    told = desk.agents("plan", "events", "--follow").out.splitlines()
    assert len(told) > 5
    assert all(json.loads(line)["at"] < before for line in told[:-1])


def test_numbers_beyond_all_bounds_are_refused(desk: Desk) -> None:
    assert desk.run(write("x", "x\n"), options=["--budget-usd", "inf"]).code == 0
    for words in (
        ("plan", "limit", "@last", "--budget-usd", "1e300"),
        ("plan", "limit", "@last", "--max-tokens", "1e300"),
        ("plan", "fork", "@last", "--at", "1" * 5000),
        ("worker", "--concurrency", "9" * 30),
    ):
        assert desk.agents(*words).code == 2, words
    wrong = desk.agents("run", "x", "-d", "--priority", "9" * 30, is_json=False)
    assert (wrong.code, "--priority" in wrong.err) == (2, True)


def test_one_damaged_line_hides_no_other_plan(desk: Desk) -> None:
    first = desk.run(write("x", "x\n")).data["plan_id"]
    second = desk.run(write("y", "y\n")).data["plan_id"]
    database = desk.folder / "state/patchyard.db"
    for damage in ("{", "{}"):
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("UPDATE summaries SET summary = ? WHERE stream = ?", (damage, first))
            connection.commit()
        shown = desk.agents("plan", "list", "--all", is_json=False)
        assert (shown.code, second in shown.out.decode()) == (0, True)
        assert f"agents plan verify {first}" in shown.out.decode()
        assert desk.agents("plan", "status", second).code == 0
