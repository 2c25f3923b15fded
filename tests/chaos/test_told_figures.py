"""What is counted of many tasks, and the page that gives it, say that their model is scripted."""

from pathlib import Path

import pytest

from chaos.faults import Outcome, figures

PAGE = Path(__file__).parents[2] / "docs/reference/requirements.md"
COUNTING = ("test_tasks_under_faults.py", "test_sloppy_model.py")  # tests that count ends of tasks


def test_the_counts_of_many_tasks_name_their_model() -> None:
    ended = [
        Outcome(faults=("reset",), lives=1, cause=""),
        Outcome(faults=("reset", "slip"), lives=2, cause="the engine's: died"),
        Outcome(faults=("engine killed",), lives=2, cause=""),
        Outcome(faults=("engine killed", "no call"), lives=3, cause=""),
    ]
    assert figures(ended) == {
        "model": "scripted by hand, over loopback HTTP",
        "tasks": 4,
        "faults": {"reset": 2, "slip": 1, "engine killed": 2, "no call": 1},
        "resumed": 3,
        "completed": 2,
        "helped": 1,
        "causes": {"the engine's: died": 1},
    }


@pytest.mark.parametrize("test", COUNTING)
def test_a_row_with_a_share_of_tasks_says_that_its_model_is_scripted(test: str) -> None:
    rows = [line for line in PAGE.read_text().splitlines() if f"/{test}::" in line]
    shares = [row for row in rows if "%" in row]
    assert shares
    assert [row for row in shares if "scripted" not in row] == []
