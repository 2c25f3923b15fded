"""What servers may ask a model for: words, within bounds; what it cost is the plan's."""

from typing import Any

import pytest

from patchyard.domain.body import Body
from patchyard.domain.booking import Charged, Settled
from patchyard.domain.budget import Amount
from patchyard.domain.fold import apply
from patchyard.domain.messages import Message, ModelReply, Speaker, StopReason, Usage
from patchyard.domain.sampling import (
    MOST_TOKENS,
    TEXT_CHARS,
    ModelLent,
    answer_of,
    refusal,
    sampling_of,
)
from patchyard.domain.spending import Reserved
from patchyard.domain.spending_fold import moves
from patchyard.domain.state import PlanState


def said(text: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


def test_a_conversation_in_words_is_asked_with_our_own_beginning() -> None:
    rows = [said("a"), said("b", "assistant"), {"role": "user", "content": [said("c")["content"]]}]
    found = sampling_of("h", {"messages": rows, "maxTokens": 10**9, "systemPrompt": "Be short."})
    assert found is not None
    assert [(str(each.speaker), each.text) for each in found.messages[1:]] == [
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    head = found.messages[0]
    assert head.speaker == Speaker.SYSTEM
    assert head.text.endswith(
        "no tools here, and nothing of the work that you are otherwise at.\n\nBe short."
    )
    assert found.max_tokens == MOST_TOKENS


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"messages": [], "maxTokens": 5},
        {"messages": [said("a")]},
        {"messages": [said("a")], "maxTokens": True},
        {"messages": [said("a")], "maxTokens": 0},
        {"messages": [said("a")], "maxTokens": 5, "systemPrompt": 3},
        {"messages": [said("a", "system")], "maxTokens": 5},
        {"messages": [said("a", "assistant")], "maxTokens": 5},
        {"messages": [said(3)], "maxTokens": 5},
        {"messages": ["a"], "maxTokens": 5},
        {"messages": [{"role": "user", "content": {"type": "image"}}], "maxTokens": 5},
        {"messages": [said("a")] * 51, "maxTokens": 5},
        {"messages": [said("x" * (TEXT_CHARS + 1))], "maxTokens": 5},
    ],
)
def test_what_cannot_be_asked_is_none(params: Any) -> None:
    assert sampling_of("h", params) is None


def test_an_answer_is_the_protocols() -> None:
    message = Message(speaker=Speaker.ASSISTANT, text="two")
    reply = ModelReply(message=message, usage=Usage(), stop=StopReason.LENGTH, model="m")
    assert answer_of(reply) == {
        "role": "assistant",
        "content": {"type": "text", "text": "two"},
        "model": "m",
        "stopReason": "maxTokens",
    }
    assert refusal("x" * 600)["error"] == {"code": -1, "message": "x" * 500}


def test_what_was_set_aside_is_settled_by_what_it_came_to() -> None:
    state = PlanState(plan_id="p", version=3)
    reserved = Reserved(input_tokens=100, output_tokens=50, usd=1.0)
    state = apply(state, reserved, 4)
    lent = ModelLent(
        call_id="c",
        server="h",
        model="m",
        usd=0.25,
        input_tokens=10,
        output_tokens=5,
        body=Body(),
    )
    amount = Amount(nano_usd=250_000_000, tokens=15)
    assert list(moves(state, lent)) == [
        Settled(number=4, amount=amount),
        Charged(amount=Amount(steps=1)),
    ]
    after = apply(state, lent, 5)
    assert after.held is None
    assert (after.spent.usd, after.spent.tokens, after.spent.steps) == (0.25, 15, 1)
