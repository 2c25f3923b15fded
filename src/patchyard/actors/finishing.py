"""The call that ends a phase: `finish`, answered by the actor itself and never by a toolbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchyard.domain.analysis import KINDS, SIZES
from patchyard.domain.assessing import Assessment, read_assessment
from patchyard.domain.decision import DecisionKind, Proposal
from patchyard.domain.design_record import RECORD_SCHEMA
from patchyard.domain.review import REVIEW_SCHEMA
from patchyard.domain.role import Output
from patchyard.domain.tooling import Effect, ToolSpec

FINISH = "finish"

_SUMMARY = {"type": "string", "description": "what was done and why, for people"}
_ANSWER = {"type": "string", "description": "the whole answer"}
_FAILED = {"type": "boolean", "description": "true when the task cannot be done"}
_KIND = {
    "type": "string",
    "enum": [str(kind) for kind in KINDS],
    "description": "what sort of work the task is; leave it out where none fits",
}
_COMPLEXITY = {
    "type": "string",
    "enum": [str(size) for size in SIZES],
    "description": "low: one place; medium: several files; high: many files, or design to find",
}
ASSESSED = ("complexity", "kind")  # arguments that are no text for people
_DECISION = {
    "type": "object",
    "properties": {
        "question": {"type": "string"},
        "choice": {"type": "string"},
        "alternatives": {"type": "array", "items": {"type": "string"}},
        "confidence": {"type": "number", "description": "0 to 1"},
        "rationale": {"type": "string"},
    },
    "required": ["question", "choice"],
}


@dataclass(frozen=True, kw_only=True)
class Finish:
    """What a finish call says."""

    summary: str
    is_failure: bool = False
    proposals: tuple[Proposal, ...] = ()
    product: Mapping[str, Any] = field(default_factory=dict)  # what a role's output is read from
    assessment: Assessment | None = None  # of a plan: what the task is
    problem: str = ""  # why the assessment cannot be read, told back


_PRODUCTS: Mapping[Output, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    Output.FINDINGS: ("End the review with its verdict.", REVIEW_SCHEMA, ("verdict",)),
    Output.RECORD: ("End the work with the decision.", RECORD_SCHEMA, tuple(RECORD_SCHEMA)),
}


def finish_spec(phase: str, output: Output = Output.CHANGES) -> ToolSpec:
    """Return `finish` as the model of that phase sees it."""
    if phase == "strategize":
        return _spec(
            "End planning with the plan.",
            {
                "summary": {"type": "string", "description": "the plan, as numbered steps"},
                "decisions": {
                    "type": "array",
                    "items": _DECISION,
                    "description": "choices you made; none where there was only one way",
                },
                "kind": _KIND,
                "complexity": _COMPLEXITY,
                "failed": _FAILED,
            },
        )
    usual = {"summary": _SUMMARY, "failed": _FAILED}
    if output in _PRODUCTS:
        description, schema, required = _PRODUCTS[output]
        return _spec(description, {**schema, **usual}, required=("summary", *required))
    if output == Output.ANSWER:
        return _spec("End with the answer.", {**usual, "summary": _ANSWER})
    return _spec("End the work with a summary.", usual)


def read_finish(
    phase: str, arguments: Mapping[str, Any], output: Output = Output.CHANGES
) -> Finish:
    """Take a finish call as it comes; whatever is missing is filled from what is there."""
    said = {k: v for k, v in arguments.items() if phase != "strategize" or k not in ASSESSED}
    texts = [v.strip() for v in said.values() if isinstance(v, str) and v.strip()]
    named = arguments.get("summary")
    summary = named.strip() if isinstance(named, str) and named.strip() else "\n".join(texts)
    failed = arguments.get("failed")
    is_failure = failed is True or (isinstance(failed, str) and failed.lower() == "true")
    if phase != "strategize" or is_failure:
        product = arguments if output in _PRODUCTS and not is_failure else {}
        return Finish(
            summary=summary or "no summary was given", is_failure=is_failure, product=product
        )
    assessment, problem = read_assessment(arguments.get("kind"), arguments.get("complexity"))
    return Finish(
        summary=summary or "no plan was given",
        proposals=_proposals(arguments, summary),
        assessment=assessment if assessment != Assessment() else None,
        problem=problem,
    )


def strategy(summary: str) -> Finish:
    """Take a text as the plan, with the one decision that it stands for."""
    return Finish(summary=summary, proposals=_proposals({}, summary))


def _spec(
    description: str, properties: Mapping[str, Any], *, required: Sequence[str] = ("summary",)
) -> ToolSpec:
    return ToolSpec(
        name=FINISH,
        description=description,
        effect=Effect.READ,
        parameters={
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        },
    )


def _proposals(arguments: Mapping[str, Any], summary: str) -> tuple[Proposal, ...]:
    stated = arguments.get("decisions")
    rows = [row for row in stated if isinstance(row, Mapping)] if isinstance(stated, list) else []
    made = tuple(_proposal(row) for row in rows if row.get("question") and row.get("choice"))
    if made:
        return made
    first = summary.strip().splitlines()[0] if summary.strip() else "no plan was given"
    return (
        Proposal(
            kind=DecisionKind.STRATEGY_CHOICE, question="How is the task done?", choice=first[:400]
        ),
    )


def _proposal(row: Mapping[str, Any]) -> Proposal:
    others = row.get("alternatives")
    sure = row.get("confidence")
    known = isinstance(sure, int | float) and not isinstance(sure, bool)
    return Proposal(
        kind=DecisionKind.STRATEGY_CHOICE,
        question=str(row["question"])[:400],
        choice=str(row["choice"])[:400],
        alternatives=tuple(str(o)[:400] for o in others) if isinstance(others, list) else (),
        confidence=min(max(float(sure), 0.0), 1.0) if known and sure is not None else None,
        rationale=str(row.get("rationale") or "")[:2000],
    )


__all__ = ["FINISH", "Finish", "finish_spec", "read_finish", "strategy"]
