"""What programs are told of a plan: the `data` object of interface.md, from state and bodies."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.domain.changeset import Base, Change, ChangeSet
from patchyard.domain.codec import to_json
from patchyard.domain.environment import IN_PLACE, ExecutionEnvironment
from patchyard.domain.errors import PatchyardError
from patchyard.domain.marks import Mark
from patchyard.domain.network import GIT, INDEX, told
from patchyard.domain.plan import Phase
from patchyard.domain.receipt import receipt
from patchyard.domain.routing import sites_of
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.state import PlanState
from patchyard.domain.usage import usage_data
from patchyard.domain.views import Mapped
from patchyard.engine.accounts import shared_budgets
from patchyard.engine.analysis_data import analysis_data, assessment_data
from patchyard.engine.captured import changeset_of
from patchyard.engine.ledger import Ledger
from patchyard.engine.products import product_data
from patchyard.engine.sites import general_kind, may_have_setup, weakest_walls, working_sites
from patchyard.engine.waiting import approval, waiting

GATEWAY_WORDS = {INDEX: "package indexes", GIT: "its repository (reading)"}
_STEPS = (Phase.STRATEGIZE, Phase.EXECUTE, Phase.APPLY)
_SHOWN_BEFORE = ("command", "exit_code", "passed", "output", "elapsed_s")  # of a gate on the base


async def plan_data(ledger: Ledger) -> dict[str, Any]:
    """Return all that interface.md promises of a plan, JSON-ready."""
    state = ledger.state
    spec = state.known
    changeset = await changeset_of(ledger)
    data = {
        "plan_id": state.plan_id,
        "phase": str(state.phase),
        "state": str(state.state),
        "reason": state.reason,
        "task": spec.task,
        "action": spec.action,
        "project": spec.project,
        "parent": to_json(spec.lineage) if spec.lineage else None,
        "base": base_data(state.base),
        "analysis": analysis_data(state.analysed, map_tokens=spec.map_tokens),
        "assessment": assessment_data(state),
        "environment": str(general_kind(spec)),
        "attempt": state.attempt,
        "strategy": _strategy(state),
        "summary": state.summary,
        "changeset_id": changeset.id if changeset else None,
        "changed": bool(changeset and not changeset.is_empty),
        "changeset": changeset_data(changeset),
        **await product_data(ledger),
        "validation": await _validation(ledger),
        "gates": [*spec.validate, *(gate.name for gate in spec.gates)],
        "touched_proof": list(state.validation.touched) if state.validation else [],
        "held_from_base": list(state.validation.held) if state.validation else [],
        "silenced": list(state.validation.silenced) if state.validation else [],
        "proven_tree": _proven(state),
        "applied": await _applied(ledger),
        "journal_head": await ledger.head(),
        "progress": _progress(state),
        "workflow": state.steps.rows(),
        "execution": {
            "tool_calls": state.tool_calls,
            "sandbox_refs": list(state.sandbox_refs),
            "checkpoints": [_checkpoint(mark) for mark in state.checkpoints],
            "usage": usage_data(state.used.total),
        },
        "cost": _cost(state) | {"budgets": await shared_budgets(ledger)},
        "reach": reach(state),
        "waiting": waiting(state),
        "approval": approval(state),
        "is_paused": state.steered.paused is not None,
        "automation": {
            "profile": spec.automation_profile,
            "reverts": state.reverts,
            "retries_per_step": spec.safety.max_retries_per_step,
        },
        "findings": [to_json(finding) for finding in changeset.findings] if changeset else [],
        "error_message": state.failure.message if state.failure else None,
        "error_details": _error_details(state),
        "models": list(state.models),
        "timing": _timing(state),
    }
    return data | {"receipt": receipt(data)}


def _timing(state: PlanState) -> dict[str, float]:
    return {
        "created": round(state.created, 3),
        "updated": round(state.updated, 3),
        "seconds": round(state.spent.seconds, 3),
    }


def base_data(base: Base | None) -> dict[str, Any] | None:
    """Return the base as people name it."""
    if base is None:
        return None
    return {
        "repository": base.repository,
        "branch": base.branch,
        "commit": base.commit,
        "tree": base.tree,
        "uncommitted": base.uncommitted,
        "left_out": list(base.left_out),
    }


def _file(change: Change) -> Mapping[str, Any]:
    return {**to_json(change), "status": str(change.status)}


def changeset_data(changeset: ChangeSet | None) -> dict[str, Any] | None:
    """Return the change set's files, a view of them, and its counts."""
    if changeset is None:
        return None
    changes = changeset.changes
    return {
        "id": changeset.id,
        "tree": changeset.tree,
        "files": Mapped(_file, changes),
        "counts": {
            "files": len(changes),
            "added": sum(change.added for change in changes),
            "removed": sum(change.removed for change in changes),
        },
    }


def reach(state: PlanState) -> dict[str, Any]:
    """Return what the plan could touch, and what went through its gateways."""
    spec = state.known
    return {
        "kind": str(general_kind(spec)),
        "walls": str(weakest_walls(spec, fallen=state.fallen)),
        "also": _kinds_beside(state),
        "network": _network(state),
        "secrets": list(spec.network.secrets),
        "variables": sorted(spec.variables),
        "mounts": list(spec.mounts),
    }


