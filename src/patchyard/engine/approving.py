"""Whether a plan goes on to its next phase by itself, or somebody says so first."""

from typing import Any

from patchyard.domain.automation import (
    ALWAYS_ASKED,
    automation,
    result_confidence,
    strategy_confidence,
)
from patchyard.domain.codec import to_json
from patchyard.domain.errors import GuardRefused
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
from patchyard.domain.steering import Approved, Rejected, Subject, shown_text
from patchyard.engine.ledger import Ledger
from patchyard.engine.steering import Steering, digest_of


async def approve_phase(ledger: Ledger, steering: Steering, phase: Phase) -> None:
    """Go on to `phase`, asking first where a profile or a setting wants that.

    Raises ApprovalNeeded where nobody can be asked, GuardRefused where somebody said no.
    """
    state = ledger.state
    why = why_asked(state, phase)
    if not why:
        return
    digest = digest_of(_facts(state, phase))
    verdict = await steering.decided(
        Subject.PHASE, str(phase), digest, shown=shown_text(_shown(state, phase)), why=why
    )
    if isinstance(verdict, Rejected):
        raise GuardRefused(
            _no(phase, verdict),
            hint=f"`agents plan revert {state.plan_id} --reason TEXT` plans anew;"
            f" {by_hand(phase, state.plan_id)} goes on all the same",
        )


def by_hand(phase: Phase, plan_id: str) -> str:
    """Return the command with which somebody begins `phase` whatever was said of it."""
    if phase == Phase.APPLY:
        return f"`agents plan apply {plan_id}`"
    return f"`agents plan execute {plan_id}`"


def rejection(state: PlanState, phase: Phase) -> str:
    """Return that somebody said no to `phase`, and why; empty when nobody did."""
    verdict = state.steered.verdicts.get(digest_of(_facts(state, phase)))
    if not isinstance(verdict, Rejected) or not why_asked(state, phase):
        return ""
    return _no(phase, verdict)


def _no(phase: Phase, verdict: Rejected) -> str:
    return f"{phase} was rejected{f': {verdict.reason}' if verdict.reason else ''}"


async def command_approves(ledger: Ledger, phase: Phase) -> None:
    """Journal that the command which begins `phase` is somebody's approval of it."""
    state = ledger.state
    if not why_asked(state, phase):
        return
    digest = digest_of(_facts(state, phase))
    if not isinstance(state.steered.verdicts.get(digest), Approved):
        asked = state.steered.asked
        name = asked.approval_id if asked is not None and asked.digest == digest else ""
        await ledger.record(Approved(approval_id=name, digest=digest, by=f"agents plan {phase}"))


def why_asked(state: PlanState, phase: Phase) -> str:
    """Return what asks before `phase`; empty when it may begin, or has begun."""
    spec = state.known
    if not _is_next(state, phase):
        return ""
    if phase in spec.approvals:
        return f"approvals: {phase}"
    if spec.safety.require_human_approval:
        return "safety: require_human_approval"
    profile = automation(spec.automation_profile)
    wanted = profile.execute if phase == Phase.EXECUTE else profile.apply
    found = confidence(state, phase)
    if found >= wanted:
        return ""
    if wanted >= ALWAYS_ASKED:
        return f"profile {spec.automation_profile}"
    return f"profile {spec.automation_profile}: confidence {found:.2f}, {wanted:.2f} is needed"


def _is_next(state: PlanState, phase: Phase) -> bool:
    here = (state.phase, state.state)
    if phase == Phase.EXECUTE:
        return here == (Phase.STRATEGIZE, State.COMPLETE)
    is_handed = state.applied is not None or state.intended is not None
    is_some = state.changeset is not None and state.changeset.files > 0
    return here == (Phase.EXECUTE, State.COMPLETE) and is_some and not is_handed


def confidence(state: PlanState, phase: Phase) -> float:
    """Return the confidence that the profile's threshold for `phase` is compared with."""
    if phase == Phase.EXECUTE:
        is_declared = state.known.agent == "recipe"
        own = [d for d in state.decisions if d.parent_id == state.decision_root_id]
        return strategy_confidence(own, is_declared=is_declared)
    validation = state.validation
    return result_confidence(
        is_proven=validation is not None and validation.is_proof,
        rounds=state.rounds,
        is_touched=validation is not None and bool(validation.touched or validation.silenced),
        has_findings=bool(state.changeset is not None and state.changeset.findings),
    )


def _facts(state: PlanState, phase: Phase) -> list[Any]:
    """Return what exactly is approved: this strategy on this base, or this change set there."""
    if phase == Phase.EXECUTE:
        base = to_json(state.base) if state.base is not None else None
        return [str(phase), state.decision_root_id, state.strategy, base]
    changeset = state.changeset
    return [str(phase), changeset.changeset_id if changeset else None, state.known.apply_to]


def _shown(state: PlanState, phase: Phase) -> str:
    if phase == Phase.EXECUTE:
        return state.strategy
    files = state.changeset.files if state.changeset is not None else 0
    return f"{files} changed files to {state.known.apply_to}: {state.summary}"


__all__ = ["approve_phase", "by_hand", "command_approves", "confidence", "rejection", "why_asked"]
