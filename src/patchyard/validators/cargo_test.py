"""What `cargo test --message-format short` says: one finding a failed test, or a compiler's error.

The harness of Rust has no report of a stable form, so its lines are read.
"""

import re
from dataclasses import dataclass, field

from patchyard.domain.gate_findings import (
    MESSAGE_CHARS,
    MOST_FINDINGS,
    GateFinding,
    Outcome,
    Reading,
    UnreadableReport,
)
from patchyard.domain.gates import Gate, Severity
from patchyard.domain.report_paths import path_in_tree
from patchyard.validators.junit import MOST_TESTS
from patchyard.validators.text import lines_of, named_in

_RUNNING = re.compile(
    r" +(?:Running (?:unittests )?(?P<source>\S+) \((?P<program>.+)\)|Doc-tests (?P<crate>\S+))"
)
_HASH = re.compile(r"-[0-9a-f]{16}(?:\.exe)?$")
_BEGUN = re.compile(r"running \d+ tests?")
_TEST = re.compile(
    r"test (?P<name>.+?)(?: - should panic)? \.\.\. (?P<outcome>ok|FAILED|ignored)\b.*"
)
_SECTION = re.compile(r"---- (?P<name>.+?) stdout ----")
_ENDED = re.compile(r"test result: (?:ok|FAILED)\. ")
_PANICKED = re.compile(
    r"thread '.*' (?:\(\d+\) )?panicked at (?P<path>[^':]+):(?P<line>\d{1,9}):\d+:"
)
_PANICKED_OF_OLD = re.compile(
    r"thread '.*' panicked at '(?P<said>.*)', (?P<path>[^':]+):(?P<line>\d{1,9}):\d+"
)
_QUIET = re.compile(
    r"(?P<said>note: test did not panic as expected) at (?P<path>.+):(?P<line>\d{1,9}):\d+"
)
_RETURNED = re.compile(r"Error: .*")
_OF_DOC = re.compile(r"(?P<path>\S+) - .*\(line (?P<line>\d{1,9})\)")
_LINED = re.compile(r" \(line \d{1,9}\)")  # a documentation test moves, and is the same
_TARGET = re.compile(r"error: (?:doc)?test failed, to rerun pass .*")
_OUTCOMES = {"FAILED": Outcome.FAILED, "ignored": Outcome.SKIPPED, "ok": Outcome.PASSED}


class CargoTestReader:
    """contracts.validator.ReportReader: failed tests by crate, source and name."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return the failures and what became of each test; raises UnreadableReport."""
        del gate
        heard = _Heard(root)
        for line in lines_of(report):
            heard.line(line)
        return heard.reading()


@dataclass(kw_only=True)
class _Program:
    """One program of tests."""

    name: str
    tests: dict[str, Outcome] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)  # by test that failed
    is_open: bool = False  # it began, and has not said what it came to
    is_failed: bool = False  # cargo says so


class _Heard:
    """Puts together what is said of each program and its tests."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._programs: list[_Program] = []
        self._section: list[str] | None = None  # what the failed test says whose turn it is
        self._errors: list[GateFinding] = []

    def line(self, line: str) -> None:
        """Take a line."""
        if running := _RUNNING.fullmatch(line):
            self._programs.append(_Program(name=_named(running)))
            self._section = None
        elif self._programs:
            self._of_program(self._programs[-1], line)
        elif (found := named_in(line, self._root)) and found.severity == Severity.ERROR:
            self._errors.append(found)
            if len(self._errors) > MOST_FINDINGS:
                raise UnreadableReport(f"it holds more than {MOST_FINDINGS:,} errors")

    def _of_program(self, program: _Program, line: str) -> None:
        if section := _SECTION.fullmatch(line):
            name = section["name"].removesuffix(" - should panic")
            program.tests[name] = Outcome.FAILED
            self._section = program.said.setdefault(name, [])
        elif _ENDED.match(line) or _TARGET.fullmatch(line):
            program.is_open = program.is_open and not _ENDED.match(line)
            program.is_failed = program.is_failed or not _ENDED.match(line)
            self._section = None
        elif self._section is not None:
            self._section.append(line)
        elif _BEGUN.fullmatch(line):
            program.is_open = True
        elif test := _TEST.fullmatch(line):
            outcome = _OUTCOMES[test["outcome"]]
            if program.tests.get(test["name"]) != Outcome.FAILED:
                program.tests[test["name"]] = outcome
            if len(program.tests) > MOST_TESTS:
                raise UnreadableReport(f"it holds more than {MOST_TESTS:,} tests")

    def reading(self) -> Reading:
        """Return what all of it comes to."""
        found, tests = list(self._errors), dict[str, Outcome]()
        for program in self._programs:
            for name, outcome in program.tests.items():
                known = f"{program.name}::{_LINED.sub('', name)}"[:MESSAGE_CHARS]
                if tests.get(known) != Outcome.FAILED:
                    tests[known] = outcome
                if outcome == Outcome.FAILED:
                    found.append(self._failed(known, name, program.said.get(name, [])))
            has_failed = Outcome.FAILED in program.tests.values()
            if program.is_open or (program.is_failed and not has_failed):
                said = f"{program.name}: it did not get to its end"
                found.append(_finding(program.name, said, "crashed"))
            if len(found) > MOST_FINDINGS:
                raise UnreadableReport(f"it holds more than {MOST_FINDINGS:,} failures")
        return Reading(findings=tuple(found), tests=tests)

    def _failed(self, known: str, name: str, said: list[str]) -> GateFinding:
        path, line, text = self._placed(name, said)
        return _finding(known, f"{known}: {text}".rstrip(": "), "failed", path, line)

    def _placed(self, name: str, said: list[str]) -> tuple[str, int, str]:
        """Return the first place in the tree that a failed test names, and what is said there."""
        text = ""
        for number, line in enumerate(said):
            place = _PANICKED.match(line) or _PANICKED_OF_OLD.match(line) or _QUIET.match(line)
            if place is None:
                text = text or (line if _RETURNED.match(line) else "")
                continue
            after = said[number + 1] if number + 1 < len(said) else ""
            told = place["said"] if "said" in place.groupdict() else after
            if path := path_in_tree(place["path"], self._root):
                return (path, int(place["line"]), told)
            text = text or told
        if of_doc := _OF_DOC.match(name):
            path = path_in_tree(of_doc["path"], self._root)
            return (path, int(of_doc["line"]) if path else 0, text)
        return ("", 0, text)


def _named(running: re.Match[str]) -> str:
    """Return what a program is called: crates of one name have several."""
    if running["crate"]:
        return f"{running['crate']} (documentation)"
    crate = _HASH.sub("", running["program"].replace("\\", "/").rpartition("/")[2])
    return f"{crate} ({running['source']})"


def _finding(subject: str, message: str, rule: str, path: str = "", line: int = 0) -> GateFinding:
    return GateFinding(
        path=path,
        line=line,
        rule=rule,
        severity=Severity.ERROR,
        message=message[:MESSAGE_CHARS],
        subject=subject,
    )


__all__ = ["CargoTestReader"]
