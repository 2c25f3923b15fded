"""What `go test -json` says, with the errors of the compiler between: one finding a failed test.

Lines of a test name a file without its folder, so `go list` says before where packages lie:
`{"ImportPath": "example.org/shop", "Dir": "/home/ada/shop"}`.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from patchyard.toolbox.wire import loaded
from patchyard.validators.junit import MOST_TESTS
from patchyard.validators.text import LONGEST, named_in

MOST_SAID = 200  # lines of one test that are kept, its last ones
_SAID = re.compile(r"\s+(?P<file>[^\s:/]+\.go):(?P<line>\d{1,9}): ?(?P<said>.*)")  # by t.Error
_FRAME = re.compile(r"\t(?P<path>/.+\.go):(?P<line>\d{1,9}) \+0x[0-9a-f]+")
_PANIC = re.compile(r"\s*(?P<said>panic: .*)")
_UNBUILT = re.compile(r"FAIL\t(?P<package>\S+) \[(?:build|setup) failed\]")
_BLAMED = re.compile(r"# (?P<package>\S+)")  # before what the compiler says of a package
_NOISE = re.compile(r"\s*(?:---|===) |FAIL\b|PASS\b|coverage: ")
_PASSED = re.compile(r"--- PASS: ")  # what the program under test writes itself
_OUTCOMES = {"fail": Outcome.FAILED, "pass": Outcome.PASSED, "skip": Outcome.SKIPPED}


class GoTestReader:
    """contracts.validator.ReportReader: failed tests by package and name."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return the failures and what became of each test; raises UnreadableReport."""
        del gate
        heard = _Heard(root)
        for line in report.decode("utf-8", "replace").splitlines():
            event = _event(line)
            if event is None:
                heard.compiler(line[:LONGEST].rstrip())
            else:
                heard.event(event)
        return heard.reading()


def _event(line: str) -> Mapping[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = loaded(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _word(event: Mapping[str, Any], key: str) -> str:
    value = event.get(key)
    return value[:LONGEST] if isinstance(value, str) else ""


class _Heard:
    """Puts together what is said of each test and each package."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: dict[str, str] = {}  # by package
        self._said: dict[tuple[str, str], list[str]] = {}  # by package and test
        self._tests: dict[tuple[str, str], Outcome] = {}
        self._ended: set[tuple[str, str]] = set()  # tests of which the program itself said so
        self._failed: dict[str, str] = {}  # packages that failed, with what was said of them
        self._blamed: set[str] = set()  # packages that the compiler placed an error in
        self._package = ""  # that the compiler speaks of
        self._errors: list[GateFinding] = []

    def compiler(self, line: str) -> None:
        """Take a line that is no event."""
        if unbuilt := _UNBUILT.fullmatch(line):
            self._failed.setdefault(unbuilt["package"], line.replace("\t", " "))
        elif blamed := _BLAMED.match(line):
            self._package = blamed["package"]
        elif (found := named_in(line, self._root)) and found.line:
            self._blamed.add(self._package)
            self._errors.append(replace(found, severity=Severity.ERROR))
            if len(self._errors) > MOST_FINDINGS:
                raise UnreadableReport(f"it holds more than {MOST_FINDINGS:,} errors")

    def event(self, event: Mapping[str, Any]) -> None:
        """Take an object of a line."""
        if folder := _word(event, "Dir"):
            self._folders[_word(event, "ImportPath")] = folder
            return
        action, key = _word(event, "Action"), (_word(event, "Package"), _word(event, "Test"))
        if action == "build-output":
            self.compiler(_word(event, "Output").rstrip())
        elif action == "output":
            self._output(key, _word(event, "Output").rstrip("\n"))
        elif action == "pass" and key[1] and key not in self._ended:
            pass  # the program ended well within the test: what is said is said of the package
        elif action in _OUTCOMES and key[1]:
            self._tests[key] = _OUTCOMES[action]
            if len(self._tests) > MOST_TESTS:
                raise UnreadableReport(f"it holds more than {MOST_TESTS:,} tests")
        elif action == "fail":
            said = [text for text in self._said.get(key, ()) if not _NOISE.match(text)]
            self._failed[key[0]] = (said or ["it failed outside its tests"])[-1].strip()

    def _output(self, key: tuple[str, str], text: str) -> None:
        if _UNBUILT.fullmatch(text):
            self.compiler(text)
        if _PASSED.search(text):  # behind what it left without an end of line, too
            self._ended.add(key)
        said = self._said.setdefault(key, [])
        said.append(text)
        if len(said) > MOST_SAID:
            del said[0]

    def reading(self) -> Reading:
        """Return what all of it comes to."""
        failed = [key for key, outcome in self._tests.items() if outcome == Outcome.FAILED]
        if len(failed) > MOST_FINDINGS:
            raise UnreadableReport(f"it holds more than {MOST_FINDINGS:,} failures")
        holding = {(package, test.rpartition("/")[0]) for package, test in failed}
        found = [self._test(key) for key in failed if key not in holding]  # of subtests, those
        explained = {package for package, _ in failed} | self._blamed
        found += [
            GateFinding(
                rule="failed",
                severity=Severity.ERROR,
                message=f"{package}: {said}"[:MESSAGE_CHARS],
                subject=package,
            )
            for package, said in sorted(self._failed.items())
            if package not in explained
        ]
        tests = {_name(key): outcome for key, outcome in self._tests.items()}
        return Reading(findings=(*self._errors, *found), tests=tests)

    def _test(self, key: tuple[str, str]) -> GateFinding:
        path, line, said = self._placed(key)
        return GateFinding(
            path=path,
            line=line,
            rule="failed",
            severity=Severity.ERROR,
            message=f"{_name(key)}: {said}".rstrip(": ")[:MESSAGE_CHARS],
            subject=_name(key),
        )

    def _placed(self, key: tuple[str, str]) -> tuple[str, int, str]:
        """Return the first place in the tree that a failed test names, and what is said there."""
        panic, folder = "", self._folders.get(key[0], "")
        for text in self._said.get(key, ()):
            if said := _SAID.fullmatch(text):
                path = path_in_tree(f"{folder}/{said['file']}", self._root) if folder else ""
                return (path, int(said["line"]) if path else 0, said["said"])
            if frame := _FRAME.fullmatch(text):
                path = path_in_tree(frame["path"], self._root)
                if path:
                    return (path, int(frame["line"]), panic)
            elif known := _PANIC.fullmatch(text):
                panic = panic or known["said"]
        return ("", 0, panic)


def _name(key: tuple[str, str]) -> str:
    return f"{key[0]}.{key[1]}"[:MESSAGE_CHARS]


__all__ = ["MOST_SAID", "GoTestReader"]
