"""Puts a price on what a model answers, whatever its wire format."""

from dataclasses import replace

from patchyard.contracts.model import Model, OnText
from patchyard.domain.messages import ModelFacts, ModelReply, ModelRequest
from patchyard.models.prices import PriceTable
from patchyard.models.wrapping import WrappedModel


class MeteredModel(WrappedModel):
    """A model whose replies say what they cost.

    A request whose answer is lost is budgeted by the engine, from the intent in its journal.
    """

    def __init__(self, model: Model, prices: PriceTable) -> None:
        super().__init__(model)
        provider, _, name = model.facts.name.partition(":")
        self._price = prices.price(provider, name)

    @property
    def facts(self) -> ModelFacts:
        """The model's own facts, and its price."""
        return self._priced(super().facts)

    async def prepare(self) -> ModelFacts:
        """Prepare the model."""
        return self._priced(await super().prepare())

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask the model and put the cost into the reply's usage."""
        reply = await self._model.complete(request, on_text=on_text)
        if self._price is None:
            return reply
        return replace(reply, usage=replace(reply.usage, usd=self._price.cost(reply.usage)))

    def _priced(self, facts: ModelFacts) -> ModelFacts:
        price = self._price
        if price is None:
            return facts
        return replace(
            facts, usd_per_million_input=price.most_input, usd_per_million_output=price.output
        )


__all__ = ["MeteredModel"]
