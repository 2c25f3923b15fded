"""A plan's receipt: what was asked, what came of it, what proves that, what it took. Pure.

It is made of the data that programs are told of a plan, so that both always say the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.domain.gate_verdicts import shown_finding
from patchyard.domain.steps import workflow_line

FINDINGS_LISTED = 20  # of each gate
FILES_LISTED = 100
_MARKUP = frozenset("\\`*_[]<>#|!&")
Data = Mapping[str, Any]


def receipt(data: Data) -> Data:
    """Return the receipt of a plan from its `data`, JSON-ready; every part is always there."""
    changeset = data["changeset"] or {}
    return {
        "plan_id": data["plan_id"],
        "status": f"{data['phase']}/{data['state']}",
        "verdict": _verdict(data),
        "task": data["task"],
        "summary": data["summary"] or data["strategy"]["summary"],
        "error": data["error_message"],
        "base": data["base"],
        "artifacts": _artifacts(data),
        "proven_tree": data["proven_tree"],
        "gates": [_gate(row) for row in data["validation"]],
        "review": _reviewed(data["review"]),
        "touched_proof": data["touched_proof"],
        "silenced": data["silenced"],
        "held_from_base": data["held_from_base"],
        "findings": len(data["findings"]),
        "counts": changeset.get("counts", {"files": 0, "added": 0, "removed": 0}),
        "cost": {key: data["cost"][key] for key in ("usd", "tokens", "steps")},
        "time": data["timing"],
        "workflow": data["workflow"],
        "environment": {
            "kind": data["reach"]["kind"],
            "walls": data["reach"]["walls"],
            "network": data["reach"]["network"]["summary"],
            "secrets": data["reach"]["secrets"],
        },
        "models": data["models"],
        "journal_head": data["journal_head"],
    }


def _reviewed(review: Data | None) -> Data | None:
    """Return what a reviewer said, and what the engine measured of it."""
    if review is None:
        return None
    coverage = review["coverage"]
    counts = ("changed", "measured", "covered", "percent", "problem")
    return {
        "verdict": review["verdict"],
        "subject": review["subject"],
        "findings": [
            f"{each['path']}:{each['line']}: {each['severity']}: {each['message']}"
            for each in review["findings"][:FINDINGS_LISTED]
        ],
        "coverage": coverage and {name: coverage[name] for name in counts},
    }


def _verdict(data: Data) -> str:
    """Say in one word how much the result is worth."""
    if data["changeset"] is None:
        return "nothing"
    if data["proven_tree"]:
        return "proven"
    return "refused" if any(_stops(row) for row in data["validation"]) else "unproven"


def _stops(row: Data) -> bool:
    return bool(row["required"] and not row["passed"])


def _artifacts(data: Data) -> list[Data]:
    found: list[Data] = []
    changeset = data["changeset"]
    if changeset:
        found.append({"kind": "change set", "name": changeset["id"], "tree": changeset["tree"]})
    if data["applied"]:
        applied = data["applied"]
        found.append({"kind": applied["to"], "name": applied["reference"] or "", "tree": ""})
    return found


def _gate(row: Data) -> Data:
    before = row["before"]
    return {
        "name": row["name"],
        "command": row["command"],
        "status": row["status"],
        "required": row["required"],
        "before": None if before is None else bool(before["passed"]),
        "new": row["new"],
        "old": row["old"],
        "findings": [shown_finding(each) for each in row["findings"][:FINDINGS_LISTED]],
        "notes": [*row["notes"], *([row["problem"]] if row["problem"] else [])],
    }


def receipt_markdown(made: Data, files: Sequence[Data] = ()) -> str:
    """Return a receipt as a page; `files` are those of the change set."""
    lines = [
        f"# {_line(made['task']) or 'A plan'}",
        "",
        f"**{made['verdict']}**, {_status(made)}, plan `{made['plan_id']}`",
        "",
        *_quoted(made["summary"]),
        *_quoted(made["error"] or ""),
        "## Change",
        "",
        *_change(made, files),
        "",
        "## Gates",
        "",
        *(_gates(made["gates"]) or ["None ran: the result is unproven."]),
        *_eyes(made),
        "",
        *_review(made["review"]),
        "## What it took",
        "",
        *_took(made),
        "",
    ]
    return "\n".join(lines)


def _status(made: Data) -> str:
    """Say where the plan stands; one whose hand-over was taken back stays applied."""
    handed = [each for each in made["artifacts"] if each["kind"] != "change set"]
    is_back = made["status"] == "apply/applied" and not handed
    return f"{made['status']} (taken back)" if is_back else str(made["status"])


def _review(review: Data | None) -> list[str]:
    if review is None:
        return []
    verdict, coverage = review["verdict"].replace("_", " "), review["coverage"]
    lines = ["## Review", "", f"- **{verdict}** of {_line(review['subject']) or 'the checkout'}"]
    if coverage:
        share = f"{coverage['covered']} of {coverage['measured']} changed lines run"
        problem = _line(coverage["problem"])
        lines.append(f"- coverage: {f'not measured: {problem}' if problem else share}")
    return [*lines, *(f"- {_code(each)}" for each in review["findings"]), ""]


def _change(made: Data, files: Sequence[Data]) -> list[str]:
    base, counts = made["base"] or {}, made["counts"]
    start = f"{base.get('branch') or 'detached'}@{(base.get('commit') or 'none')[:12]}"
    of_files = f"{counts['files']} file{'' if counts['files'] == 1 else 's'}"
    lines = [
        f"- base: {_code(start)}, {base.get('uncommitted', 0)} uncommitted files",
        f"- {of_files}, +{counts['added']} -{counts['removed']}",
        *(f"- {each['kind']}: {_code(each['name'] or '-')}" for each in made["artifacts"]),
        *(f"  - {each['status']}: {_code(_path(each))}" for each in files[:FILES_LISTED]),
    ]
    left = len(files) - FILES_LISTED
    return [*lines, *([f"  - and {left} more"] if left > 0 else [])]


def _path(change: Data) -> str:
    return str(change.get("path", ""))


def _gates(rows: Sequence[Data]) -> list[str]:
    if not rows:
        return []
    lines = ["| gate | before | now | new | old |", "|---|---|---|---|---|"]
    words = {None: "-", True: "passed", False: "failed"}
    for row in rows:
        status = row["status"] if row["required"] else f"{row['status']} (advisory)"
        cells = (_cell(row["name"]), words[row["before"]], status, row["new"], row["old"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for row in rows:
        said = [*row["findings"], *row["notes"]]
        lines += ["", f"{_code(row['name'])}:", ""] if said else []
        lines += [f"- {_code(text)}" for text in said]
    return lines


def _eyes(made: Data) -> list[str]:
    """Return what a person should look at before trusting the verdict."""
    named = (
        ("changed files that the proof goes by", made["touched_proof"]),
        ("added lines that silence a tool", made["silenced"]),
        ("taken from the base for the proof", made["held_from_base"]),
    )
    lines = [f"- {what}: {', '.join(map(_code, places))}" for what, places in named if places]
    return ["", *lines] if lines else []


def _took(made: Data) -> list[str]:
    cost, time, place = made["cost"], made["time"], made["environment"]
    price = "price unknown" if cost["usd"] is None else f"{cost['usd']:.4f} USD"
    work = f"{cost['tokens']} tokens, {cost['steps']} steps, {time['seconds']:.1f} s of work"
    return [
        f"- {price}, {work}",
        f"- took: {workflow_line(made['workflow']) or 'nothing that took time'}",
        f"- in `{place['kind']}` (walls of `{place['walls']}`), network: {_line(place['network'])}",
        f"- models: {', '.join(map(_code, made['models'])) or 'none'}",
        f"- proven tree: {_code(made['proven_tree'] or 'none')}",
        f"- journal head: {_code(made['journal_head'])}",
    ]


def _line(text: str) -> str:
    """Return the first line of a text, harmless in Markdown: words of others are no markup."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]
    shown = (char for char in first if char.isprintable())
    return "".join(f"\\{char}" if char in _MARKUP else char for char in shown)


def _quoted(text: str) -> list[str]:
    lines = [_line(line) for line in text.splitlines()[:40]]
    return [*(f"> {line}" for line in lines), ""] if any(lines) else []


def _code(text: str) -> str:
    """Return a text as code in one line, whatever quotes it holds."""
    plain = "".join(char if char.isprintable() else " " for char in str(text))[:500]
    return f"`{plain.replace('`', chr(39))}`"


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|")


__all__ = ["FILES_LISTED", "FINDINGS_LISTED", "receipt", "receipt_markdown"]
