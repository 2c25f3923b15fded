"""The final screen of a plan: base, changes, proof, reach, cost, and what to do next."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.cli.gate_rows import gate_lines
from patchyard.cli.outcome import counted, one_line, paint, visible
from patchyard.cli.screen_rows import assessed_rows, product_rows, row, task_line
from patchyard.domain.budget import RAISING
from patchyard.domain.changeset import without
from patchyard.domain.errors import LimitReached, ProofFailed
from patchyard.domain.remotes import looks_cloned
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.steps import workflow_line

HELD = {True: ("holds", "green"), False: ("does not hold", "red")}  # an invariant, its colour
SIGNS = {"added": "A", "modified": "M", "deleted": "D", "renamed": "R", "mode": "m", "type": "T"}
FILES_SHOWN = 20


def plan_screen(data: Mapping[str, Any]) -> str:
    """Return the screen for the `data` of one plan."""
    parts = [
        _head(data),
        row("base", _base(data.get("base"))),
        row("task", task_line(data.get("analysis"), data.get("assessment"))),
        *assessed_rows(data.get("assessment")),
        row("what", visible(_first_line(data.get("summary") or data["strategy"]["summary"]))),
        *_changes(data),
        *_findings(data.get("findings", [])),
        *_checks(data["strategy"].get("invariants", [])),
        *product_rows(data),
        *_proof(data),
        row("reach", _reach(data["reach"])),
        row("cost", _cost(data["cost"])),
        row("took", workflow_line(data["workflow"])),
        row("head", data["journal_head"] if data.get("applied") else ""),
        *_error(data),
        *_next(data),
    ]
    return "\n".join(part for part in parts if part)


def patch_shown(patch: bytes) -> str:
    """Return a patch as people look at it: escaped, and coloured where colours are wanted."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    lines = visible(patch.decode("utf-8", "surrogateescape")).split("\n")
    return "\n".join(paint(t, colours[t[0]]) if t[:1] in colours else t for t in lines)


def _head(data: Mapping[str, Any]) -> str:
    colour = {"complete": "green", "applied": "green", "queued": "blue", "processing": "blue"}
    state = paint(f"{data['phase']}/{data['state']}", colour.get(data["state"], "red"), bold=True)
    return f"plan {data['plan_id']}  {state}"


def _base(base: Mapping[str, Any] | None) -> str:
    if base is None:
        return ""
    name = f"{base['branch'] or 'detached'}@{(base['commit'] or 'none')[:7]}"
    count = base["uncommitted"]
    more = f" + {counted(count, 'uncommitted file')}" if count else ""
    return visible(f"{name}{more}{without(base['left_out'])}")


def _changes(data: Mapping[str, Any]) -> list[str]:
    changeset = data.get("changeset")
    if not changeset:
        return []
    counts = changeset["counts"]
    if not data["changed"]:
        return [row("changes", "none")]
    rows = [
        row(
            "changes",
            f"{counted(counts['files'], 'file')},"
            f" {paint('+' + str(counts['added']), 'green')}"
            f" {paint('-' + str(counts['removed']), 'red')}",
        )
    ]
    for change in changeset["files"][:FILES_SHOWN]:
        old = f"{change['old_path']} → " if change.get("old_path") else ""
        name = one_line(old + change["path"])
        rows.append(f"           {SIGNS[change['status']]} {name}  {lines_of(change)}")
    left = len(changeset["files"]) - FILES_SHOWN
    if left > 0:
        rows.append(f"           … and {left} more")
    return rows


def lines_of(change: Mapping[str, Any]) -> str:
    """Return how many lines one file's change adds and takes away, where they were counted."""
    if change.get("is_binary"):
        return "binary"
    return f"+{change.get('added', 0)} -{change.get('removed', 0)}"


def _findings(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        row("look at", paint(one_line(f"{finding['path']}: {finding['message']}"), "yellow"))
        for finding in findings
    ]


def _checks(checked: Sequence[Mapping[str, Any]]) -> list[str]:
    """One row for each invariant with a check: whether it held before, and after."""
    held: dict[tuple[str, str], dict[str, bool]] = {}
    for check in checked:
        held.setdefault((check["scope"], check["text"]), {})[check["when"]] = check["passed"]
    return [
        row(
            "check",
            f"{one_line(text)}: {' → '.join(paint(*HELD[kept]) for kept in found.values())}",
        )
        for (_, text), found in held.items()
    ]


def _proof(data: Mapping[str, Any]) -> list[str]:
    rows = []
    touched = data.get("touched_proof") or []
    if touched:
        listed = f"the proof goes by these changed files: {one_line(', '.join(touched))}"
        rows.append(row("touched", paint(listed, "yellow")))
    if silenced := data.get("silenced"):
        rows.append(row("silenced", paint(one_line(", ".join(silenced)), "yellow")))
    if held := data.get("held_from_base"):
        rows.append(row("held", f"as the base has them: {one_line(', '.join(held))}"))
    if not data["validation"] and data.get("changeset"):
        why = "it has not come to that" if data.get("gates") else "no validation command is set"
        rows.append(row("proof", paint(f"unproven: {why}", "yellow")))
    for gate in data["validation"]:
        before = gate.get("before")
        was = _verdict(before) if before else "not run"
        if gate.get("name", gate["command"]) != gate["command"]:
            first, *more = gate_lines(gate)
            rows += [row("gate", first), *(f"           {line}" for line in more)]
            continue
        rows.append(row("proof", f"{visible(gate['command'])}: {was} → {_verdict(gate)}"))
        if not gate["passed"]:
            rows += [f"           {visible(line)}" for line in gate["output"].splitlines()[-12:]]
    return rows


