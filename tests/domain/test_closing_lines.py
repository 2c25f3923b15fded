"""What test runners print at their end, and what of it a result has to show too."""

import pytest

from patchyard.domain.closing_lines import closing, missing_tests

# As the runners print them: the versions that the figures of docs/reference/gates.md name.
LINES = {
    "5 passed in 0.01s": {"pytest": (5,)},
    "== 1 failed, 4 passed, 2 skipped, 1 warning in 0.12s ==": {"pytest": (5,)},
    "====== 1 passed in 75.20s (0:01:15) ======": {"pytest": (1,)},
    "no tests ran in 0.01s": {"pytest": (0,)},
    "Ran 3 tests in 0.001s\n\nOK": {"unittest": (3,)},
    "Ran 3 tests in 0.001s\n\nOK (skipped=1)": {"unittest": (2,)},
    "Ran 4 tests in 0.1s\n\nFAILED (failures=1, skipped=1, expected failures=1)": {
        "unittest": (3,)
    },
    "Tests:       1 failed, 1 skipped, 2 passed, 4 total": {"jest": (3,)},
    " \x1b[2m     Tests \x1b[22m \x1b[1m\x1b[32m2 passed\x1b[39m\x1b[22m\x1b[90m (2)\x1b[39m": {
        "vitest": (2,)
    },
    "      Tests  1 failed | 2 passed (3)": {"vitest": (3,)},
    "  3 passing (5ms)\n  1 pending\n  1 failing\n": {"mocha": (3, 1)},
    "# tests 3\n# pass 2\n# fail 1": {"node": (2, 1)},
    "\u2139 tests 2\n\u2139 pass 2\n\u2139 fail 0": {"node": (2, 0)},
    "ok  \texample.com/a\t0.003s\nok  \texample.com/b\t(cached)": {"go": (1, 1)},
    "?   \texample.com/a\t[no test files]": {},
    "ok  \texample.com/a\t0.1s [no tests to run]": {},
    "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; finished in 0.00s": {
        "cargo": (2,)
    },
    "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1": {"Maven": (2,)},
    "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0.1 s - in A": {},
    "3 examples, 1 failure": {"rspec": (3,)},
    "4 runs, 5 assertions, 0 failures, 0 errors, 0 skips": {"minitest": (4,)},
    "OK (3 tests, 5 assertions)": {"phpunit": (3,)},
    "100% tests passed, 0 tests failed out of 7": {"ctest": (7,)},
    "I passed in 3 s, and 5 passed": {},
    "": {},
}


@pytest.mark.parametrize("text", LINES)
def test_a_closing_line_says_how_many_tests_ran(text: str) -> None:
    assert closing(f"before\n{text}\nafter\n") == LINES[text]


def test_a_runner_of_the_base_that_says_nothing_here_is_missing() -> None:
    said = missing_tests({"pytest": (3,)}, {}, has_passed=True, is_counted=False)
    assert said == "pytest said on the base that 3 tests ran, and printed no closing line here"


@pytest.mark.parametrize(
    ("before", "after", "has_passed", "is_counted", "is_missing"),
    [
        ((3,), (3,), True, True, False),
        ((3,), (2,), True, True, True),
        ((3,), (2,), True, False, False),
        ((3, 2), (4,), True, True, True),
        ((3, 2), (4,), False, True, False),  # the second may be in the output of a test
        ((3, 2), (2,), False, True, True),
        ((0,), (0,), True, True, False),
    ],
)
def test_fewer_tests_are_missing_where_no_test_was_changed(
    before: tuple[int, ...],
    after: tuple[int, ...],
    has_passed: bool,
    is_counted: bool,
    is_missing: bool,
) -> None:
    said = missing_tests(
        {"pytest": before}, {"pytest": after}, has_passed=has_passed, is_counted=is_counted
    )
    assert bool(said) is is_missing


def test_each_line_of_a_runner_by_parts_counts_where_the_base_fails_too() -> None:
    said = missing_tests({"node": (1, 1)}, {"node": (1, 0)}, has_passed=False)
    assert said.startswith("node ran 1 test here and 2 on the base, and no test was changed")


def test_long_output_is_read_in_its_own_length() -> None:
    lines = (
        "1 passed, " * 200_000,
        " " * 1_000_000,
        "Ran 1 test in 0.1s\n\nOK (" + "skipped=1, " * 90_000,
        "Tests  " + "1 failed | " * 90_000,
        "=" * 1_000_000,
        "3 passed in 0.1s",
    )
    assert closing("\n".join(lines)) == {"pytest": (3,)}
