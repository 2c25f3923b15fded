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
