"""What came of a plan's role, for programs: the role itself, its review, record or proof."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.domain.codec import to_json
from patchyard.domain.colleagues import ColleagueAsked, ColleagueHeard
from patchyard.domain.design_record import DesignRecord, markdown_of
from patchyard.domain.inquiries import Inquiries, RoleAnswered, RoleAsked
from patchyard.domain.meanings import restored
from patchyard.domain.review import Review, sarif_of
from patchyard.domain.review_coverage import ChangedCoverage, coverage_words
from patchyard.domain.state import PlanState
from patchyard.engine.ledger import Ledger

TOOL = "patchyard-review"


async def product_data(ledger: Ledger) -> Mapping[str, Any]:
    """Return what a plan's data says of its role and of others that it had to do with."""
    charter = ledger.state.known.charter
    return {
        "role": {"name": ledger.state.known.role, "output": str(charter.output)},
        "review": await _review(ledger),
        "record": await _record(ledger),
        "removal": _removal(ledger),
        "answer": await _answer(ledger),
        "questions": _questions(ledger.state.inquiries),
        "colleagues": [to_json(each) for each in ledger.state.colleagues.heard],
    }


def plans_beside(state: PlanState) -> Sequence[Mapping[str, str]]:
    """Return the plans in which other roles work for this one, and what each did there."""
    open_ = state.colleagues.asked
    rows = [_beside("was asked", each) for each in state.inquiries.asked.values()]
    rows += [_beside("looked at the result", each) for each in state.colleagues.heard]
    return rows + ([_beside("looks at the result", open_)] if open_ else [])


def _beside(did: str, each: RoleAsked | ColleagueAsked | ColleagueHeard) -> Mapping[str, str]:
    return {"role": each.role, "did": did, "plan_id": each.colleague_id}


async def _review(ledger: Ledger) -> Mapping[str, Any] | None:
    event = ledger.state.review
    if event is None:
        return None
    review = restored(Review, await ledger.value(event.body))
    coverage = await _coverage(ledger)
    sarif = sarif_of(review, tool=TOOL, coverage=coverage)
    return {
        "verdict": str(review.verdict),
        "subject": event.subject,
        "summary": review.summary,
        "findings": [{"rule": "", **to_json(each)} for each in review.findings],
        "coverage": coverage,
        "sarif": sarif,
    }


async def _coverage(ledger: Ledger) -> Mapping[str, Any] | None:
    event = ledger.state.coverage
    if event is None:
        return None
    found = restored(ChangedCoverage, await ledger.value(event.body) or {})
    share = 100 * event.covered / event.measured if event.measured else None
    return {
        "changed": event.changed,
        "measured": event.measured,
        "covered": event.covered,
        "percent": None if share is None else round(share, 1),
        "files": [{"uncovered": [], **to_json(each)} for each in found.files],
        "unreported": list(found.unreported),
        "settings": list(found.settings),
        "commands": list(event.commands),
        "problem": event.problem,
        "summary": coverage_words(event),
    }


def _questions(inquiries: Inquiries) -> Sequence[Mapping[str, Any]]:
    """Return what other roles were asked, oldest first; what they said is the call's result."""
    return [
        _question(each, inquiries.answered.get(each.call_id)) for each in inquiries.asked.values()
    ]


def _question(asked: RoleAsked, answered: RoleAnswered | None) -> Mapping[str, Any]:
    spent = answered or RoleAnswered(call_id="", role="", colleague_id="")
    return {
        "call_id": asked.call_id,
        "role": asked.role,
        "plan_id": asked.colleague_id,
        "question": asked.question,
        "tree": asked.tree,
        "changes": asked.changes,
        "is_answered": answered is not None and not answered.error,
        "error": spent.error or None,
        "usd": spent.usd if spent.is_priced else None,
        "tokens": spent.input_tokens + spent.output_tokens,
        "steps": spent.steps,
    }


async def _answer(ledger: Ledger) -> str | None:
    event = ledger.state.answer
    return None if event is None else str(await ledger.value(event.body))


async def _record(ledger: Ledger) -> Mapping[str, Any] | None:
    event = ledger.state.record
    if event is None:
        return None
    record = restored(DesignRecord, await ledger.value(event.body))
    options = [{"reason": "", **to_json(each)} for each in record.options]
    return {**to_json(record), "options": options, "markdown": markdown_of(record)}


def _removal(ledger: Ledger) -> Mapping[str, Any] | None:
    event = ledger.state.removal
    if event is None:
        return None
    return {"subject": event.subject, "tree": event.tree, "noticed": list(event.noticed)}


__all__ = ["TOOL", "plans_beside", "product_data"]
