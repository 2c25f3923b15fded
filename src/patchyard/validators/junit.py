"""JUnit XML, as pytest, surefire, jest-junit and others write it: one finding a failed test."""

import re
from collections.abc import Mapping

from patchyard.clients.reports import read_xml, whole_number
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

_FAILING = frozenset({"error", "failure"})
# `at shop.ShopTest.twice(ShopTest.java:10)` of the JVM
_FRAME = re.compile(
    r"^\s*at (?:[\w.@$-]*/)*(?P<in>[\w.$]+)\.[\w$<>]+\((?P<file>[\w$]+\.\w+):(?P<line>\d{1,9})\)",
    re.MULTILINE,
)
# `at name (file:///home/ada/shop/a.js:10:5)` of JavaScript; vitest has an arrow
_SCRIPT_FRAME = re.compile(
    r"^\s*(?:at (?:[^()\n]*\()?|\u276f (?:\S+ )?)(?P<path>[^\s()]+):(?P<line>\d{1,9}):\d+\)?$",
    re.MULTILINE,
)
_PLACE = re.compile(r"^([^\s:][^:\n]*):(\d{1,9}):", re.MULTILINE)  # as tracebacks name one
MOST_TESTS = 200_000


class JUnitReader:
    """contracts.validator.ReportReader: failed tests by name."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return the failures and what became of each test; raises UnreadableReport."""
        del gate
        cases = _Cases(root)
        read_xml(report, cases.start, cases.end)
        if not cases.is_junit:
            raise UnreadableReport("it holds no <testsuite>")
        if len(cases.findings) > MOST_FINDINGS:
            raise UnreadableReport(f"it holds more than {MOST_FINDINGS:,} failures")
        return Reading(findings=tuple(cases.findings), tests=cases.tests)


class _Cases:
    """Puts together what the elements say of one test after the other."""

    def __init__(self, root: str) -> None:
        self.findings: list[GateFinding] = []
        self.tests: dict[str, Outcome] = {}
        self.is_junit = False
        self._root = root
        self._sources = _Sources()
        self._case: Mapping[str, str] | None = None
        self._name = ""
        self._failure: GateFinding | None = None
        self._said = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.is_junit = self.is_junit or tag in {"testsuite", "testsuites"}
        if tag == "testcase":
            self._begin(attributes)
        elif self._case is not None and tag in _FAILING:
            self._said = attributes.get("message", "")
            self._failure = self._failed(tag)
            self.tests[self._name] = Outcome.FAILED
        elif self._case is not None and tag == "skipped":
            self.tests[self._name] = Outcome.SKIPPED

    def end(self, tag: str, text: str) -> None:
        if tag == "source":
            self._sources.add(path_in_tree(text.strip(), self._root))
        elif tag in _FAILING and self._failure is not None:
            self.findings.append(self._placed(self._failure, text))
            self._failure = None
        elif tag == "testcase":
            self._case = None

    def _begin(self, attributes: Mapping[str, str]) -> None:
        self._case = attributes
        suite, name = attributes.get("classname", ""), attributes.get("name", "")
        self._name = (f"{suite}::{name}" if suite else name)[:MESSAGE_CHARS]
        self.tests.setdefault(self._name, Outcome.PASSED)
        if len(self.tests) > MOST_TESTS:
            raise UnreadableReport(f"it holds more than {MOST_TESTS:,} tests")

    def _failed(self, tag: str) -> GateFinding:
        case = self._case or {}
        line = whole_number(case.get("line", ""))
        path = path_in_tree(case.get("file", ""), self._root)
        return GateFinding(
            path=path,
            line=line + 1 if path and "line" in case else 0,  # pytest counts from 0
            rule="failed" if tag == "failure" else "error",
            severity=Severity.ERROR,
            subject=self._name,
        )

    def _placed(self, failure: GateFinding, text: str) -> GateFinding:
        """Return it with the line of the test's file that the traceback names last."""
        said = (self._said or text.strip()).strip().split("\n", 1)[0]
        message = f"{self._name}: {said}"[:MESSAGE_CHARS]
        path, line = failure.path, failure.line
        for match in _PLACE.finditer(text):
            place = path_in_tree(match[1].strip(), self._root)
            if place and path in {"", place}:
                path, line = place, int(match[2])
        if not line:
            path, line = self._of_script(path, text)
        if not path:
            path, line = self._sources.placed(text, (self._case or {}).get("classname", ""))
        return GateFinding(
            path=path,
            line=line,
            rule=failure.rule,
            severity=failure.severity,
            message=message,
            subject=failure.subject,
        )

    def _of_script(self, path: str, trace: str) -> tuple[str, int]:
        """Return the first place that a trace of JavaScript names: in the test's file, if known."""
        for frame in _SCRIPT_FRAME.finditer(trace):
            place = path_in_tree(frame["path"], self._root)
            if place and "node_modules/" not in place and path in {"", place}:
                return (place, int(frame["line"]))
        return (path, 0)


class _Sources:
    """Source files that a report lists (`<source>`), since the JVM names them by package alone."""

    def __init__(self) -> None:
        self._paths: dict[str, set[str]] = {}  # by name

    def add(self, path: str) -> None:
        self._paths.setdefault(path.rpartition("/")[2], set()).add(path)

    def placed(self, trace: str, suite: str) -> tuple[str, int]:
        """Return the place that a trace names first in the test's own class, else in any file."""
        known = []
        for frame in _FRAME.finditer(trace):
            folder = frame["in"].rpartition(".")[0].replace(".", "/")
            tail = f"{folder}/{frame['file']}".removeprefix("/")
            found = {p for p in self._paths.get(frame["file"], ()) if f"/{p}".endswith(f"/{tail}")}
            if len(found) == 1:  # modules may have the same class
                known.append((frame["in"].partition("$")[0], found.pop(), int(frame["line"])))
        own = [place for place in known if place[0] == suite.partition("$")[0]]
        return (own or known)[0][1:] if known else ("", 0)


__all__ = ["MOST_TESTS", "JUnitReader"]
