"""SARIF 2.1.0, the form that most scanners and linters can write."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

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

LEVELS = {"none": Severity.NOTE, "note": Severity.NOTE, "error": Severity.ERROR}


class SarifReader:
    """contracts.validator.ReportReader: one finding a result."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return the results of all runs; raises UnreadableReport."""
        del gate
        document = read_json(report)
        runs = document.get("runs") if isinstance(document, Mapping) else None
        if not isinstance(runs, list):
            raise UnreadableReport("it has no `runs`: it is no SARIF")
        found = []
        for result in _results(runs):
            found.append(_finding(result, root))
            if len(found) > MOST_FINDINGS:
                raise UnreadableReport(f"it holds more than {MOST_FINDINGS:,} results")
        return Reading(findings=tuple(found))


def _results(runs: list[Any]) -> Iterator[Mapping[str, Any]]:
    for run in runs:
        results = run.get("results", []) if isinstance(run, Mapping) else None
        if not isinstance(results, list):
            raise UnreadableReport("a run's `results` are no list")
        for result in results:
            if not isinstance(result, Mapping):
                raise UnreadableReport("a result is no object")
            if result.get("kind", "fail") == "fail" and not result.get("suppressions"):
                yield result


def _finding(result: Mapping[str, Any], root: str) -> GateFinding:
    place = _at(_first(result.get("locations")), "physicalLocation")
    uri = _at(place, "artifactLocation").get("uri")
    path = unquote(uri) if isinstance(uri, str) and "%" in uri else uri
    message = _at(result, "message")
    said = message.get("text") or message.get("markdown") or ""
    return GateFinding(
        path=path_in_tree(path, root),
        line=whole_number(_at(place, "region").get("startLine")),
        rule=str(result.get("ruleId") or _at(result, "rule").get("id") or "")[:MESSAGE_CHARS],
        severity=LEVELS.get(str(result.get("level", "warning")), Severity.WARNING),
        message=str(said)[:MESSAGE_CHARS],
    )


def _first(value: Any) -> Mapping[str, Any]:
    found = value[0] if isinstance(value, list) and value else {}
    return found if isinstance(found, Mapping) else {}


def _at(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


__all__ = ["LEVELS", "SarifReader"]
