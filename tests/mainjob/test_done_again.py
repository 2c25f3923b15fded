"""A command that finds its work done says that it did nothing, and what does it again."""

import re

import pytest

from mainjob.driver import Desk, finish, write

pytestmark = pytest.mark.service("bubblewrap")


def text(desk: Desk, *words: str) -> str:
    said = desk.agents(*words, is_json=False)
    assert said.code == 0, said.message
    return said.out.decode()


@pytest.mark.parametrize(
    "words",
    [("strategize",), ("execute",), ("resume",), ("execute", "--in", "host")],
    ids=["strategize", "execute", "resume", "execute-elsewhere"],
)
def test_what_was_done_before_is_said_to_be_done(desk: Desk, words: tuple[str, ...]) -> None:
    plan = desk.run(write("x", "x\n")).data["plan_id"]
    said = text(desk, "plan", words[0], plan, *words[1:])
    assert said.startswith("nothing was done: the plan is execute/complete")
    assert f"agents plan {'fork' if '--in' in words else 'retry'} {plan}" in said
    told = desk.agents("plan", words[0], plan, *words[1:])
    assert told.data["nothing_done"] == said.split("\n")[0]


def test_the_words_for_once_more_can_be_typed_as_they_are(desk: Desk) -> None:
    plan = desk.run(write("x", "x\n"), finish(), write("y", "y\n")).data["plan_id"]
    said = text(desk, "plan", "resume", plan).split("\n")[0]
    (words,) = re.findall("`agents ([^`]+)`", said)
    again = desk.agents(*(word if word != "TEXT" else "say why" for word in words.split()))
    assert (again.code, again.data["parent"]["plan_id"]) == (0, plan), again.message
    without = desk.agents("plan", "retry", plan)
    assert (without.code, f"`agents plan retry {plan} TEXT`" in without.message) == (2, True)


def test_a_recipe_is_not_told_to_take_a_word(desk: Desk) -> None:
    (desk.folder / "greet.yaml").write_text("name: greet\nsteps: [{run: touch greeted}]\n")
    for words in (
        ("action", "create", "--file", str(desk.folder / "greet.yaml")),
        ("project", "create", "shop"),
        ("plan", "use", "greet", "shop"),
        ("plan", "execute"),
    ):
        assert desk.agents(*words).code == 0
    said = text(desk, "plan", "resume").split("\n")[0]
    (words_again,) = re.findall("`agents ([^`]+)`", said)
    again = desk.agents(*words_again.split())
    assert (again.code, again.data["changed"]) == (0, True), again.message


@pytest.mark.parametrize("options", [(), ("--apply", "worktree")], ids=["proven", "applied"])
def test_what_was_done_before_is_not_queued_again(desk: Desk, options: tuple[str, ...]) -> None:
    plan = desk.run(write("x", "x\n"), options=options).data["plan_id"]
    said = text(desk, "plan", "resume", "-d", plan)
    assert said.startswith("nothing was done: the plan is ")
    assert "is queued" not in said
    told = desk.agents("plan", "resume", "-d", plan).data
    assert (told["nothing_done"], told["queue"]) == (said.split("\n")[0], None)
    assert desk.agents("plan", "status", plan).data.get("queue") is None


def test_what_is_left_of_a_done_plan_is_queued(desk: Desk) -> None:
    options = ("--apply", "worktree")
    plan = desk.run(write("x", "x\n"), options=options).data["plan_id"]
    desk.agents("plan", "unapply", plan)
    queued = desk.agents("plan", "resume", "-d", plan).data
    assert "nothing_done" not in queued
    assert queued["queue"] is not None


def test_the_words_for_another_place_do_the_work_there(desk: Desk) -> None:
    plan = desk.run(write("x", "x\n")).data["plan_id"]
    said = text(desk, "plan", "execute", plan, "--in", "host")
    assert "done in process, not in host" in said
    fork, execute = re.findall("`agents ([^`]+)`", said.split("\n")[0])[-2:]
    new = desk.agents(*fork.split()).data["plan_id"]
    done = desk.agents(*execute.replace("NEW", new).split())
    assert (done.code, done.data["environment"], done.data["changed"]) == (0, "host", True)
    assert "nothing_done" not in done.data


def test_what_is_done_now_is_not_said_to_be_done_before(desk: Desk) -> None:
    manual = ("--automation-profile", "manual")
    plan = desk.run(write("x", "x\n"), options=manual).data["plan_id"]
    for verb in ("strategize", "execute"):
        assert "nothing was done" not in text(desk, "plan", verb, plan)
    said = desk.agents("plan", "execute", plan).data["nothing_done"]
    assert "execute/complete" in said


def test_a_plan_that_was_planned_before_is_to_be_executed(desk: Desk) -> None:
    manual = ("--automation-profile", "manual")
    plan = desk.run(write("x", "x\n"), options=manual).data["plan_id"]
    text(desk, "plan", "strategize", plan)
    assert f"`agents plan execute {plan}` goes on" in text(desk, "plan", "strategize", plan)
