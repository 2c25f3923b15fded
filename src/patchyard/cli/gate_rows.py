"""A gate's verdict as lines of the final screen."""

from collections.abc import Mapping
from typing import Any

from patchyard.cli.outcome import counted, one_line, paint, visible
from patchyard.domain.gate_verdicts import shown_finding
from patchyard.domain.gates import SCANS

FINDINGS_SHOWN = 10
OUTPUT_SHOWN = 6  # lines, where there is no finding to show


def gate_lines(gate: Mapping[str, Any]) -> list[str]:
    """Return the verdict in one line, and below it what was found."""
    lines = [f"{one_line(gate['name'])}: {_verdict(gate)}{_counts(gate)}"]
    colour = "red" if gate["required"] else "yellow"
    shown = [shown_finding(finding) for finding in gate["findings"][:FINDINGS_SHOWN]]
    lines += [paint(one_line(text), colour) for text in shown]
    left = gate["new"] - FINDINGS_SHOWN
    if left > 0:
        lines.append(f"… and {left} more")
    lines += [one_line(note) for note in gate["notes"]]
    lines += [one_line(text) for text in (gate["problem"], gate["cure"]) if text]
    if not gate["passed"] and not gate["findings"]:
        lines += [visible(line) for line in gate["output"].splitlines()[-OUTPUT_SHOWN:]]
    return lines


def _verdict(gate: Mapping[str, Any]) -> str:
    words = {"absent": "its tool is missing", "broken": "says nothing", "failed": "fails"}
    if gate["passed"]:
        return paint("pass", "green")
    word = words.get(gate["status"], "fails")
    if gate["status"] == "absent" and gate["parser"] in SCANS:
        word = "has nothing to go by"
    return paint(word, "red") if gate["required"] else paint(f"{word} (advisory)", "yellow")


def _counts(gate: Mapping[str, Any]) -> str:
    known = [
        counted(gate["new"], "new finding") if gate["new"] else "",
        f"{gate['old']} old" if gate["old"] else "",
        f"{gate['gone']} gone" if gate["gone"] else "",
    ]
    said = ", ".join(part for part in known if part)
    return f", {said}" if said else ""


__all__ = ["FINDINGS_SHOWN", "OUTPUT_SHOWN", "gate_lines"]
