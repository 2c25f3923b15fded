"""Invariants of a plan: reconciled, told to the actor, and really checked where they can be."""

from collections.abc import Sequence

from patchyard.contracts.clock import Clock
from patchyard.domain.changeset import Base
from patchyard.domain.decision import Decision, DecisionKind
from patchyard.domain.errors import ReconciliationBlockedError
from patchyard.domain.events import DecisionRecorded, InvariantChecked
from patchyard.domain.invariant import Invariant, reconcile
from patchyard.engine.ledger import Ledger
from patchyard.engine.proof import Prover


def enforced(
    invariants: Sequence[Invariant], clock: Clock, root_id: str
) -> Sequence[DecisionRecorded]:
    """Reconcile a plan's invariants; return one decision for each (B10, B11)."""
    reconciled = reconcile(invariants)
    return [
        DecisionRecorded(
            decision=Decision(
                decision_id=clock.new_id(),
                parent_id=root_id,
                kind=DecisionKind.INVARIANT_ENFORCED,
                question=f"does the invariant of scope {invariant.scope} bind this plan?",
                choice=invariant.text,
                rationale=_rationale(invariant, reconciled.conflicts),
            )
        )
        for invariant in reconciled.effective
    ]


def _rationale(invariant: Invariant, conflicts: Sequence[str]) -> str:
    how = f"checked by `{invariant.check}`" if invariant.check else "told to the actor"
    about = [text for text in conflicts if invariant.text in text]
    return "; ".join([how, *about])


def commands(ledger: Ledger) -> Sequence[str]:
    """Return the check commands of the invariants that bind a plan."""
    return [str(each.check) for each in _checked(ledger)]


def _checked(ledger: Ledger) -> Sequence[Invariant]:
    return [i for i in reconcile(ledger.state.known.invariants).effective if i.check]


async def check(
    ledger: Ledger, prover: Prover, base: Base, *, tree: str | None, when: str
) -> Sequence[InvariantChecked]:
    """Run the check commands on the base (`before`) or the result (`after`) and record them."""
    checked = _checked(ledger)
    results = await prover.run(base, [str(i.check) for i in checked], tree=tree)
    events = [
        InvariantChecked(
            text=invariant.text,
            scope=invariant.scope,
            when=when,
            passed=result.passed,
            exit_code=result.exit_code,
            output=result.output[-2000:],
        )
        for invariant, result in zip(checked, results, strict=True)
    ]
    if events:
        await ledger.record(*events)
    return events


def require_held(events: Sequence[InvariantChecked]) -> None:
    """Raise ReconciliationBlockedError naming the invariants that do not hold."""
    broken = [event for event in events if not event.passed]
    if broken:
        listed = ", ".join(f"{event.text!r} (exit {event.exit_code})" for event in broken)
        raise ReconciliationBlockedError(
            f"invariants do not hold {broken[0].when} the work: {listed}",
            hint="`agents plan diff` shows what broke it"
            if broken[0].when == "after"
            else "mend the base, or remove the invariant with `agents invariant remove ID`",
            details={"output": broken[0].output},
        )


__all__ = ["check", "commands", "enforced", "require_held"]
