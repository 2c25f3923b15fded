"""The lines with which test runners end: how many tests each of them says that it ran."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LONGEST = 500  # characters of a line that is looked at: programs of others write what they like
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_WORD = re.compile(r"(\d+) ([a-z]+)")
_RAN = frozenset({"failed", "failing", "passed", "passing", "xfailed", "xpassed"})

Closing = Mapping[str, tuple[int, ...]]  # tests that ran by each closing line, by runner


def _ran(found: re.Match[str]) -> int:
    """Return the tests that a list such as `1 failed, 3 passed, 2 skipped` says ran."""
    return sum(int(number) for number, word in _WORD.findall(found[1]) if word in _RAN)


def _first(found: re.Match[str]) -> int:
    return int(found[1])


def _without(found: re.Match[str]) -> int:
    """Return the first number less the second, which counts those that were skipped."""
    return int(found[1]) - int(found[2] or 0)


def _one(_: re.Match[str]) -> int:
    return 1


@dataclass(frozen=True, kw_only=True)
class _Form:
    """One line of a runner; all that fit count together."""

    runner: str
    line: str  # a regular expression over a whole line
    count: Callable[[re.Match[str]], int]


_LIST = r"\d+ [a-z]+(?:, \d+ [a-z]+)*"
_FORMS = (
    _Form(
        runner="pytest",
        line=rf"(?:=+ )?({_LIST}|no tests ran)(?: in [\d.]+s(?: \([\d:]+\))?)(?: =+)?",
        count=_ran,
    ),
    _Form(
        runner="unittest",
        line=r"Ran (\d+) tests? in [\d.]+s\n+(?:OK|FAILED|NO TESTS RAN)(?: \((?:[a-z ]+=\d+, )*?"
        r"(?:skipped=(\d+)(?:, [a-z ]+=\d+)*|[a-z ]+=\d+)\))?",
        count=_without,
    ),
    _Form(runner="jest", line=rf"Tests: +({_LIST})", count=_ran),
    _Form(
        runner="vitest",
        line=r" *Tests  +((?:\d+ [a-z]+(?: \| )?)+|no tests)(?: \(\d+\))?",
        count=_ran,
    ),
    _Form(runner="mocha", line=r" +(\d+ (?:passing|failing))(?: \(\d+\w+\))?", count=_ran),
    _Form(runner="node", line="(?:# |\u2139 )(?:pass|fail) (\\d+)", count=_first),
    _Form(
        runner="go",
        line=r"(?:ok|FAIL) +\t\S+\t(?:[\d.]+s|\(cached\))(?:\tcoverage: .*)?",
        count=_one,
    ),
    _Form(runner="go (verbose)", line=r" *--- (?:PASS|FAIL): \S+ \([\d.]+s\)", count=_one),
    _Form(
        runner="cargo",
        line=r"test result: (?:ok|FAILED)\. (\d+ passed; \d+ failed); .*",
        count=_ran,
    ),
    _Form(
        runner="Maven",
        line=r"(?:\[\w+\] )?Tests run: (\d+), Failures: \d+, Errors: \d+, Skipped: (\d+)",
        count=_without,
    ),
    _Form(runner="rspec", line=r"(\d+) examples?, \d+ failures?(?:, .*)?", count=_first),
    _Form(runner="minitest", line=r"(\d+) runs, \d+ assertions, .*", count=_first),
    _Form(runner="phpunit", line=r"OK \((\d+) tests?, \d+ assertions?\)", count=_first),
    _Form(runner="phpunit", line=r"Tests: (\d+), Assertions: \d+.*", count=_first),
    _Form(
        runner="ctest",
        line=r"\d+% tests passed, \d+ tests? failed out of (\d+)",
        count=_first,
    ),
)  # fmt: skip
_COMPILED = tuple((form, re.compile(rf"^{form.line}[ \t\r]*$", re.MULTILINE)) for form in _FORMS)
# Runners that close with a line for each test, package, or way to end.
_BY_PARTS = frozenset({"cargo", "go", "go (verbose)", "Maven", "mocha", "node"})


def closing(output: str) -> Closing:
    """Return how many tests each line of a runner in `output` says that it ran.

    Tests that it skipped do not count. A runner that printed no closing line is not in the answer.
    Go says packages, and tests beside them where it is verbose.
    """
    lines = _COLOUR.sub("", output).split("\n")
    text = "\n".join(line if len(line) <= LONGEST else "" for line in lines)
    found: dict[str, tuple[int, ...]] = {}
    for form, line in _COMPILED:
        counts = tuple(form.count(match) for match in line.finditer(text))
        if counts:
            found[form.runner] = (*found.get(form.runner, ()), *counts)
    return found


def missing_tests(
    before: Closing, after: Closing, *, has_passed: bool, is_counted: bool = True
) -> str:
    """Return what the runners say of the base and not of the result; empty where nothing lacks.

    Without `is_counted` fewer tests are no lack, only a runner that says nothing at all. A base
    that has not passed may show the output of a test in which a runner ran: of those that close
    with one line the largest counts, not their sum.
    """
    for runner, counts in sorted(before.items()):
        wanted = sum(counts) if has_passed or runner in _BY_PARTS else max(counts)
        if runner not in after:
            said = _counted(runner, wanted)
            return f"{runner} said on the base that {said} ran, and printed no closing line here"
        ran = sum(after[runner])
        if is_counted and ran < wanted:
            said = _counted(runner, ran)
            return (
                f"{runner} ran {said} here and {wanted} on the base, and no test was changed"
                " (--allow-path of a changed source file says that fewer may run)"
            )
    return ""


def _counted(runner: str, count: int) -> str:
    unit = "package" if runner == "go" else "test"
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


__all__ = ["LONGEST", "Closing", "closing", "missing_tests"]