def _kinds_beside(state: PlanState) -> list[str]:
    """Return the other kinds that calls go to, by what single tools are set to.

    What a tool preferred, and was given up, is none of them.
    """
    spec = state.known
    kept = [site for site in sites_of(spec) if str(site) not in state.fallen]
    kinds = dict.fromkeys(str(site.kind) for site in kept)
    return [kind for kind in kinds if kind != str(general_kind(spec))]


def _network(state: PlanState) -> dict[str, Any]:
    grant, used = state.known.network, state.network
    return {
        "summary": _reachable(state),
        "hosts": list(told(grant)),
        "gateways": list(grant.gateways),
        "repository": grant.repository or None,
        "planning": grant.planning,
        "attempts": sum(each.attempts for each in used),
        "refused": sum(each.refused for each in used),
        "up_bytes": sum(each.up for each in used),
        "down_bytes": sum(each.down for each in used),
        "places": [to_json(each) for each in used],
    }


def _reachable(state: PlanState) -> str:
    spec = state.known
    sites = working_sites(spec, fallen=state.fallen)
    if any(site.kind in IN_PLACE for site in sites):
        return "all that this machine reaches"
    if any(spec.walls_at(site) in UNCONFINED for site in sites):
        return "all that its host reaches"
    if sites[0].kind == ExecutionEnvironment.SSH:
        return "none"
    parts = [
        f"{each['host']} ({'can upload' if each['can_upload'] else 'reading'})"
        for each in told(spec.network)
    ]
    parts += [GATEWAY_WORDS[name] for name in spec.network.gateways]
    if may_have_setup(spec) and INDEX not in spec.network.gateways:
        parts.append("package indexes, during setup")
    return ", ".join(parts) or "none"


async def _validation(ledger: Ledger) -> Sequence[Mapping[str, Any]]:
    validation = ledger.state.validation
    if validation is None:
        return []
    return [_gate(row) for row in await ledger.value(validation.results)]


def _gate(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a journalled verdict with all its fields; a command is a gate by its exit."""
    usual = {
        "name": row["command"],
        "parser": "exit",
        "required": True,
        "scope": "all",
        "status": "passed" if row["passed"] else "failed",
        "findings": [],
        **dict.fromkeys(("new", "old", "gone"), 0),
        "notes": [],
        **dict.fromkeys(("problem", "cure", "output"), ""),
        "exit_code": None,
        "before": None,
    }
    filled = {**usual, **row}
    if isinstance(filled["before"], Mapping):
        before = {"exit_code": None, "output": "", **filled["before"]}
        filled["before"] = {name: before[name] for name in _SHOWN_BEFORE if name in before}
    return filled


def _strategy(state: PlanState) -> dict[str, Any]:
    return {
        "summary": state.strategy,
        "decision_root_id": state.decision_root_id,
        "decisions": len(state.decisions),
        "invariants": [
            {"text": i.text, "scope": str(i.scope), "when": i.when, "passed": i.passed}
            for i in state.invariants
        ],
    }


def _proven(state: PlanState) -> str | None:
    validation = state.validation
    return validation.tree if validation is not None and validation.is_proof else None


def _progress(state: PlanState) -> list[dict[str, str]]:
    here = _STEPS.index(state.phase) if state.phase in _STEPS else -1
    rows = []
    for number, phase in enumerate(_STEPS):
        status = "complete" if number < here else "queued"
        if number == here:
            status = str(state.state)
        rows.append({"step": str(phase), "status": status})
    return rows


def _cost(state: PlanState) -> dict[str, Any]:
    limits, spent = state.limits, state.spent
    return {
        "tokens": spent.tokens,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "usd": round(spent.usd, 6) if spent.is_priced else None,
        "steps": spent.steps,
        "seconds": round(spent.seconds, 3),
        "limits": {
            "usd": limits.usd,
            "tokens": limits.tokens,
            "steps": limits.steps,
            "seconds": limits.seconds,
            "calls": limits.calls,
        },
    }


async def _applied(ledger: Ledger) -> dict[str, Any] | None:
    """Where the change set is now, until it is taken back; `reference` is a branch or a file."""
    applied = ledger.state.applied
    if applied is None:
        return None
    receipt = next(piece for _, piece in await ledger.parts(applied.record))
    return {"to": applied.to, "reference": receipt.get("reference")}


def _checkpoint(mark: Mark) -> dict[str, Any]:
    return {
        "checkpoint_id": mark.checkpoint_id,
        "trigger": str(mark.trigger),
        "turn": mark.turn,
        "call_id": mark.call_id,
        "tool": mark.tool,
        "files": mark.files,
        "stored_bytes": mark.stored,
        "is_fuzzy": mark.is_fuzzy,
    }


def _error_details(state: PlanState) -> dict[str, Any] | None:
    failure = state.failure
    if failure is None:
        return None
    return {"phase": str(failure.phase), "code": failure.code, "hint": failure.hint} | dict(
        failure.details
    )


def raised(state: PlanState) -> PatchyardError | None:
    """Return the failure a stopped plan holds as the exception it was, None when it has none."""
    failure = state.failure
    if failure is None:
        return None
    error = PatchyardError(failure.message, hint=failure.hint, details=failure.details)
    error.code = failure.code
    error.exit_code = failure.exit_code
    return error


__all__ = [
    "GATEWAY_WORDS",
    "base_data",
    "changeset_data",
    "plan_data",
    "raised",
    "reach",
]
