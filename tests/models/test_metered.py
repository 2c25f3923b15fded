"""Prices as data, and what a model has cost."""

from dataclasses import replace
from typing import Any

import pytest

from patchyard.domain.errors import UsageError
from patchyard.domain.messages import Message, ModelReply, ModelRequest, Speaker, Usage
from patchyard.models.metered import MeteredModel
from patchyard.models.prices import Price, PriceTable, read_prices, shipped_prices
from patchyard.models.scripted import ScriptedModel, ScriptedReply

pytestmark = pytest.mark.anyio

ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="x" * 4000),))
TABLE = PriceTable(
    as_of="2025-01-01", prices={"house": {"tiny": Price(input=1.0, output=10.0, cached=0.5)}}
)


def test_the_shipped_table_has_a_date_and_knows_dated_names() -> None:
    table = shipped_prices()
    assert table.as_of.count("-") == 2
    assert table.price("openai", "gpt-4o") == table.price("openai", "gpt-4o-2024-08-06")
    assert table.price("openai", "gpt-4o-mini") != table.price("openai", "gpt-4o")
    assert table.price("openai", "nobody-knows") is None
    free = table.price("ollama", "anything:8b")
    assert free is not None
    assert free.input == 0


def test_cached_input_has_a_price_of_its_own() -> None:
    usage = Usage(input_tokens=2_000_000, cached_tokens=1_000_000, output_tokens=100_000)
    assert Price(input=1.0, output=10.0, cached=0.5).cost(usage) == pytest.approx(2.5)
    assert Price(input=1.0, output=10.0).cost(usage) == pytest.approx(3.0)


def test_input_that_is_written_to_a_cache_has_one_too_and_is_what_is_set_aside() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=300_000, written_tokens=500_000)
    dear = Price(input=1.0, output=10.0, cached=0.1, written=1.25)
    assert dear.cost(usage) == pytest.approx(0.2 + 0.03 + 0.625)
    assert Price(input=1.0, output=10.0).cost(usage) == pytest.approx(1.0)
    absurd = Usage(input_tokens=100, cached_tokens=90, written_tokens=90)
    assert dear.cost(absurd) * 1e6 == pytest.approx(9 + 12.5)
    table = PriceTable(as_of="2026-01-01", prices={"house": {"tiny": dear}})
    facts = MeteredModel(ScriptedModel(name="house:tiny"), table).facts
    assert facts.usd_per_million_input == 1.25


def test_no_row_of_the_shipped_table_has_a_cache_dearer_than_what_it_saves() -> None:
    table = shipped_prices()
    rows = [price for models in table.prices.values() for price in models.values()]
    assert len(rows) > 20
    for price in rows:
        assert (price.cached or 0.0) <= price.input <= price.most_input <= price.output
    named = table.price("anthropic", "claude-haiku-4-5-20251001")
    assert named is not None
    assert named == table.price("anthropic", "claude-haiku-4-5")
    assert table.price("anthropic", "claude-haiku-5-5") is None


async def test_each_reply_says_what_it_cost() -> None:
    model = MeteredModel(
        ScriptedModel(name="house:tiny", answering=lambda _: ScriptedReply(text="y" * 400)), TABLE
    )
    assert model.facts.usd_per_million_output == 10.0
    costs = [(await model.complete(ASKED)).usage.usd for _ in range(2)]
    assert costs[0] == pytest.approx((1001 + 101 * 10) / 1e6)
    assert costs[1] == costs[0]


async def test_an_unknown_price_is_left_unknown() -> None:
    class Unpriced(ScriptedModel):
        async def complete(self, request: ModelRequest, **more: Any) -> ModelReply:
            reply = await super().complete(request, **more)
            return replace(reply, usage=replace(reply.usage, usd=None))

    model = MeteredModel(
        Unpriced(name="house:new", answering=lambda _: ScriptedReply(text="y")), TABLE
    )
    assert (await model.complete(ASKED)).usage.usd is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("as_of = \n[x]", "line 1"),
        ("[openai]", "as_of"),
        ('as_of = "2025"\nopenai = 1', "must be a table"),
        ('as_of = "2025"\n[o]\nm = {input = 1}', "o.m: a price has"),
        ('as_of = "2025"\n[o]\nm = {input = 1, output = "x"}', "are numbers"),
        ('as_of = "2025"\n[o]\nm = {input = -1, output = 1}', "0 or more"),
    ],
)
def test_a_wrong_table_is_refused_at_its_place(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_prices(text, source="prices.toml")