def _verdict(gate: Mapping[str, Any]) -> str:
    if gate["passed"]:
        return paint("pass", "green")
    code = gate.get("exit_code")
    return paint("fails" if code is None else f"fails ({code})", "red")


def _reach(reach: Mapping[str, Any]) -> str:
    parts = [
        f"{reach['kind']}",
        f"network: {visible(reach['network']['summary'])}",
        f"secrets: {', '.join(reach['secrets']) or 'none'}",
    ]
    if reach["network"].get("attempts"):
        parts.insert(2, _traffic(reach["network"]))
    if reach.get("variables"):
        parts.append(f"variables: {', '.join(reach['variables'])}")
    if reach["mounts"]:
        parts.append(f"mounts: {', '.join(reach['mounts'])}")
    walls = reach.get("walls", reach["kind"])
    if walls != reach["kind"]:
        parts[0] = f"{reach['kind']} ({walls})"
    if walls in UNCONFINED:
        parts[0] = paint(f"{reach['kind']}, unconfined", "yellow")
    if reach.get("also"):
        parts[0] += f", single tools in {', '.join(reach['also'])}"
    return ", ".join(parts)


def _traffic(network: Mapping[str, Any]) -> str:
    refused = f", {network['refused']} of them without success" if network["refused"] else ""
    moved = f"{network['up_bytes']:,} bytes up, {network['down_bytes']:,} down"
    return f"{counted(network['attempts'], 'request')} ({moved}{refused})"


def _cost(cost: Mapping[str, Any]) -> str:
    usd = "price unknown" if cost["usd"] is None else f"{cost['usd']:.4f} USD"
    limit = cost["limits"]["usd"]
    of = f" of {limit:g}" if limit is not None and cost["usd"] is not None else ""
    tokens = f"{cost['tokens']:,} token{'' if cost['tokens'] == 1 else 's'}"
    return f"{usd}{of}, {tokens}, {counted(cost['steps'], 'step')}, {cost['seconds']:.1f} s"


def _error(data: Mapping[str, Any]) -> list[str]:
    message = data.get("error_message")
    if not message:
        return []
    lines = visible(message).splitlines()
    hint = (data.get("error_details") or {}).get("hint", "")
    return [row("stopped", paint("\n           ".join(lines), "red")), row("cure", visible(hint))]


def _next(data: Mapping[str, Any]) -> list[str]:
    plan = data["plan_id"]
    if data.get("approval"):
        yes = f"agents plan approve {plan}   (or reject; then agents plan resume {plan})"
        return [row("next", yes)]
    if applied := data.get("applied"):
        where = f" ({visible(applied['reference'])})" if applied.get("reference") else ""
        done = f"applied to {applied['to']}{where}; take it back with `agents plan unapply {plan}`"
        return [row("next", done), *_fetched(data, applied)]
    if data["changed"] and data["state"] in {"complete", "applied"}:
        since = "   (what was applied is taken back)" if data["state"] == "applied" else ""
        return [
            row("next", f"agents plan diff {plan}{since}"),
            f"           agents plan apply {plan} {_ways(data)}",
            *_allowed(data.get("findings", [])),
        ]
    begin = {
        "strategize/queued": "strategize",
        "strategize/complete": "execute",
        "execute/queued": "execute",
    }
    if step := begin.get(f"{data['phase']}/{data['state']}"):
        return [row("next", f"agents plan {step} {plan}   (or the whole way: plan resume)")]
    if data["state"] == "processing":
        follow = f"agents plan watch {plan}   (after a crash: agents plan resume {plan})"
        onward = f"agents plan resume {plan}" if data.get("is_paused") else follow
        return [row("next", onward)]
    return _onward(data) if data["state"] in {"errored", "constrained", "cancelled"} else []


def _ways(data: Mapping[str, Any]) -> str:
    """Say which ways of a hand-over there are: into a clone of ours not those of a checkout."""
    if looks_cloned(_top(data)):
        return "--to branch   (or: --to patch --name FILE)"
    return "--to worktree   (or branch, merge)"


def _fetched(data: Mapping[str, Any], applied: Mapping[str, Any]) -> list[str]:
    """Say how a branch comes out of a clone of ours, where no user would look for it."""
    if applied["to"] != "branch" or not looks_cloned(_top(data)):
        return []
    top, name = visible(_top(data)), visible(str(applied.get("reference")))
    return [f"           git fetch {top} {name}   (or: git -C {top} push origin {name})"]


def _top(data: Mapping[str, Any]) -> str:
    return str((data.get("base") or {}).get("repository") or "")


def _onward(data: Mapping[str, Any]) -> list[str]:
    """Say how a plan that stopped goes on; past a limit it would stop at once again."""
    plan, details = data["plan_id"], data.get("error_details") or {}
    if data["phase"] == "apply" and data["state"] == "errored":
        to = f" --to {details['to']}" if details.get("to") else ""
        return [row("next", f"agents plan apply {plan}{to}")]
    if details.get("code") == LimitReached.code:
        option = RAISING.get(str(details.get("limit_name")), "…")
        raised = f"agents plan limit {plan} {option}   (or another amount)"
        if shared := details.get("setting"):
            raised = f"raise {shared}   (where it is set: agents config show --origin)"
        return [row("next", raised), f"           agents plan resume {plan}"]
    if details.get("code") == ProofFailed.code:
        seen = f"agents plan diff {plan}   (what was tried; `agents plan shell` looks inside)"
        return [row("next", seen), f"           agents plan resume {plan}   (proves it again)"]
    return [row("next", f"agents plan resume {plan}   (or: agents plan events {plan})")]


def _allowed(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what apply asks for where it would refuse what needs a look first."""
    return ["           with --allow-path PATH for each path to look at"] if findings else []


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]


__all__ = ["FILES_SHOWN", "HELD", "SIGNS", "lines_of", "patch_shown", "plan_screen"]
