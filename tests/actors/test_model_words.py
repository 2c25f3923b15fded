"""What a model is told before it begins, and when it asks for a tool that there is not."""

from dataclasses import replace

import pytest

from patchyard.actors.prompting import opening
from patchyard.actors.reading import ELSEWHERE, nearest
from patchyard.contracts.actor import Brief
from patchyard.tools.toolset import toolset

PROMPT_CHARS = 1_700  # it stands in every request
NAMES = (*toolset("/w"), "finish")


def brief(phase: str) -> Brief:
    return Brief(
        plan_id="p",
        phase=phase,
        task="Mend it",
        workspace_path="/home/me/work tree",
        environment="process",
        tools=tuple(tool.spec for tool in toolset("/w").values()),
        definition_of_done=("tests pass",),
        invariants=("public names stay",),
        validation=("pytest -q",),
        strategy="1. look" if phase == "execute" else "",
    )


def test_the_one_who_executes_knows_the_place_the_rules_and_the_proof() -> None:
    system, task = (message.text for message in opening(brief("execute")))
    assert len(system) <= PROMPT_CHARS
    for words in (
        *("/home/me/work tree", "calls a tool", "finish", "failed=true", "old_string"),
        *("once", "read_output", "no network", "`cd`", "editors", "what the proof runs"),
    ):
        assert words in system
    for words in ("Mend it", "tests pass", "public names stay", "`pytest -q`", "1. look"):
        assert words in task


def test_what_can_be_reached_is_told_where_something_can() -> None:
    open_one = replace(brief("execute"), network=("a.example:443, through the proxy",))
    assert "# What commands can reach\n\n- a.example:443, through" in opening(open_one)[1].text
    assert "can reach" not in opening(brief("execute"))[1].text


def test_the_one_who_plans_knows_that_nothing_can_be_written() -> None:
    system, task = (message.text for message in opening(brief("strategize")))
    assert len(system) <= PROMPT_CHARS
    for words in ("/home/me/work tree", "cannot be written", "summary", "decisions", "finish"):
        assert words in system
    assert "`pytest -q`" in task
    assert "The plan" not in task


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("cat", "read_file"),
        ("str_replace_editor", "search_replace"),
        ("functions.bash", "execute_command"),
        ("createFile", "write_file"),
        ("attempt_completion", "finish"),
        ("write_fil", "write_file"),
    ],
)
def test_a_name_of_another_system_is_answered_with_ours(name: str, right: str) -> None:
    assert f"Did you mean {right}?" in nearest(name, NAMES)


def test_a_name_like_no_other_gets_the_list_alone() -> None:
    said = nearest("open_browser", NAMES)
    assert "Did you mean" not in said
    assert all(name in said for name in NAMES)


def test_every_hint_leads_to_a_tool() -> None:
    assert set(ELSEWHERE) <= set(NAMES)
    others = [name for names in ELSEWHERE.values() for name in names]
    assert len(others) == len(set(others))
    assert not set(others) & set(NAMES)
