"""The lines with which test runners end: how many tests each of them says that it ran."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from patchyard.domain.control_sequences import SEQUENCE

LONGEST = 500  # characters of a line that is looked at: programs of others write what they like
MOST_READ = 4_000_000  # characters of an output, its end
_WAIVED = "--allow-path of a changed file of source code or data lets that pass"
_ITEM = re.compile(r"(\d+) ([a-z]+(?: [a-z]+)*)")
_RAN = frozenset({"failed", "failing", "passed", "passing", "xfailed", "xpassed"})


def _ran(found: re.Match[str]) -> int:
    """Return the tests that a list such as `1 failed, 3 passed, 2 skipped` says ran."""
    return sum(int(number) for number, word in _ITEM.findall(found[1]) if word in _RAN)


def _first(found: re.Match[str]) -> int:
    return int(found[1])


def _without(found: re.Match[str]) -> int:
    """Return the first number less the second, which counts those that were skipped."""
    return max(0, int(found[1]) - int(found[2] or 0))


def _one(_: re.Match[str]) -> int:
    return 1


@dataclass(frozen=True, kw_only=True)
class _Form:
    """One line of a runner; all that fit count together."""

    runner: str
    line: str  # a regular expression over a whole line
    count: Callable[[re.Match[str]], int]
    needs: str = ""  # what else the output holds where the line is a closing one


_LIST = r"\d+ [a-z]+(?: [a-z]+)*(?:, \d+ [a-z]+(?: [a-z]+)*)*"
_FORMS = (
    _Form(
        runner="pytest",
        line=rf"(?:=+ )?({_LIST}|no tests ran)(?: in [\d.]+s(?: \((?:\d+ days?, )?[\d:]+\))?)"
        r"(?: =+)?",
        count=_ran,
    ),
    _Form(
        runner="unittest",
        line=r"Ran (\d+) tests? in [\d.]+s\n+(?:OK|PASSED|FAILED|NO TESTS RAN)"
        r"(?: \((?:[A-Za-z ]+=\d+, )*?"
        r"(?:(?:skipped|SKIP|skips)=(\d+)(?:, [A-Za-z ]+=\d+)*|[A-Za-z ]+=\d+)\))?",
        count=_without,
    ),
    _Form(runner="jest", line=rf"Tests: +({_LIST})", count=_ran),
    _Form(
        runner="vitest",
        line=r" *Tests  +((?:\d+ [a-z]+(?: [a-z]+)*(?: \| )?)+|no tests)(?: \(\d+\))?",
        count=_ran,
    ),
    _Form(runner="mocha", line=r" +(\d+ (?:passing|failing))(?: \(\d+\w+\))?", count=_ran),
    _Form(runner="node", line="(?:# |\u2139 )(?:pass|fail) (\\d+)", count=_first),
    _Form(
        runner="go",
        line=r"(?:ok|FAIL) *\t\S+\t(?:[\d.]+s|\(cached\))(?:\tcoverage: .*)?",
        count=_one,
    ),
    _Form(
        runner="go (verbose)",
        line=r".*--- (?:PASS|FAIL): \S+ \([\d.]+s\)",
        count=_one,
        needs="=== RUN ",  # what fails is said without -v too
    ),
    _Form(
        runner="cargo",
        line=r"test result: (?:ok|FAILED)\. (\d+ passed; \d+ failed); .*",
        count=_ran,
    ),
    _Form(
        runner="Maven",
        line=r"(?:\[\w+\] )?Tests run: (\d+), Failures: \d+, Errors: \d+, Skipped: (\d+)"
        r"(?:, Flakes: \d+)?",
        count=_without,
    ),
    _Form(runner="rspec", line=r"(\d+) examples?, \d+ failures?(?:, .*)?", count=_first),
    _Form(runner="minitest", line=r"(\d+) runs, \d+ assertions, .*", count=_first),
    _Form(runner="phpunit", line=r"OK \((\d+) tests?, \d+ assertions?\)", count=_first),
    _Form(runner="phpunit", line=r"Tests: (\d+), Assertions: \d+.*", count=_first),
    _Form(
        runner="ctest",
        line=r"\d+% tests passed(?:, \d+ tests? failed)? out of (\d+)",
        count=_first,
    ),
)  # fmt: skip
_COMPILED = tuple((form, re.compile(rf"^{form.line}[ \t\r]*$", re.MULTILINE)) for form in _FORMS)
# Runners that close with a line for each test, package, or way to end.
_BY_PARTS = frozenset({"cargo", "go", "go (verbose)", "Maven", "mocha", "node"})
_OF_GO = {"go", "go (verbose)"}
_MAYBE_QUIET = frozenset({"Maven", "ctest"})  # may say nothing where all is well (-q)
# Tests that failed as they were expected to: pytest's and unittest's words for them.
_EXCUSED = re.compile(r"\b(\d+) xfailed\b|\bexpected failures=(\d+)")
_FAILED = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:failed|failing|failures?|errors?)\b|\b(?:Failures|Errors): [1-9]"
    r"|\bfail [1-9]|\bFAILED\b|\bFAIL\b"
)


@dataclass(frozen=True, kw_only=True)
class Closing:
    """What the runners in an output say at their end."""

    ran: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Tests that ran by each closing line, by runner; Go says packages, and tests with -v."""
    last: str = ""  # the runner that spoke last: others may have run within its tests
    failed: frozenset[str] = frozenset()  # runners that say that tests failed
    excused: Mapping[str, int] = field(default_factory=dict)
    """Tests among those that ran which failed as they were expected to, by runner."""


