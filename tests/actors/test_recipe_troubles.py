"""What a recipe makes of tools that fail, and of a phase that ended before."""

from pathlib import Path
from typing import Any

import pytest

from actors.hands import Hands, begun, carried_out, recipe
from patchyard.domain.errors import UsageError

pytestmark = pytest.mark.anyio

REPLACE = {"replace": {"files": "*.txt", "pattern": "a", "with": "b"}}


class Clumsy(Hands):
    """Hands whose named tool always fails."""

    def __init__(self, root: Path, broken: str) -> None:
        super().__init__(root)
        setattr(self, f"_{broken}", self._fail)

    def _fail(self, **_: Any) -> dict[str, Any]:
        return {"success": False, "error": "IO_ERROR", "message": "the disk is broken"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "x.txt").write_text("a\n")
    return tmp_path


@pytest.mark.parametrize("tool", ["search_files", "read_file", "write_file"])
async def test_a_tool_that_fails_ends_the_work_with_its_words(root: Path, tool: str) -> None:
    final = (await carried_out(recipe(REPLACE), Clumsy(root, tool)))[-1][0]
    assert "the disk is broken" in final.failure
    assert final.failure.startswith("steps[0]")


async def test_a_condition_that_never_ran_chooses_nothing(root: Path) -> None:
    step = {"when": {"run": "true", "then": [{"fail": "no"}], "else": [{"fail": "no"}]}}
    final = (await carried_out(recipe(step), Clumsy(root, "execute_command")))[-1][0]
    assert "the disk is broken" in final.failure


async def test_a_plan_is_not_made_on_a_search_that_failed(root: Path) -> None:
    brief = recipe(REPLACE, phase="strategize")
    final = (await carried_out(brief, Clumsy(root, "search_files")))[-1][0]
    assert "the disk is broken" in final.failure


async def test_folders_that_cannot_be_listed_are_no_empty_folders(root: Path) -> None:
    hands = Clumsy(root, "list_directory")
    hands.cap = 0
    final = (await carried_out(recipe(REPLACE), hands))[-1][0]
    assert "the disk is broken" in final.failure


async def test_a_whole_life_can_be_restored_and_says_nothing_more(root: Path) -> None:
    whole = await carried_out(recipe(REPLACE), Hands(root))
    again = await carried_out(recipe(REPLACE), Hands(root), restored=[*whole, whole[-1]])
    assert [turn.calls for turn, _ in again][: len(whole)] == [turn.calls for turn, _ in whole]


async def test_steps_that_do_not_fit_are_refused_before_anything_was_done() -> None:
    with pytest.raises(UsageError, match=r"steps\[0\]\.rum"):
        await begun(recipe({"rum": "x"}))


async def test_the_forecast_names_steps_and_what_a_failure_would_mean(root: Path) -> None:
    step = {**REPLACE, "name": "tidy", "on_error": "continue"}
    absent = {"replace": {"files": "*.absent", "pattern": "a", "with": "b"}}
    brief = recipe(step, absent, phase="strategize")
    final = (await carried_out(brief, Hands(root)))[-1][0]
    assert final.proposals[0].choice == "tidy"
    assert "replace 'a' in *.txt" in final.proposals[0].rationale
    assert "goes on if it fails" in final.proposals[0].rationale
    assert "no file of that name" in final.proposals[1].rationale
