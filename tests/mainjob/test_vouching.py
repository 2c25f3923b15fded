"""`agents plan verify` as a user types it, on a journal somebody meddled with."""

import sqlite3

import pytest

from mainjob.driver import Desk, write

pytestmark = pytest.mark.service("bubblewrap")


def test_a_journal_is_vouched_for_until_somebody_changes_it(desk: Desk) -> None:
    assert desk.run(write("x", "x\n")).code == 0
    applied = desk.agents("plan", "apply")
    head = applied.data["journal_head"]
    whole = desk.agents("plan", "verify", "--head", head[:12])
    assert (whole.code, whole.data["problems"]) == (0, [])
    assert whole.data["head"] == head
    assert head in desk.agents("plan", "status", is_json=False).out.decode()
    assert desk.agents("plan", "verify", "--head", "").code == 2

    connection = sqlite3.connect(desk.folder / "state" / "patchyard.db")
    with connection:
        connection.execute("UPDATE events SET at = at - 3600 WHERE type = 'Applied'")
    connection.close()
    broken = desk.agents("plan", "verify")
    assert (broken.code, broken.body["error"]["code"]) == (1, "journal_broken")
    (problem,) = broken.data["problems"]
    assert "(Applied) is not as it was written" in problem
    lines = desk.agents("plan", "verify", is_json=False)
    assert problem in lines.out.decode()


def test_the_head_that_apply_prints_shows_that_the_apply_was_cut_off(desk: Desk) -> None:
    assert desk.run(write("x", "x\n")).code == 0
    said = desk.agents("plan", "apply", is_json=False).out.decode()
    head = said.split("journal head: ")[1].split()[0]
    assert desk.agents("plan", "verify", "--head", head).code == 0

    connection = sqlite3.connect(desk.folder / "state" / "patchyard.db")
    with connection:
        (at,) = connection.execute("SELECT version FROM events WHERE type = 'Applied'").fetchone()
        connection.execute("DELETE FROM events WHERE version >= ?", (at,))
    connection.close()
    cut = desk.agents("plan", "verify", "--head", head)
    assert (cut.code, cut.body["error"]["code"]) == (1, "journal_broken")


def test_a_run_that_applies_prints_the_head(desk: Desk) -> None:
    script = desk.script(write("x", "x\n"), {"finish": "done"})
    words = ["run", "do it", "--model", f"scripted:{script}", "--apply", "worktree"]
    said = desk.agents(*words, is_json=False).out.decode()
    assert desk.agents("plan", "status").data["journal_head"] in said
