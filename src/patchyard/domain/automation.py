"""How far a plan goes by itself: profiles as one table of thresholds and approvals (B+)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from patchyard.domain.decision import Decision, DecisionKind
from patchyard.domain.errors import UnknownName
from patchyard.domain.plan import PROFILES
from patchyard.domain.tooling import Effect

ALWAYS_ASKED = 1.01  # a threshold that no confidence reaches
UNSAID = 0.5  # confidence in a strategy whose actor stated none
UNPROVEN = 0.3  # confidence in a result that no gate has seen
LESS_BY_ROUND = 0.05  # for each proof that failed before
LESS_BY_TOUCHED = 0.2  # where tests or tool settings were changed
LESS_BY_FINDINGS = 0.2  # where there is something odd to look at
MOST_REVERTS = 5  # of one plan, by whomever


@dataclass(frozen=True, kw_only=True)
class Automation:
    """What one profile lets a plan do without being asked."""

    execute: float  # least confidence in the strategy at which execute begins
    apply: float  # least confidence in the result at which it is handed over as ordered
    calls: frozenset[Effect] = frozenset()  # approved one by one while executing
    reverts: int = 0  # how often a failed proof leads to a new strategy
    is_asking: bool = True  # on a terminal; else it stops at once


_WRITING = frozenset({Effect.WRITE, Effect.RUN})
_RUNNING = frozenset({Effect.RUN})

TABLE: Mapping[str, Automation] = {
    "manual": Automation(execute=ALWAYS_ASKED, apply=ALWAYS_ASKED, is_asking=False),
    "review": Automation(execute=ALWAYS_ASKED, apply=ALWAYS_ASKED, calls=_WRITING),
    "supervised": Automation(execute=ALWAYS_ASKED, apply=ALWAYS_ASKED, calls=_RUNNING),
    "cautious": Automation(execute=0.8, apply=0.95),
    "trusted": Automation(execute=0.5, apply=0.7, reverts=1),
    "auto": Automation(execute=0.0, apply=0.0),
    "ci": Automation(execute=0.0, apply=0.7, reverts=1, is_asking=False),
    "full-auto": Automation(execute=0.0, apply=0.0, reverts=2),
}


def automation(profile: str) -> Automation:
    """Return what `profile` allows. Raises UnknownName; there is no silent fallback."""
    if profile not in TABLE:
        raise UnknownName.among("automation profile", profile, PROFILES)
    return TABLE[profile]


def known_profile(profile: str) -> str:
    """Return `profile`. Raises UnknownName."""
    automation(profile)
    return profile


def strategy_confidence(decisions: Iterable[Decision], *, is_declared: bool) -> float:
    """Return the least confidence among the choices of a strategy; one that people declared is 1.

    What an actor states is a claim: it can lower the bar of nobody but of whom chose the profile.
    """
    if is_declared:
        return 1.0
    stated = [
        decision.confidence
        for decision in decisions
        if decision.kind == DecisionKind.STRATEGY_CHOICE and decision.confidence is not None
    ]
    return max(0.0, min(1.0, *stated)) if stated else UNSAID


def result_confidence(
    *, is_proven: bool, rounds: int, is_touched: bool, has_findings: bool
) -> float:
    """Return the confidence in a change set, from its proof alone."""
    if not is_proven:
        return UNPROVEN
    less = LESS_BY_ROUND * rounds + LESS_BY_TOUCHED * is_touched + LESS_BY_FINDINGS * has_findings
    return round(max(UNPROVEN, 1.0 - less), 2)


__all__ = [
    "ALWAYS_ASKED",
    "LESS_BY_FINDINGS",
    "LESS_BY_ROUND",
    "LESS_BY_TOUCHED",
    "MOST_REVERTS",
    "TABLE",
    "UNPROVEN",
    "UNSAID",
    "Automation",
    "automation",
    "known_profile",
    "result_confidence",
    "strategy_confidence",
]
