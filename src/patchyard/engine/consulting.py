"""Questions that an MCP server puts in the middle of a call: to a person who is there, or a model.

The toolbox settles a call with the question; the answer goes back as another call, which is settled
with the result or the next question. So an engine that was killed finds both again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.contracts.approver import Reply
from patchyard.contracts.environment import Toolbox
from patchyard.domain.elicitation import ACCEPT, CANCEL, DECLINE, Question, question_of
from patchyard.domain.events import Noted
from patchyard.domain.mcp import MCP_ANSWER
from patchyard.domain.sampling import METHOD as SAMPLING
from patchyard.domain.sampling import refusal, sampling_of
from patchyard.domain.tooling import finite
from patchyard.engine.answers import USUAL_S, answer_in_time, cancelled
from patchyard.engine.ledger import Ledger
from patchyard.engine.lending import Lender
from patchyard.toolbox.wire import loaded

MOST = 16  # questions of one call; the toolbox puts fewer
SHOWN = 300  # characters of a question in the journal

Consult = Callable[[Question], Awaitable[Reply | None]]
"""Puts a question to whoever is there; None: nobody is."""


@dataclass(frozen=True, kw_only=True)
class Counsel:
    """Who answers the questions of servers in one plan."""

    ledger: Ledger
    consult: Consult
    lender: Lender | None = None  # of the plan's model; None: nobody lends it


async def consulted(
    counsel: Counsel,
    toolbox: Toolbox,
    call_id: str,
    args: Mapping[str, Any],
    payload: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return what a call comes to once all that its server asked meanwhile is answered.

    Where nothing was allowed in `args` no answer of a toolbox puts a question.

    Raises EnvironmentBroken as the call itself does.
    """
    asked_by, server = call_id, str(args.get("server"))
    if not args.get("allow"):
        return payload
    within_s = finite(args.get("timeout_s"), USUAL_S)
    for _ in range(MOST):
        if not isinstance(asks := payload.get("asks"), Mapping):
            return payload
        sent = {"asked_by": asked_by, "timeout_s": within_s, "answer": {"action": CANCEL}}
        asked_by = f"{asked_by}-a"
        try:
            # An engine that was killed may have sent the answer; the toolbox then keeps to that.
            if await answer_in_time(toolbox.attach(asked_by), sent) is None:
                answer = await _answer(counsel, call_id, server, asks, within_s=within_s)
                sent = {**sent, "answer": answer}
            payload = await answer_in_time(toolbox.call(asked_by, MCP_ANSWER, sent), sent)
        except asyncio.CancelledError:
            await cancelled(toolbox, asked_by)
            raise
    return payload


async def _answer(
    counsel: Counsel, call_id: str, server: str, asks: Mapping[str, Any], *, within_s: float
) -> Mapping[str, Any]:
    try:
        params = loaded(str(asks.get("params")))
    except ValueError:
        params = None
    if asks.get("method") == SAMPLING:
        return await _lent(counsel, call_id, server, params, within_s=within_s)
    return await _asked(counsel, server, params, within_s=within_s)


async def _lent(
    counsel: Counsel, call_id: str, server: str, params: Any, *, within_s: float
) -> Mapping[str, Any]:
    asked = sampling_of(server, params)
    if asked is None or counsel.lender is None:
        text = f"MCP server {server} asked the model for what it cannot be asked; refused"
        counsel.ledger.note(Noted(text=text))
        return refusal("only a conversation in words can be answered here, of a plan at work")
    try:
        async with asyncio.timeout(within_s):
            return await counsel.lender.lend(call_id, asked)
    except TimeoutError:
        return refusal("the model did not answer in time")


async def _asked(
    counsel: Counsel, server: str, params: Any, *, within_s: float
) -> Mapping[str, Any]:
    question = question_of(server, params)
    if question is None:
        text = f"MCP server {server} asked for what nobody can be asked; declined"
        counsel.ledger.note(Noted(text=text))
        return {"action": DECLINE}
    reply = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            reply = await counsel.consult(question)
    answer: Mapping[str, Any]
    if reply is None:
        said, answer = "nobody answered", {"action": CANCEL}
    elif reply.content is None:
        said, answer = f"declined at the {reply.by}", {"action": DECLINE}
    else:
        names = ", ".join(reply.content) or "yes"
        said = f"answered at the {reply.by}: {names}"
        answer = {"action": ACCEPT, "content": dict(reply.content)}
    text = " ".join(question.text.split())[:SHOWN]
    counsel.ledger.note(Noted(text=f"MCP server {server} asked: {text}; {said}"))
    return answer


__all__ = ["MOST", "SHOWN", "Consult", "Counsel", "consulted"]
