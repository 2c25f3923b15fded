"""Plans that begin where another one was: its files, its conversation, another model or word."""

import pytest

from mainjob.driver import Answer, Desk, call, finish, shell, write

pytestmark = [pytest.mark.service("bubblewrap")]

STEPS = (
    write("one.txt", "1\n"),
    shell("echo two > two.txt; echo hidden > .ignored"),
    shell("rm two.txt; echo 3 > three.txt"),
    finish("three steps"),
)


@pytest.fixture
def done(desk: Desk) -> Answer:
    """A plan of three steps."""
    (desk.repo / ".gitignore").write_text(".ignored\n")
    ended = desk.run(*STEPS, options=["--validate", ""])
    assert ended.code == 0, ended.message
    return ended


def test_a_fork_of_a_step_has_its_files_and_its_conversation(desk: Desk, done: Answer) -> None:
    path = desk.script(
        *STEPS[:2],
        shell("cat one.txt two.txt .ignored > all.txt; test -d three.txt || true"),
        finish("another way"),
        name="other",
    )

    forked = desk.agents("plan", "fork", "@last", "--at", "2", "--model", f"scripted:{path}")

    assert forked.code == 0, forked.message
    assert forked.changed == {"one.txt": "added", "two.txt": "added", "all.txt": "added"}
    parent = done.data["plan_id"]
    assert forked.data["parent"]["plan_id"] == parent
    assert forked.data["parent"]["kinship"] == "fork"
    events = desk.agents("plan", "events", forked.data["plan_id"]).data["events"]
    asked = [event["turn"] for event in events if event["event"] == "TurnTaken"]
    assert asked[:2] == [1, 1]  # of the strategy, then of the work, both taken over
    diff = desk.agents("plan", "diff", forked.data["plan_id"]).data["patch"]
    assert "+hidden" in diff
    assert desk.agents("plan", "status", parent).data["changeset"] == done.data["changeset"]


def test_what_was_taken_over_was_paid_for_by_the_parent(desk: Desk, done: Answer) -> None:
    forked = desk.agents("plan", "fork", "@last", "--no-start")
    assert forked.data["cost"]["tokens"] == 0
    assert forked.data["cost"]["steps"] == 0
    assert forked.data["strategy"]["decision_root_id"] == done.data["strategy"]["decision_root_id"]
    assert desk.agents("plan", "verify", forked.data["plan_id"]).code == 0
    ended = desk.agents("plan", "resume", forked.data["plan_id"])
    assert ended.data["changeset"]["tree"] == done.data["changeset"]["tree"]


def test_a_fork_at_the_beginning_keeps_the_strategy_and_begins_on_the_base(
    desk: Desk, done: Answer
) -> None:
    path = desk.script(write("other.txt", "x\n"), finish(), name="other")
    forked = desk.agents("plan", "fork", "@last", "--at", "0", "--model", f"scripted:{path}")
    assert forked.changed == {"other.txt": "added"}
    assert forked.data["strategy"] == {**done.data["strategy"], "invariants": []}


def test_a_retry_is_told_the_text_and_the_comments_of_lines(desk: Desk, done: Answer) -> None:
    commented = desk.agents("plan", "diff", "@last", "--comment", "one.txt:1", "say uno")
    assert commented.code == 0, commented.message
    desk.script(*STEPS, write("uno.txt", "uno\n"), finish("told"))

    tried = desk.agents("plan", "retry", "@last", "in Spanish please")

    assert tried.code == 0, tried.message
    assert tried.changed["uno.txt"] == "added"
    assert tried.data["parent"]["kinship"] == "retry"
    events = desk.agents("plan", "events", tried.data["plan_id"]).data["events"]
    told = [event.get("guidance", "") for event in events if event["event"] == "TurnTaken"]
    (heard,) = [text for text in told if text]
    assert heard.index("in Spanish please") < heard.index("one.txt, line 1: say uno")
    again = desk.agents("plan", "replay", tried.data["plan_id"])
    assert again.data["replay"]["is_same"], again.message
    back = desk.agents("plan", "status", done.data["plan_id"])
    assert back.data["changeset"] == done.data["changeset"]


def test_a_fork_can_be_rolled_back_and_forked_again(desk: Desk, done: Answer) -> None:
    first = desk.agents("plan", "fork", done.data["plan_id"], "--no-start").data["plan_id"]
    marks = desk.agents("plan", "status", first).data["execution"]["checkpoints"]
    back = desk.agents("plan", "rollback", first, marks[1]["checkpoint_id"], "--yes")
    assert back.code in {0, 3}, back.message  # it has no workspace before it is begun
    assert desk.agents("plan", "resume", first).code == 0
    marks = desk.agents("plan", "status", first).data["execution"]["checkpoints"]
    back = desk.agents("plan", "rollback", first, marks[1]["checkpoint_id"], "--yes")
    assert back.code == 0, back.message
    again = desk.agents("plan", "fork", first)
    assert again.data["changeset"]["tree"] == done.data["changeset"]["tree"]


def test_what_names_no_beginning_is_refused(desk: Desk, done: Answer) -> None:
    for words, code, said in (
        (["fork", "@last", "--at", "9"], 2, "no step 9"),
        (["fork", "@last", "--at", "nowhere"], 2, "no checkpoint"),
        (["fork", "@last", "--model", "nobody:x"], 2, "nobody"),
        (["retry", "@last"], 2, "nothing to tell"),
        (["diff", "@last", "--comment", "one.txt", "x"], 2, "not FILE:LINE"),
        (["diff", "@last", "--comment", "a.txt:1", "x"], 2, "unknown changed file"),
        (["diff", "@last", "--comment", "one.txt:2", "x"], 2, "one.txt has no line 2"),
    ):
        answer = desk.agents("plan", *words)
        assert (answer.code, said in answer.message) == (code, True), answer.message
    plans = desk.agents("plan", "list").data["plans"]
    assert [plan["plan_id"] for plan in plans] == [done.data["plan_id"]]


def test_without_a_strategy_there_is_nothing_to_fork(desk: Desk) -> None:
    desk.run(call("read_file", path="a.txt"), options=["--automation-profile", "manual"])
    assert desk.agents("plan", "fork").code == 3
