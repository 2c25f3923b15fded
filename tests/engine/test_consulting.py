"""Questions of servers in the middle of a call: bounded, and answered by who is there or nobody."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from patchyard.contracts.approver import Reply
from patchyard.contracts.environment import Toolbox
from patchyard.domain.elicitation import Question
from patchyard.domain.events import Noted
from patchyard.engine.consulting import MOST, Counsel, consulted
from patchyard.engine.ledger import Ledger

pytestmark = pytest.mark.anyio

ASKS = {"asks": {"params": '{"message": "m", "requestedSchema": {"properties": {}}}'}}
ARGS = {"server": "h", "timeout_s": 0.05, "allow": ["elicitation"]}


class Box:
    """A toolbox that settles each answer with the next of `results`, or never."""

    def __init__(self, *results: Mapping[str, Any] | None) -> None:
        self.results = list(results)
        self.sent: list[tuple[str, Any]] = []
        self.cancelled: list[str] = []
        self.asked = asyncio.Event()
        self.notes: list[str] = []
        self.known: dict[str, Mapping[str, Any]] = {}  # what an earlier engine's calls came to

    async def attach(self, call_id: str) -> Mapping[str, Any] | None:
        return self.known.get(call_id)

    async def call(self, call_id: str, _op: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        if call_id in self.known:
            return self.known[call_id]
        self.sent.append((call_id, args["answer"]))
        self.asked.set()
        result = self.results.pop(0)
        if result is None:
            await asyncio.Event().wait()
        return result or {}

    async def cancel(self, call_id: str) -> None:
        self.cancelled.append(call_id)

    def note(self, event: Noted) -> None:
        self.notes.append(event.text)

    async def asks(
        self,
        payload: Mapping[str, Any],
        reply: Reply | None = None,
        *,
        is_away: bool = False,
        args: Mapping[str, Any] = ARGS,
    ) -> Mapping[str, Any]:
        async def consult(_question: Question) -> Reply | None:
            if is_away:
                await asyncio.Event().wait()
            return reply

        toolbox, ledger = cast("Toolbox", self), cast("Ledger", self)
        counsel = Counsel(ledger=ledger, consult=consult)
        return await consulted(counsel, toolbox, "c", args, payload)


async def test_a_call_without_a_question_is_as_it_is() -> None:
    box = Box()
    assert await box.asks({"success": True}) == {"success": True}
    assert await box.asks(ASKS, args={"server": "h"}) == ASKS  # nothing was allowed
    assert box.sent == []


async def test_a_question_that_is_none_is_declined_and_one_that_waits_too_long_is_over() -> None:
    box = Box(ASKS, {"success": True})
    assert await box.asks({"asks": {"params": "["}}, is_away=True) == {"success": True}
    assert box.sent == [("c-a", {"action": "decline"}), ("c-a-a", {"action": "cancel"})]
    assert box.notes[0] == "MCP server h asked for what nobody can be asked; declined"
    assert box.notes[1] == "MCP server h asked: m; nobody answered"


async def test_questions_without_an_end_are_not_followed() -> None:
    box = Box(*[ASKS] * (MOST + 1))
    reply = Reply(content={}, by="terminal")
    assert await box.asks(ASKS, reply) == ASKS
    assert len(box.sent) == MOST
    assert box.notes[-1].endswith("answered at the terminal: yes")


async def test_who_answered_an_engine_that_was_killed_is_not_asked_again() -> None:
    box = Box({"success": True})
    box.known = {"c-a": ASKS}  # the first answer came to another question
    assert await box.asks(ASKS, Reply(content={}, by="terminal")) == {"success": True}
    assert box.sent == [("c-a-a", {"action": "accept", "content": {}})]
    assert len(box.notes) == 1


async def test_who_is_cancelled_in_an_answer_cancels_that() -> None:
    box = Box(None)
    task = asyncio.create_task(box.asks(ASKS))
    await box.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert box.cancelled == ["c-a"]
