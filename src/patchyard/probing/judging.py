"""The rule from two runs, inside and where nothing protects, to a verdict. Pure but for looking."""

import os
from collections.abc import Mapping

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.probing.attack import Attack, Ruling, Run, Verdict, Where
from patchyard.probing.known import KNOWN, Known

NEEDS_ROOT = "planting its bait needs root"


def judge(
    attack: Attack,
    kind: ExecutionEnvironment,
    inside: Run,
    control: Run,
    *,
    known: Mapping[ExecutionEnvironment, Mapping[str, Known]] = KNOWN,
) -> Ruling:
    """Return the verdict. Nothing is held that did not run, or that works nowhere here."""
    seen = attack.evidence(inside)
    if seen:
        listed = known.get(kind, {}).get(attack.name)
        if listed is None:
            return _ruling(attack, Verdict.SUCCEEDED, seen)
        return _ruling(attack, Verdict.KNOWN, f"{seen} ({listed.why})")
    if not inside.has_begun:
        said = "; ".join(filter(None, (inside.refusal, inside.ending)))
        return _ruling(attack, Verdict.NOT_SHOWN, f"it did not run inside: {said}")
    if not attack.evidence(control):
        reason = control.refusal or "it came to nothing"
        return _ruling(attack, Verdict.NOT_SHOWN, f"nothing protects, and yet: {reason}")
    return _ruling(attack, Verdict.HELD, inside.refusal)


def without_root(attack: Attack) -> Ruling | None:
    """Return the verdict about an attack whose bait cannot be planted; None where it can."""
    if not attack.needs_root or os.geteuid() == 0:
        return None
    return _ruling(attack, Verdict.NOT_SHOWN, NEEDS_ROOT)


def _ruling(attack: Attack, verdict: Verdict, note: str) -> Ruling:
    return Ruling(
        attack=attack.name,
        group=attack.group,
        title=attack.title,
        verdict=verdict,
        is_of_engine=attack.where in {Where.ENGINE, Where.CHECKOUT},
        note=note,
    )


__all__ = ["NEEDS_ROOT", "judge", "without_root"]