def closing(output: str) -> Closing:
    """Return what test runners say at the end of `output`, without the tests they skipped.

    A runner that printed no closing line is not in the answer; one that ran nothing has 0. Of
    runners that close with one line the last says whether tests failed.
    """
    lines = SEQUENCE.sub("", output[-MOST_READ:]).split("\n")
    text = "\n".join(line if len(line) <= LONGEST else "" for line in lines)
    found: dict[str, tuple[int, ...]] = {}
    failed: set[str] = set()
    excused: dict[str, int] = {}
    last = (0, "")
    for form, line in _COMPILED:
        matches = [*line.finditer(text)] if form.needs in text else []
        if not matches:
            continue
        found[form.runner] = (*found.get(form.runner, ()), *map(form.count, matches))
        last = max(last, (matches[-1].end(), form.runner))
        if count := sum(_excused(match[0]) for match in matches):
            excused[form.runner] = excused.get(form.runner, 0) + count
        telling = matches if form.runner in _BY_PARTS else matches[-1:]
        if any(_FAILED.search(match[0]) for match in telling):
            failed.add(form.runner)
    return Closing(ran=found, last=last[1], failed=frozenset(failed), excused=excused)


def _excused(line: str) -> int:
    return sum(int(found[1] or found[2]) for found in _EXCUSED.finditer(line))


def missing_tests(
    before: Closing,
    after: Closing,
    *,
    has_passed: bool,
    is_touched: bool = False,
    is_cut: bool = False,
) -> str:
    """Return why a command that ended well proves nothing, by what runners say; empty for nothing.

    `has_passed` says whether it ended well on the base. With `is_touched` tests were changed, so
    that fewer may run; where the output `is_cut`, lines of it may be missing. A base that has not
    passed may show the output of tests, in which other runners ran: the one that spoke last
    counts, and of those that close with one line the largest number. A test that is expected to
    fail here, and was not on the base, did not run: code under test can say that of its own test.
    """
    if after.failed and not (has_passed and before.failed):
        return f"{min(after.failed)} said that tests failed, and the command ended with 0"
    wanted = before.ran
    if not has_passed:
        wanted = {
            runner: counts if runner in _BY_PARTS else (max(counts),)
            for runner, counts in before.ran.items()
            if (runner == before.last or {runner, before.last} <= _OF_GO)
            and runner not in _MAYBE_QUIET
        }
    for runner, counts in sorted(wanted.items()):
        most = sum(counts)
        said = _counted(runner, most)
        if runner not in after.ran:
            return (
                f"{runner} said on the base that {said} ran, and printed no closing line here"
                f" ({_WAIVED})"
            )
        newly = max(0, after.excused.get(runner, 0) - before.excused.get(runner, 0))
        ran = max(0, sum(after.ran[runner]) - newly)
        is_counted = not is_touched and not (is_cut and runner in _BY_PARTS)
        if ran < most and (is_counted or not ran):
            beside = f" beside {newly} newly expected to fail," if newly else ""
            return (
                f"{runner} ran {_counted(runner, ran)} here{beside} and {most} on the base"
                f" ({_WAIVED})"
            )
    return ""


def _counted(runner: str, count: int) -> str:
    unit = "package" if runner == "go" else "test"
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


__all__ = ["LONGEST", "MOST_READ", "Closing", "closing", "missing_tests"]
