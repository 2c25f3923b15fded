"""Counts tokens and money of a model, whatever its wire format."""

from dataclasses import dataclass, replace

from patchyard.contracts.model import Model, OnText
from patchyard.domain.errors import ModelFailed
from patchyard.domain.messages import (
    Message,
    ModelFacts,
    ModelReply,
    ModelRequest,
    Speaker,
    Usage,
    estimated_usage,
)
from patchyard.models.prices import Price, PriceTable


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a model has taken so far."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0  # None: the price is not known


class MeteredModel:
    """A model whose replies say what they cost.

    A request that was lost on the way counts as charged: its estimated tokens are added to the
    next reply's usage.
    """

    def __init__(self, model: Model, prices: PriceTable) -> None:
        self._model = model
        provider, _, name = model.facts.name.partition(":")
        self._price = prices.price(provider, name)
        self._lost = Usage()
        self._spent = Spent(usd=None if self._price is None else 0.0)

    @property
    def facts(self) -> ModelFacts:
        """The model's own facts, and its price."""
        return self._priced(self._model.facts)

    @property
    def spent(self) -> Spent:
        """What it has taken so far."""
        return self._spent

    async def prepare(self) -> ModelFacts:
        """Prepare the model."""
        return self._priced(await self._model.prepare())

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask the model and put the cost into the reply's usage."""
        try:
            reply = await self._model.complete(request, on_text=on_text)
        except ModelFailed as error:
            if error.retryable:
                empty = Message(speaker=Speaker.ASSISTANT)
                self._lost = _sum(self._lost, estimated_usage(request, empty))
            raise
        usage = _sum(reply.usage, self._lost)
        self._lost = Usage()
        usage = replace(usage, usd=self._cost(usage, reply.usage.usd))
        self._count(usage)
        return replace(reply, usage=usage)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    def _cost(self, usage: Usage, stated: float | None) -> float | None:
        if self._price is not None:
            return self._price.cost(usage)
        return stated

    def _count(self, usage: Usage) -> None:
        before = self._spent
        unknown = before.usd is None or usage.usd is None
        self._spent = Spent(
            requests=before.requests + 1,
            input_tokens=before.input_tokens + usage.input_tokens,
            output_tokens=before.output_tokens + usage.output_tokens,
            usd=None if unknown else (before.usd or 0.0) + (usage.usd or 0.0),
        )

    def _priced(self, facts: ModelFacts) -> ModelFacts:
        price = self._price or _own_price(facts)
        if price is None:
            return facts
        return replace(
            facts, usd_per_million_input=price.input, usd_per_million_output=price.output
        )


def _own_price(facts: ModelFacts) -> Price | None:
    if facts.usd_per_million_input is None or facts.usd_per_million_output is None:
        return None
    return Price(input=facts.usd_per_million_input, output=facts.usd_per_million_output)


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        is_estimated=one.is_estimated or other.is_estimated,
    )


__all__ = ["MeteredModel", "Spent"]
