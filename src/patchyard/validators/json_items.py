"""JSON of any tool, by a small mapping: where its items lie, and where each fact stands in one.

`items` is a path of names and `*` (`results.*`, `*.messages.*`); empty: a list at the top, or one
object a line. A fact is a path from the item; what an item does not have is looked for in what
holds it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patchyard.clients.reports import read_json, whole_number
from patchyard.domain.gate_findings import (
    MESSAGE_CHARS,
    MOST_FINDINGS,
    GateFinding,
    Reading,
    UnreadableReport,
)
from patchyard.domain.gates import Gate, Severity
from patchyard.domain.report_paths import path_in_tree

SEVERITIES = {
    "0": Severity.NOTE, "1": Severity.WARNING, "2": Severity.ERROR,  # eslint
    "low": Severity.NOTE, "medium": Severity.WARNING, "high": Severity.ERROR,  # bandit
    "critical": Severity.ERROR, "error": Severity.ERROR, "fatal": Severity.ERROR,
    "info": Severity.NOTE, "note": Severity.NOTE, "undefined": Severity.NOTE,
    "warning": Severity.WARNING, "moderate": Severity.WARNING,
}  # fmt: skip

Trail = tuple[Any, ...]  # an item, and before it all that holds it


class JsonReader:
    """contracts.validator.ReportReader: one finding an item."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return the items of the report; raises UnreadableReport."""
        document = read_json(report)
        path = gate.mapping.get("items", "") or "*"
        if path == "*" and isinstance(document, Mapping):
            document = [document]  # one line of JSON Lines
        found = []
        for trail in _items(document, path.split("."), ()):
            if not isinstance(trail[-1], Mapping):
                raise UnreadableReport(f"what stands at {path} is no object")
            found.append(_finding(trail, gate.mapping, root))
            if not found[-1].rule and not found[-1].message:
                raise UnreadableReport("an item has neither a rule nor a message")
            if len(found) > MOST_FINDINGS:
                raise UnreadableReport(f"it holds more than {MOST_FINDINGS:,} items")
        return Reading(findings=tuple(found))


def _items(value: Any, path: Sequence[str], trail: Trail) -> Iterator[Trail]:
    here = (*trail, value)
    if not path:
        yield here
        return
    name, rest = path[0], path[1:]
    if name == "*":
        if not isinstance(value, (list, Mapping)):
            raise UnreadableReport("it has no list where its items should lie")
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _items(each, rest, here)
    elif isinstance(value, Mapping) and name in value:
        yield from _items(value[name], rest, here)
    else:
        raise UnreadableReport(f"it has no `{name}`")


def _finding(trail: Trail, mapping: Mapping[str, str], root: str) -> GateFinding:
    severity = str(_fact(trail, mapping.get("severity"))).lower()
    return GateFinding(
        path=path_in_tree(_fact(trail, mapping.get("file")), root),
        line=whole_number(_fact(trail, mapping.get("line"))),
        rule=_text(_fact(trail, mapping.get("rule"))),
        severity=SEVERITIES.get(severity, Severity.WARNING),
        message=_text(_fact(trail, mapping.get("message"))),
    )


def _fact(trail: Trail, path: str | None) -> Any:
    if not path:
        return None
    for holder in reversed(trail):
        found = holder
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, (list, Mapping)) else str(value)[:MESSAGE_CHARS]


__all__ = ["SEVERITIES", "JsonReader"]
