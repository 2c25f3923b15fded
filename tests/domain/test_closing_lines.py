"""What test runners print at their end, and what of it a result has to show too."""

import pytest

from patchyard.domain.closing_lines import Closing, closing, missing_tests

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
    "1 passed, 3 subtests passed in 0.13s": {"pytest": (1,)},
    "== 1 passed in 90061.00s (1 day, 1:01:01) ==": {"pytest": (1,)},
    "[WARNING] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Flakes: 1": {"Maven": (2,)},
    "Ran 3 tests in 0.010s\n\nPASSED (successes=3)": {"unittest": (3,)},
    "Ran 1 test in 0.010s\n\nOK (skipped=5)": {"unittest": (0,)},
    "Ran 2 tests in 0.010s\n\nOK (SKIP=1)": {"unittest": (1,)},
    "100% tests passed out of 2": {"ctest": (2,)},
    "FAIL\texample.com/a\t0.003s": {"go": (1,)},
    "--- FAIL: TestA (0.00s)\nFAIL\texample.com/a\t0.003s": {"go": (1,)},
    "=== RUN   TestA\nhalf a line--- PASS: TestA (0.00s)": {"go (verbose)": (1,)},
    "": {},
}


@pytest.mark.parametrize("text", LINES)
def test_a_closing_line_says_how_many_tests_ran(text: str) -> None:
    assert closing(f"before\n{text}\nafter\n").ran == LINES[text]


def said(**counts: tuple[int, ...]) -> Closing:
    return Closing(ran=counts, last=next(iter(counts), ""))


def test_a_runner_of_the_base_that_says_nothing_here_is_missing() -> None:
    why = missing_tests(said(pytest=(3,)), said(), has_passed=True, is_touched=True)
    assert why.startswith("pytest said on the base that 3 tests ran, and printed no closing line")


@pytest.mark.parametrize(
    ("before", "after", "has_passed", "is_touched", "is_missing"),
    [
        ((3,), (3,), True, False, False),
        ((3,), (2,), True, False, True),
        ((3,), (2,), True, True, False),
        ((3,), (0,), True, True, True),  # none at all
        ((3, 2), (4,), True, False, True),
        ((3, 2), (4,), False, False, False),  # the second may be in the output of a test
        ((3, 2), (2,), False, False, True),
        ((0,), (0,), True, False, False),
    ],
)
def test_fewer_tests_are_missing_where_no_test_was_changed(
    before: tuple[int, ...],
    after: tuple[int, ...],
    has_passed: bool,
    is_touched: bool,
    is_missing: bool,
) -> None:
    why = missing_tests(
        said(pytest=before), said(pytest=after), has_passed=has_passed, is_touched=is_touched
    )
    assert bool(why) is is_missing


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1 failed, 1 passed in 0.21s", "1 passed, 1 xfailed in 0.21s"),
        ("2 passed in 0.21s", "1 passed, 1 xfailed, 1 warning in 0.21s"),
        ("1 passed, 1 xfailed in 0.21s", "2 xfailed in 0.21s"),
        ("Ran 2 tests in 0.1s\n\nOK", "Ran 2 tests in 0.1s\n\nOK (expected failures=1)"),
    ],
)
def test_a_test_that_is_newly_expected_to_fail_did_not_run(before: str, after: str) -> None:
    has_passed = " failed" not in before
    why = missing_tests(closing(before), closing(after), has_passed=has_passed)
    assert " beside 1 newly expected to fail, and 2 on the base" in why
    assert not missing_tests(closing(after), closing(after), has_passed=True)


def test_each_line_of_a_runner_by_parts_counts_where_the_base_fails_too() -> None:
    why = missing_tests(said(node=(1, 1)), said(node=(1, 0)), has_passed=False)
    assert why.startswith("node ran 1 test here and 2 on the base")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("--- FAIL: TestA (0.00s)\nFAIL\ta.b/c\t0.002s", "ok  \ta.b/c\t0.002s"),
        ("Ran 1 test in 0.001s\n\nOK\n1 failed, 3 passed in 0.1s", "4 passed in 0.1s"),
        ("[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0", ""),
        ("# pass 1\n# fail 1", "# pass 2\n# fail 0"),
        ("2 passed in 0.1s", "2 passed, 3 subtests passed in 0.1s"),
    ],
)
def test_an_honest_mend_lacks_nothing(before: str, after: str) -> None:
    has_passed = "fail" not in before.lower()
    assert not missing_tests(closing(before), closing(after), has_passed=has_passed)


@pytest.mark.parametrize(
    "after",
    [
        "Ran 2 tests in 0.001s\n\nFAILED (failures=1)",
        "1 failed, 1 passed in 0.21s",
        "# pass 1\n# fail 1",
        "--- FAIL: TestA (0.00s)\nFAIL\ta.b/c\t0.002s",
        "  1 passing (3ms)\n  1 failing",
        "Tests:       1 failed, 1 passed, 2 total",
        "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0",
        "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured",
        "3 examples, 1 failure",
    ],
)
def test_a_runner_that_says_that_tests_failed_has_not_passed(after: str) -> None:
    for has_passed in (True, False):
        why = missing_tests(Closing(), closing(after), has_passed=has_passed)
        assert "said that tests failed, and the command ended with 0" in why
    assert not missing_tests(closing(after), closing(after), has_passed=True)


def test_long_output_is_read_in_its_own_length() -> None:
    lines = (
        "1 passed, " * 200_000,
        " " * 1_000_000,
        "Ran 1 test in 0.1s\n\nOK (" + "skipped=1, " * 90_000,
        "Tests  " + "1 failed | " * 90_000,
        "=" * 1_000_000,
        "3 passed in 0.1s",
    )
    assert closing("\n".join(lines)).ran == {"pytest": (3,)}
