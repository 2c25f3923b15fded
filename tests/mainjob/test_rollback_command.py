"""`agents plan rollback` at the command line."""

import sqlite3
import sys
from contextlib import closing

import pytest

from mainjob.driver import Desk, shell
from terminals import CTRL_C, at_a_terminal

pytestmark = pytest.mark.service("bubblewrap")


def checkpoints(desk: Desk) -> list[str]:
    listed = desk.agents("plan", "status").data["execution"]["checkpoints"]
    return [row["checkpoint_id"] for row in listed]


def test_a_plan_goes_back_and_a_resume_does_the_rest_again(desk: Desk) -> None:
    ran = desk.run(shell("echo 1 >> made"), shell("echo 2 >> made"))
    assert ran.code == 0, ran.err
    first, second, *_ = checkpoints(desk)
    assert "+2" in desk.agents("plan", "diff").data["patch"]

    back = desk.agents("plan", "rollback", "@last", second, "--yes")

    assert back.code == 0, back.err
    assert (back.data["phase"], back.data["state"]) == ("execute", "queued")
    assert back.data["changeset_id"] is None
    assert checkpoints(desk) == [first, second]
    resumed = desk.agents("plan", "resume")
    assert resumed.code == 0, resumed.err
    assert resumed.changed == {"made": "added"}
    assert desk.agents("plan", "diff").data["patch"].count("\n+") == 3  # the name, and two lines
    assert desk.agents("plan", "verify").code == 0


def test_an_unknown_checkpoint_or_none_lists_those_there_are(desk: Desk) -> None:
    desk.run(shell("echo 1 > made"))
    for words in (["rollback", "@last", "WRONG"], ["rollback", "@last"]):
        answer = desk.agents("plan", *words, "--yes")
        assert answer.code == 2
        assert all(name in answer.message for name in checkpoints(desk))
    assert desk.agents("plan", "rollback", "NONE", "X", "--yes").code == 2


def test_without_a_yes_and_without_a_terminal_nothing_is_changed(desk: Desk) -> None:
    desk.run(shell("echo 1 > made"))
    before = desk.agents("plan", "status").data["journal_head"]
    answer = desk.agents("plan", "rollback", "@last", checkpoints(desk)[0])
    assert answer.code == 3
    assert "--yes" in answer.message
    assert desk.agents("plan", "status").data["journal_head"] == before


def test_people_see_where_they_are(desk: Desk) -> None:
    desk.run(shell("echo 1 > made"))
    first = checkpoints(desk)[0]
    said = desk.agents("plan", "rollback", "@last", first[-8:], "--yes", is_json=False)
    assert said.code == 0
    assert f"back at {first} (turn 1, before execute_command)" in said.out.decode()
    assert "agents plan execute" in said.out.decode()
    status = desk.agents("plan", "status", is_json=False).out.decode()
    assert f"1 checkpoint, the last {first} (turn 1" in status


def test_a_checkpoint_that_the_journal_lost_is_named(desk: Desk) -> None:
    desk.run(shell("for n in $(seq 200); do echo $n > made$n; done"), shell("echo 1 > made"))
    second = checkpoints(desk)[1]
    with closing(sqlite3.connect(desk.folder / "state/patchyard.db")) as database:
        database.execute("UPDATE bodies SET data = x'00'")
        database.commit()
    answer = desk.agents("plan", "rollback", "@last", second, "--yes")
    assert answer.code == 1
    assert "damaged" in answer.message


@pytest.mark.service("ordinary-user")
def test_an_ordinary_users_plan_goes_back_too(plain_desk: Desk) -> None:
    desk = plain_desk
    deleting = shell("rm a.txt; echo 2 >> made; mkdir -m 0 shut; echo x > .hidden")
    ran = desk.run(shell("echo 1 >> made"), deleting)
    assert ran.code == 0, ran.err
    second = checkpoints(desk)[1]
    back = desk.agents("plan", "rollback", "@last", second, "--yes")
    assert back.code == 0, back.err
    resumed = desk.agents("plan", "resume")
    assert resumed.code == 0, resumed.err
    assert resumed.changed["made"] == "added"
    assert desk.agents("plan", "diff").data["patch"].count("\n+2") == 1


@pytest.mark.parametrize("answer", ["y", "n"])
def test_at_a_terminal_a_person_is_asked(desk: Desk, answer: str) -> None:
    desk.run(shell("echo 1 > made"))
    first = checkpoints(desk)[0]
    agents = [sys.executable, "-m", "patchyard", "plan", "rollback", "@last", first]
    with at_a_terminal(agents, cwd=desk.repo, environ=desk.environ) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type(f"{answer}\r")
        said = terminal.rest()
    state = desk.agents("plan", "status").data
    if answer == "y":
        assert "back at" in said
        assert (state["phase"], state["state"]) == ("execute", "queued")
    else:
        assert "nothing was changed" in said
        assert state["state"] == "complete"


def test_ctrl_c_at_the_question_leaves_the_plan_as_it_is(desk: Desk) -> None:
    desk.run(shell("echo 1 > made"))
    first = checkpoints(desk)[0]
    agents = [sys.executable, "-m", "patchyard", "plan", "rollback", "@last", first]
    with at_a_terminal(agents, cwd=desk.repo, environ=desk.environ) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type(CTRL_C)
        said = terminal.rest()
    assert terminal.process.returncode == 130, said
    assert "killed" not in said
    assert desk.agents("plan", "status").data["state"] == "complete"
