"""Limits and usage as a user meets them: said on the command line, seen in status and logs."""

import pytest

from endings import ended
from mainjob.driver import Desk, Waiting, shell, write

pytestmark = [pytest.mark.service("bubblewrap")]

HOG = "python3 -c 'x = bytearray(1 << 28)'"


def test_a_plan_with_tight_limits_says_which_one_it_hit(desk: Desk) -> None:
    said = desk.run(shell(HOG), write("x", "x\n"), options=["--limit", "memory=64M"])
    assert said.code == 0, said.message
    usage = said.data["execution"]["usage"]
    assert usage["cpu_s"] > 0
    assert usage["memory_bytes"] > 0
    events = desk.agents("plan", "events").out.decode()
    assert "the limit `memory` was reached" in events


def test_a_call_that_ended_well_all_the_same_says_its_limit_in_its_line(desk: Desk) -> None:
    flood = desk.script(shell("head -c 200000 /dev/zero | tr '\\0' x"), write("x", "x\n"))
    options = ("--model", f"scripted:{flood}", "--limit", "output=64K")
    said = desk.agents("run", "a task", *options, is_json=False)
    again = desk.agents("plan", "events", "--follow", is_json=False)  # as the journal holds it
    assert (said.code, again.code) == (0, 0)
    for lines in (said.err, again.err):
        (line,) = [each for each in lines.splitlines() if "LIMIT" in each]
        assert line.startswith("    LIMIT exit code 0 after ")
        assert "; the limit `output` was reached: 195.3 KiB of 64 KiB; the middle" in line


def test_a_limit_that_makes_no_sense_begins_nothing(desk: Desk) -> None:
    said = desk.run(write("x", "x\n"), options=["--limit", "memory=0"])
    assert said.code == 2
    assert "--limit memory: must be 32 MiB or more" in said.message
    assert desk.agents("plan", "list").data["plans"] == []


def test_status_says_how_the_environment_is_that_runs(desk: Desk) -> None:
    held = Waiting(desk, "execute")
    process = held.start()
    status = desk.agents("plan", "status").data["execution"]
    (row,) = status["environments"]
    shown = desk.agents("plan", "status", is_json=False).out.decode()
    held.release()
    ended(process)  # nothing works on in the folder that is cleared away
    assert (row["kind"], row["is_alive"], row["answers"]) == ("process", True, True)
    assert row["usage"]["cpu_s"] > 0
    assert "in       process, up since" in shown
