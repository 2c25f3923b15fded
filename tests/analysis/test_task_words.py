"""What a task's own words say: its kind, its points, the files it names, how large it looks."""

import pytest

from patchyard.domain.analysis import Complexity, TaskKind
from patchyard.domain.task_words import (
    REQUIREMENT_CHARS,
    REQUIREMENTS,
    analysed,
    named_in,
    requirements_of,
)
from timing import require_linear


@pytest.mark.parametrize(
    ("task", "kind", "because"),
    [
        ("pages() loses the last page; mend it", TaskKind.BUGFIX, ("loses", "mend")),
        ("Add a --json option to `shop list`", TaskKind.FEATURE, ("add", "option")),
        ("Rename Stock to Warehouse", TaskKind.REFACTOR, ("rename",)),
        ("Write tests for pages()", TaskKind.TESTS, ("tests",)),
        ("Add tests for the parser", TaskKind.TESTS, ("tests",)),
        ("Fix a typo in the docs", TaskKind.DOCUMENTATION, ("typo", "docs")),
        ("Update the README", TaskKind.DOCUMENTATION, ("readme",)),
        ("Fix the failing test", TaskKind.BUGFIX, ("fix", "failing")),
        ("The readme has typos", TaskKind.DOCUMENTATION, ("readme", "typos")),
        ("Bump click to 8.2", TaskKind.MAINTENANCE, ("bump",)),
        ("What does stock.py do?", TaskKind.QUESTION, ("what",)),
        ("Explain the queue", TaskKind.QUESTION, ("explain",)),
        ("How it works is wrong: fix", TaskKind.BUGFIX, ("wrong", "fix")),
        ("Review the last commit", TaskKind.REVIEW, ("review",)),
        ("Decide between two queues", TaskKind.DESIGN, ("decide",)),
        ("shop", TaskKind.UNKNOWN, ()),
        ("", TaskKind.UNKNOWN, ()),
        ("shop\n```\nerror: crash\n```\nrename it", TaskKind.REFACTOR, ("rename",)),
    ],
)
def test_the_kind_is_guessed_by_words_that_are_told(
    task: str, kind: TaskKind, because: tuple[str, ...]
) -> None:
    found = analysed(task)
    assert (found.kind, found.because) == (kind, because)


def test_the_points_of_a_list_are_the_requirements() -> None:
    task = "Do this, you must:\n\n- one\n  * [ ] two  words\n3) three\n```\n- code\n```\n- one\n"
    assert requirements_of(task) == ("one", "two words", "three")


def test_without_a_list_sentences_that_demand_are_and_else_the_first_line() -> None:
    assert requirements_of("Add it. It must print one object. Nice. Never change b.") == (
        "It must print one object.",
        "Never change b.",
    )
    assert requirements_of("\nAdd it.\nNow.") == ("Add it.",)
    assert requirements_of("") == ()


def test_points_are_bounded_in_number_and_length() -> None:
    found = requirements_of("\n".join(f"- {number} {'x' * 900}" for number in range(90)))
    assert len(found) == REQUIREMENTS
    assert {len(each) for each in found} == {REQUIREMENT_CHARS}


def test_a_file_is_named_whole_by_its_end_or_by_a_name_that_only_it_has() -> None:
    paths = ["src/stock.py", "a/x.py", "b/x.py", "docs/read me.md", "Makefile"]
    assert named_in("See stock.py, ./a/x.py and src/stock.py.", paths) == ("src/stock.py", "a/x.py")
    assert named_in("x.py is one of two; Makefile has no mark", paths) == ()


def test_many_names_in_many_files_that_are_called_alike_are_found_at_once() -> None:
    def found(size: int) -> None:
        paths = [f"p{number}/__init__.py" for number in range(size)]
        task = " ".join(f"q{number}/__init__.py" for number in range(size // 8)) + " p7/__init__.py"
        assert named_in(task, paths) == ("p7/__init__.py",)

    require_linear(found, 24_000)


def test_the_complexity_rests_on_figures_that_are_told() -> None:
    small = analysed("Mend it")
    assert (small.complexity, small.figures["words"]) == (Complexity.LOW, 2)
    points = "\n".join(f"- point {number}" for number in range(5))
    assert analysed(points).complexity == Complexity.MEDIUM
    many = "\n".join(f"- point {number} across all threads" for number in range(40))
    found = analysed(many, ["a", "b", "c", "d"], files=9000)
    assert found.complexity == Complexity.HIGH
    assert found.figures == {
        "requirements": REQUIREMENTS,
        "words": 240,
        "named_files": 4,
        "wide_words": 3,
        "repository_files": 9000,
    }
