"""Lends a plan's model to an MCP server for one answer, within the plan's own limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.contracts.actor import Lending, Session
from patchyard.domain.errors import LimitReached, ModelFailed, ModelUnavailable
from patchyard.domain.events import Noted
from patchyard.domain.sampling import ModelLent, Sampling, answer_of, refusal
from patchyard.engine.budgeting import PlanMeter
from patchyard.engine.ledger import Ledger
from patchyard.engine.rows import body_of


@dataclass(frozen=True, kw_only=True)
class Lender:
    """Who lends the model of one session, and has it paid for."""

    ledger: Ledger
    session: Session
    meter: PlanMeter

    async def lend(self, call_id: str, asked: Sampling) -> Mapping[str, Any]:
        """Return what the server is told: the model's answer, journalled, or a refusal."""
        session = self.session
        if not isinstance(session, Lending):
            return self._refused(asked, "no model works on this")
        try:
            await self.meter.admit()
            reply = await session.lend(asked.messages, max_tokens=asked.max_tokens)
        except (LimitReached, ModelFailed, ModelUnavailable) as error:
            return self._refused(asked, error.message)
        said = [{"speaker": str(each.speaker), "text": each.text} for each in asked.messages]
        await self.ledger.record(
            ModelLent(
                call_id=call_id,
                server=asked.server,
                model=reply.model,
                usd=reply.usage.usd,
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                body=body_of({"asked": said, "answer": reply.message.text}),
            )
        )
        return answer_of(reply)

    def _refused(self, asked: Sampling, why: str) -> Mapping[str, Any]:
        self.ledger.note(Noted(text=f"MCP server {asked.server} asked the model; refused: {why}"))
        return refusal(why)


__all__ = ["Lender"]
