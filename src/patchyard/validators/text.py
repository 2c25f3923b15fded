"""Lines as compilers and formatters write them, for tools that have no better form."""

import re
from collections.abc import Iterator
from dataclasses import replace

from patchyard.domain.gate_findings import (
    MESSAGE_CHARS,
    MOST_FINDINGS,
    GateFinding,
    Reading,
    UnreadableReport,
)
from patchyard.domain.gates import Gate, Severity
from patchyard.domain.report_paths import path_in_tree

LONGEST = 2000  # characters of a line that is looked at
# `path:12:3: message` of most compilers, `path(12,3): message` of tsc.
PLACED = re.compile(
    r"(?:vet: )?(?P<path>[^\s:()][^:()]*)(?::(?P<line>\d{1,9})(?::\d+)?:|\((?P<at>\d{1,9}),\d+\):)"
    r"\s*(?P<said>.*)"
)
# `[ERROR] path:[12,3] message` of Maven, which says each error twice.
MAVEN = re.compile(
    r"\[(?P<grade>ERROR|WARNING)\] (?P<path>[^:]+):\[(?P<line>\d{1,9}),\d+\] (?P<said>.*)"
)
# `[error] path: SyntaxError: message (12:3)` of prettier.
UNREAD = re.compile(r"\[error\] (?P<path>[^:]+): (?P<said>.*\((?P<line>\d{1,9}):\d+\))")
# ` --> path:2:1` of ruff and rustc, below the message that it is about.
ARROW = re.compile(r"\s*--> (?P<path>\S.*?):(?P<line>\d{1,9}):\d+")
# `Would reformat: path`, `would reformat path`, `[warn] path`, or the path alone.
LISTED = re.compile(
    r"(?:would reformat:? |\[warn\] (?!Code style issues))(?P<path>\S.*)", re.IGNORECASE
)
ALONE = re.compile(r"(?P<path>[\w./@+-]+\.\w+)")
_GRAVE = re.compile(r"error\b|fatal\b", re.IGNORECASE)
_RULE = re.compile(
    r"(?:error|warning)(?:\s+(?P<tsc>[A-Z]+\d+)\b|\[(?P<rustc>\w+)\]|: \[(?P<javac>[\w-]+)\])"
    r"|^\[(?P<maven>[\w-]+)\] |\[(?P<after>[\w:-]+)\]$"
)


class TextReader:
    """contracts.validator.ReportReader: one finding a line that names a file."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return the lines that name files; other lines say nothing."""
        del gate
        found: list[GateFinding] = []
        said: set[str] = set()  # by Maven
        for line in lines_of(report):
            finding = named_in(line, root)
            if finding is None or line in said:
                continue
            found.append(finding)
            if MAVEN.match(line):
                said.add(line)
            if len(found) > MOST_FINDINGS:
                raise UnreadableReport(f"it holds more than {MOST_FINDINGS:,} lines")
        return Reading(findings=tuple(found))


def lines_of(report: bytes) -> Iterator[str]:
    """Yield the lines of a report as far as they are looked at."""
    for line in report.decode("utf-8", "replace").splitlines():
        yield line[:LONGEST].rstrip()


def named_in(line: str, root: str) -> GateFinding | None:
    """Return what one line says of a file of the tree; None where it says nothing."""
    if of_maven := MAVEN.fullmatch(line):
        path = path_in_tree(of_maven["path"], root)
        made = _made(path, int(of_maven["line"]), of_maven["said"])
        return replace(made, severity=Severity(of_maven["grade"].lower())) if path else None
    if unread := UNREAD.fullmatch(line):
        path = path_in_tree(unread["path"], root)
        made = _made(path, int(unread["line"]), unread["said"])
        return replace(made, severity=Severity.ERROR) if path else None
    if placed := PLACED.fullmatch(line):
        path = path_in_tree(placed["path"], root)
        number, said = int(placed["line"] or placed["at"]), placed["said"]
        return _made(path, number, said) if path else None
    if arrow := ARROW.fullmatch(line):
        path = path_in_tree(arrow["path"], root)
        return _made(path, int(arrow["line"]), "the tool names this line") if path else None
    listed = LISTED.fullmatch(line) or ALONE.fullmatch(line)
    path = path_in_tree(listed["path"], root) if listed else ""
    return _made(path, 0, "not as the formatter writes it") if path else None


def _made(path: str, line: int, said: str) -> GateFinding:
    rule = _RULE.search(said)
    return GateFinding(
        path=path,
        line=line,
        rule=rule[rule.lastgroup or 0] if rule else "",
        severity=Severity.ERROR if _GRAVE.match(said) else Severity.WARNING,
        message=said[:MESSAGE_CHARS],
    )


__all__ = [
    "ALONE",
    "ARROW",
    "LISTED",
    "LONGEST",
    "MAVEN",
    "PLACED",
    "UNREAD",
    "TextReader",
    "lines_of",
    "named_in",
]
