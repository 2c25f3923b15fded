"""Sets aside the most that a request can cost before it is sent, and sends nothing else."""

from dataclasses import replace

from patchyard.contracts.model import Meter, Model, OnText
from patchyard.domain.budget import Ask
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import ModelReply, ModelRequest
from patchyard.models.answering import DEFAULT_TOKENS
from patchyard.models.bounding import Bounding
from patchyard.models.wrapping import WrappedModel

UNREAD = frozenset({"context_too_long", "rate_limited", "no_quota"})  # kinds of refusals
TIMED_OUT = 408  # a server may have worked on such a request; on others of 4xx it did not


class BudgetedModel(WrappedModel):
    """A model whose every request is metered; `meter` is of the plan at hand."""

    def __init__(self, model: Model, meter: Meter | None = None) -> None:
        super().__init__(model)
        self._bounding = Bounding()
        self.meter = meter

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask the model within what was granted. Raises LimitReached before anything is sent."""
        if self.meter is None:
            return await self._model.complete(request, on_text=on_text)
        granted = await self.meter.reserve(self._asked(request))
        bounded = replace(request, max_output_tokens=granted)
        try:
            return await self._model.complete(bounded, on_text=on_text)
        except (ModelFailed, ModelUnavailable) as error:
            if _is_refusal(error):
                self.meter.release(error.message)
            raise

    def _asked(self, request: ModelRequest) -> Ask:
        facts = self._model.facts
        return Ask(
            input_tokens=self._bounding.tokens(request),
            output_tokens=request.max_output_tokens or DEFAULT_TOKENS,
            usd_per_million_input=facts.usd_per_million_input,
            usd_per_million_output=facts.usd_per_million_output,
        )


def _is_refusal(error: ModelFailed | ModelUnavailable) -> bool:
    """Whether nobody has worked on the request, so that nobody will charge for it."""
    if error.details.get("kind") in UNREAD:
        return True
    status = error.details.get("status")
    if isinstance(status, int):
        return 400 <= status < 500 and status != TIMED_OUT
    return isinstance(error, ModelUnavailable)


__all__ = ["BudgetedModel"]
