"""The main job in a mock: as on a host, and when calls are lost."""

import pytest

from mainjob.driver import Desk, finish, shell, write
from patchyard.environments.mock import (
    FAILURES_VARIABLE,
    PLACE_FAILURES,
    SEED_VARIABLE,
    TOOL_FAILURES,
    chance,
)


def test_a_mock_does_the_work_and_says_that_nothing_is_confined(desk: Desk) -> None:
    said = desk.run(write("new.txt", "new\n"), shell("echo more >> new.txt"), in_="mock")
    assert (said.code, said.changed) == (0, {"new.txt": "added"})
    assert (said.data["environment"], said.data["reach"]["kind"]) == ("mock", "mock")
    assert said.data["reach"]["network"]["summary"] == "all that this machine reaches"
    path = desk.script(finish())
    told = desk.agents("run", "x", "--model", f"scripted:{path}", "--in", "mock", is_json=False)
    assert "in mock: not confined" in told.err


def test_the_mode_mock_is_the_last_level_of_the_chain(desk: Desk) -> None:
    path = desk.script(write("new.txt", "new\n"))
    words = ("run", "a task", "--model", f"scripted:{path}")
    said = desk.agents(*words, environ={"AGENT_MODE": "mock"})
    assert (said.code, said.data["environment"]) == (0, "mock")
    route = desk.agents("plan", "route", "@last", "write_file").data["routes"][0]
    assert (route["kind"], route["level"]) == ("mock", "default")


def test_check_and_list_know_it(desk: Desk) -> None:
    assert desk.agents("env", "check", "mock").data["is_ready"] is True
    rows = desk.agents("env", "list").data["environments"]
    (row,) = [row for row in rows if row["kind"] == "mock"]
    assert (row["strength"], row["is_ready"]) == (0, True)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_writing_call_that_is_lost_is_settled_as_unknown_and_never_made_again(
    desk: Desk, *, is_done: bool
) -> None:
    def is_wanted(seed: int) -> bool:
        first = chance(seed, "call", 1)
        places = [chance(seed, what, n) for what in ("start", "attach", "end") for n in range(1, 6)]
        is_lost = first < TOOL_FAILURES and (first >= TOOL_FAILURES / 2) == is_done
        later = min(chance(seed, "call", n) for n in range(2, 6))
        return is_lost and min(places) >= PLACE_FAILURES and later >= TOOL_FAILURES

    seed = next(seed for seed in range(10_000) if is_wanted(seed))
    path = desk.script(shell("echo once >> new.txt"), shell("echo twice >> other.txt"))
    words = ("run", "a task", "--model", f"scripted:{path}", "--in", "mock")
    environ = {FAILURES_VARIABLE: "true", SEED_VARIABLE: str(seed)}
    said = desk.agents(*words, environ=environ)
    assert said.code == 0
    events = desk.agents("plan", "events").data["events"]
    settled = [each for each in events if each["event"] == "ToolCallSettled"]
    assert [each.get("error") for each in settled] == ["OUTCOME_UNKNOWN", None]
    assert sorted(said.changed) == (["new.txt"] if is_done else []) + ["other.txt"]
    if is_done:
        patch = desk.agents("plan", "diff", is_json=False).out.decode()
        assert patch.count("+once") == 1
