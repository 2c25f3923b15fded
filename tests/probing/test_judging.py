"""From two runs to a verdict."""

import os
from pathlib import Path

import pytest

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.probing import judging
from patchyard.probing.attack import Attack, Control, Group, Run, Verdict
from patchyard.probing.evidence import said
from patchyard.probing.judging import judge, without_root
from patchyard.probing.known import Known
from patchyard.probing.scene import Scene

ATTACK = Attack(name="a", group=Group.FILES, title="do it", script="x", evidence=said)
TOKEN = "t0ken"
HOST = ExecutionEnvironment.HOST


def run(*lines: str) -> Run:
    scene = Scene(
        group=Group.FILES,
        token=TOKEN,
        canary="",
        kept="",
        folder=Path(),
        place=Path(),
        given={},
    )
    return Run(scene=scene, text="\n".join(lines))


WORKED = run("began:t0ken", "done:t0ken it did")
REFUSED = run("began:t0ken", "refused: PermissionError: no")
SILENT = run("began:t0ken")
ABSENT = run("refused: python3: not found")


def test_what_works_outside_and_not_inside_is_held() -> None:
    found = judge(ATTACK, HOST, REFUSED, WORKED, known={})
    assert (found.verdict, found.note) == (Verdict.HELD, "PermissionError: no")


def test_what_works_inside_succeeded_whatever_the_control_says() -> None:
    for control in (WORKED, REFUSED):
        found = judge(ATTACK, HOST, WORKED, control, known={})
        assert (found.verdict, found.note) == (Verdict.SUCCEEDED, "it was carried out: it did")


def test_what_is_listed_for_the_kind_is_known_and_says_why() -> None:
    listed = {HOST: {"a": Known(why="no walls")}}
    found = judge(ATTACK, HOST, WORKED, WORKED, known=listed)
    assert (found.verdict, found.note) == (Verdict.KNOWN, "it was carried out: it did (no walls)")
    elsewhere = judge(ATTACK, ExecutionEnvironment.VM, WORKED, WORKED, known=listed)
    assert elsewhere.verdict is Verdict.SUCCEEDED


def test_what_works_nowhere_is_not_shown_and_says_what_refused_it() -> None:
    found = judge(ATTACK, HOST, REFUSED, REFUSED, known={})
    assert (found.verdict, found.note) == (
        Verdict.NOT_SHOWN,
        "nothing protects, and yet: PermissionError: no",
    )
    assert "came to nothing" in judge(ATTACK, HOST, REFUSED, SILENT, known={}).note


def test_what_never_ran_inside_is_not_held() -> None:
    found = judge(ATTACK, HOST, ABSENT, WORKED, known={})
    assert (found.verdict, found.note) == (
        Verdict.NOT_SHOWN,
        "it did not run inside: python3: not found",
    )


def test_a_word_of_another_run_counts_for_nothing() -> None:
    other = run("began:t0ken", "done:another it did")
    assert judge(ATTACK, HOST, other, WORKED, known={}).verdict is Verdict.HELD


@pytest.mark.parametrize("uid", [0, 1000])
def test_bait_that_needs_root_is_planted_by_root_alone(
    uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    attack = Attack(
        name="a",
        group=Group.PRIVILEGE,
        title="x",
        evidence=said,
        control=Control.AGENT,
        needs_root=True,
    )
    found = without_root(attack)
    assert (found is None) == (uid == 0)
    if found is not None:
        assert (found.verdict, found.note) == (Verdict.NOT_SHOWN, judging.NEEDS_ROOT)
    assert without_root(ATTACK) is None
