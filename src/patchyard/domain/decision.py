"""Decisions: what was asked, chosen and why, as a tree with one root."""

from dataclasses import dataclass
from enum import StrEnum


class DecisionKind(StrEnum):
    """What a decision is about; `prompt_definition` is the only root (B+)."""

    PROMPT_DEFINITION = "prompt_definition"
    INVARIANT_ENFORCED = "invariant_enforced"
    STRATEGY_CHOICE = "strategy_choice"
    IMPLEMENTATION_CHOICE = "implementation_choice"
    VALIDATION_RESPONSE = "validation_response"
    SUBPLAN_SPAWN = "subplan_spawn"
    SUBPLAN_PARALLEL_SPAWN = "subplan_parallel_spawn"


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A decision as an actor states it, before it has an id and a place in the tree."""

    kind: DecisionKind
    question: str
    choice: str
    alternatives: tuple[str, ...] = ()
    confidence: float | None = None  # 0 to 1, None when nobody said
    rationale: str = ""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One node of the decision tree, as journalled."""

    decision_id: str  # ULID
    parent_id: str | None  # None for the root alone
    kind: DecisionKind
    question: str
    choice: str
    alternatives: tuple[str, ...] = ()
    confidence: float | None = None
    rationale: str = ""
    context: str = ""  # hash or short text of what was known then


__all__ = ["Decision", "DecisionKind", "Proposal"]
