"""Which findings are new: neither old ones nor those whose lines only moved."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from patchyard.domain.gate_findings import GateFinding, Outcome, Reading, difference, with_texts
from patchyard.domain.gate_verdicts import Ground, Run, Status, Verdict, judged, shown_finding
from patchyard.domain.gates import Gate, Reach, Reads, Severity
from patchyard.domain.shipped_gates import SHIPPED

LINT = Gate(name="lint", command="x", reads=Reads.SARIF)
WHOLE = Ground(changed={"a.py": None})


def finding(line: int, rule: str = "E1", path: str = "a.py", message: str = "") -> GateFinding:
    return GateFinding(path=path, line=line, rule=rule, message=message)


def texted(findings: list[GateFinding], **files: list[str]) -> tuple[GateFinding, ...]:
    return with_texts(findings, {f"{name}.py": lines for name, lines in files.items()})


def new_of(
    before: tuple[GateFinding, ...], after: tuple[GateFinding, ...], **renamed: str
) -> list[tuple[str, int]]:
    moved = {f"{old}.py": f"{new}.py" for old, new in renamed.items()}
    found = difference(before, after, renamed=moved, is_changed=lambda each: each.line > 2)
    return [(each.path, each.line) for each in found.new]


def test_lines_that_moved_make_nothing_new() -> None:
    before = texted([finding(1), finding(3)], a=["bad()", "x", "worse()"])
    after = texted([finding(2), finding(9)], a=["", "bad()", *[""] * 6, "  worse()"])
    assert new_of(before, after) == []


def test_a_second_one_of_the_same_text_is_new_where_the_line_was_changed() -> None:
    before = texted([finding(1)], a=["bad()"])
    after = texted([finding(1), finding(5)], a=["bad()", "", "", "", "bad()"])
    assert new_of(before, after) == [("a.py", 5)]


def test_another_rule_in_the_same_line_and_an_edited_line_are_new() -> None:
    before = texted([finding(1)], a=["bad(1)"])
    after = texted([finding(1, "E2"), finding(3)], a=["bad(1)", "", "bad(2)"])
    assert new_of(before, after) == [("a.py", 1), ("a.py", 3)]


def test_what_a_rename_or_a_move_to_another_file_takes_along_is_old() -> None:
    before = texted([finding(1), finding(2)], a=["bad()", "worse()"])
    renamed = [finding(1, path="b.py"), finding(2, path="b.py")]
    after = with_texts(renamed, {"b.py": ["bad()", "worse()"]})
    assert new_of(before, after, a="b") == []
    moved = texted([finding(1, path="c.py")], c=["bad()"])
    assert new_of(before, moved) == []


def test_in_a_file_that_nobody_changed_the_line_says_which_it_is() -> None:
    before, after = texted([finding(4)]), texted([finding(4), finding(8)])
    assert new_of(before, after) == [("a.py", 8)]
    elsewhere = texted([finding(4, path="b.py")])
    assert new_of(before, elsewhere) == [("b.py", 4)], "a number alone moves nowhere"


@given(
    some.lists(some.tuples(some.sampled_from("xyz"), some.booleans()), max_size=12),
    some.lists(some.sampled_from(["", "#"]), max_size=8),
    some.integers(0, 12),
)
def test_whatever_is_put_between_nothing_old_becomes_new(
    lines: list[tuple[str, bool]], between: list[str], at: int
) -> None:
    base = [text for text, _ in lines]
    bad = [number for number, (_, is_bad) in enumerate(lines, 1) if is_bad]
    at = min(at, len(base))
    result = [*base[:at], *between, *base[at:]]
    shifted = [number + len(between) * (number > at) for number in bad]
    before = texted([finding(number) for number in bad], a=base)
    after = texted([finding(number) for number in shifted], a=result)
    assert new_of(before, after) == []


def verdict(gate: Gate, before: Run | None, after: Run, **more: Any) -> Verdict:
    return judged(gate, before, after, more.pop("ground", WHOLE), **more)


def runs(*findings: GateFinding, **tests: str) -> Run:
    outcomes = {name: Outcome(word) for name, word in tests.items()}
    return Run(reading=Reading(findings=findings, tests=outcomes))


def test_scope_changed_leaves_out_what_stands_on_other_lines_but_not_what_stands_nowhere() -> None:
    ground = Ground(changed={"a.py": frozenset({2})})
    gate = replace(LINT, scope=Reach.CHANGED)
    after = runs(finding(2), finding(3), finding(0, path=""), finding(0), finding(9, path="b.py"))
    said = judged(gate, runs(), after, ground)
    assert {(each.path, each.line) for each in said.findings} == {("a.py", 2), ("", 0), ("a.py", 0)}


def test_threshold_and_severity_say_how_much_may_be_new() -> None:
    notes = GateFinding(path="a.py", line=1, rule="n", severity=Severity.NOTE)
    assert verdict(replace(LINT, severity=Severity.WARNING), runs(), runs(notes)).passed
    two = runs(finding(1), finding(2, "E2"))
    assert verdict(replace(LINT, threshold=2), runs(), two).passed
    assert not verdict(replace(LINT, threshold=1), runs(), two).passed


def test_a_base_that_says_nothing_makes_all_new_and_is_told() -> None:
    said = verdict(LINT, Run(problem="it is no SARIF"), runs(finding(1)))
    assert (said.status, len(said.findings)) == (Status.FAILED, 1)
    assert "it is no SARIF" in said.notes[0]


@pytest.mark.parametrize("is_absent", [True, False])
def test_a_result_that_says_nothing_never_passes(*, is_absent: bool) -> None:
    said = verdict(LINT, runs(), Run(problem="no report", is_absent=is_absent))
    assert said.status == (Status.ABSENT if is_absent else Status.BROKEN)
    assert not said.passed


def failing(name: str) -> GateFinding:
    return GateFinding(path="t.py", line=3, rule="failed", subject=name, message=f"{name}: no")


def test_tests_that_fail_as_before_are_old_and_those_that_vanish_or_are_skipped_are_told() -> None:
    before = runs(failing("a"), a="failed", b="passed", c="passed")
    after = runs(failing("a"), a="failed", c="skipped")
    said = verdict(SHIPPED["pytest"], before, after, ground=replace(WHOLE, touches_tests=True))
    assert (said.passed, said.old) == (True, 1)
    assert said.notes == ("1 test (b) of the base did not run", "1 test (c) newly skipped")


@pytest.mark.parametrize("gate", ["pytest", "go-test", "cargo-test"])
def test_tests_that_ran_on_the_base_alone_are_found_where_none_was_changed(gate: str) -> None:
    before = runs(failing("a"), a="failed", b="passed", c="passed")
    after = runs(a="passed", c="skipped")
    said = verdict(SHIPPED[gate], before, after)
    assert [(each.rule, each.subject) for each in said.findings] == [
        ("did-not-run", "b"),
        ("did-not-run", "c"),
    ]
    changed = replace(WHOLE, touches_tests=True)
    assert verdict(SHIPPED[gate], before, after, ground=changed).passed
    held = verdict(SHIPPED[gate], before, runs(a="passed"), held=after, ground=changed)
    assert {each.subject for each in held.findings} == {"b", "c"}
    waived = replace(changed, is_waived=True)
    assert verdict(SHIPPED[gate], before, after, held=after, ground=waived).passed


@pytest.mark.parametrize(
    ("base", "here", "is_missing"),
    [
        ("tests.t::test_a[1]", "tests.t::test_a[2]", False),
        ("tests.t::test_a[1]", "tests.t::test_b[1]", True),
        ("s::[GET] a", "s::[PUT] b", True),
        ("m.TestA/one", "m.TestA/two", False),
        ("m.TestA/one", "m.TestB/one", True),
        ("tests.t", "tests.t::test_a", False),  # a file that could not be loaded
    ],
)
def test_of_a_test_with_cases_one_is_enough(base: str, here: str, is_missing: bool) -> None:
    said = verdict(SHIPPED["pytest"], runs(**{base: "passed"}), runs(**{here: "passed"}))
    assert said.passed is not is_missing


def test_what_passes_only_with_changed_tests_is_found_even_where_the_base_failed() -> None:
    before, after = runs(failing("a"), a="failed"), runs(a="passed")
    said = verdict(SHIPPED["pytest"], before, after, held=runs(failing("a"), a="failed"))
    assert [(each.rule, each.path, each.line) for each in said.findings] == [
        ("only-as-changed", "t.py", 3)
    ]
    both = verdict(SHIPPED["pytest"], before, before, held=before)
    assert both.passed, "it fails as it did, in either form"


def test_old_errors_of_a_compiler_prove_nothing_where_no_test_ran() -> None:
    unbuilt = runs(finding(1, "E0308"))
    said = verdict(SHIPPED["cargo-test"], unbuilt, unbuilt)
    assert (said.status, said.old) == (Status.BROKEN, 1)
    assert "no test ran" in said.problem
    new = verdict(SHIPPED["cargo-test"], runs(a="passed"), unbuilt)
    assert [(each.path, each.line) for each in new.findings] == [("a.py", 1)]
    one = verdict(SHIPPED["go-test"], unbuilt, runs(finding(1, "E0308"), a="passed"))
    assert one.passed, "another package was tested"


def test_an_error_of_a_compiler_in_the_tests_of_the_base_is_found_beside_old_ones() -> None:
    old = runs(finding(1, "E1"), a="passed")
    held = runs(finding(1, "E1"), replace(finding(2, "E2"), message="unknown name"), a="passed")
    said = verdict(SHIPPED["go-test"], old, old, held=held)
    assert [(each.rule, each.line) for each in said.findings] == [("only-as-changed", 2)]


def test_an_exit_code_is_judged_with_the_tests_of_the_base_too() -> None:
    gate = SHIPPED["npm-test"]
    assert verdict(gate, Run(exit_code=1), Run()).passed
    assert not verdict(gate, Run(), Run(exit_code=1)).passed
    said = verdict(gate, Run(exit_code=1), Run(), held=Run(exit_code=1))
    assert [each.rule for each in said.findings] == ["only-as-changed"]
    assert verdict(gate, Run(), Run(), held=Run()).passed


def covered(**lines: bool) -> Run:
    return Run(reading=Reading(lines={"a.py": {int(n[1:]): hit for n, hit in lines.items()}}))


def test_coverage_counts_the_changed_lines_and_names_those_that_do_not_run() -> None:
    ground = Ground(changed={"a.py": frozenset({2, 3, 4, 9})})
    after = covered(l1=False, l2=False, l3=False, l4=True, l9=False)
    said = judged(SHIPPED["coverage"], covered(l1=True), after, ground)
    assert [(each.line, each.message) for each in said.findings] == [
        (2, "lines 2-3 do not run"),
        (9, "line 9 does not run"),
    ]
    assert "25.0 % of the changed lines" in said.notes[0]
    enough = replace(SHIPPED["coverage"], threshold=25.0)
    assert judged(enough, None, after, ground).passed
    assert judged(SHIPPED["coverage"], None, after, Ground()).passed, "no line was changed"


def test_changed_files_that_the_coverage_report_does_not_know_are_named() -> None:
    changed = {"a.py": frozenset({1}), "src/b.py": None, "c.js": None, "gone.py": frozenset[int]()}
    said = judged(SHIPPED["coverage"], covered(l1=True), covered(l1=True), Ground(changed=changed))
    assert said.passed
    assert said.notes[-1] == "the report does not know src/b.py"


def test_coverage_of_all_lines_may_not_fall_by_more_than_is_allowed() -> None:
    gate = replace(SHIPPED["coverage"], scope=Reach.ALL)
    before, after = covered(l1=True, l2=True), covered(l1=True, l2=False)
    assert "100.0 % of all lines were covered, now 50.0 %" in str(verdict(gate, before, after))
    assert verdict(replace(gate, threshold=50.0), before, after).passed
    assert verdict(gate, None, after).passed, "nothing is known of the base"


@pytest.mark.parametrize(
    ("was", "now", "passed"),
    [((1.0, 9.0, 1.1), (1.2, 1.3, 8.0), True), ((1.0,), (1.6,), False), ((0.0,), (0.0,), True)],
)
def test_times_are_compared_by_the_middle_ones(
    was: tuple[float, ...], now: tuple[float, ...], *, passed: bool
) -> None:
    said = verdict(SHIPPED["performance"], Run(elapsed=was), Run(elapsed=now))
    assert said.passed is passed


def test_a_measure_that_was_nothing_and_one_that_is_missing() -> None:
    gate = Gate(name="size", command="wc", reads=Reads.NUMBER)
    numbers = [Run(reading=Reading(number=number)) for number in (0.0, 7.0)]
    assert not verdict(gate, numbers[0], numbers[1]).passed
    assert verdict(gate, None, numbers[1]).notes == ("there is nothing to compare with",)


def test_a_finding_is_shown_with_its_place() -> None:
    data = {"path": "a.py", "line": 3, "rule": "E1", "message": "bad"}
    assert shown_finding(data) == "a.py:3: E1: bad"
    assert shown_finding({"path": None, "rule": "slower", "message": "x"}) == "slower: x"
