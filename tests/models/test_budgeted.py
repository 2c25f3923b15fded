"""What a request can cost at most: bounded from its bytes, set aside, given back when refused."""

import json
import unicodedata
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.budget import Ask
from patchyard.domain.errors import LimitReached, ModelFailed, ModelUnavailable
from patchyard.domain.messages import (
    Message,
    ModelFacts,
    ModelReply,
    ModelRequest,
    RequestedCall,
    Speaker,
    StopReason,
    Usage,
)
from patchyard.domain.tooling import Effect, ToolSpec
from patchyard.models.bounding import Bounding, escaped, plain
from patchyard.models.budgeted import BudgetedModel
from patchyard.models.chat_completions import encoded

pytestmark = pytest.mark.anyio

TEXTS = st.text(max_size=60)
FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
ARGUMENTS = st.dictionaries(TEXTS, TEXTS | st.integers() | st.lists(TEXTS, max_size=3), max_size=3)
TOOL = ToolSpec(
    name="read_file",
    description="Reads “a file”.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    effect=Effect.READ,
)


def size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def html_safe(value: Any) -> str:
    """JSON as careful servers write it: no character that HTML or a script would take amiss."""
    text = json.dumps(value)
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@given(text=TEXTS)
def test_no_normal_form_of_a_text_has_more_bytes(text: str) -> None:
    assert all(size(unicodedata.normalize(form, text)) <= plain(text) for form in FORMS)
    assert size(text) <= plain(text)


@given(arguments=ARGUMENTS)
def test_no_way_to_write_arguments_again_has_more_bytes(arguments: dict[str, Any]) -> None:
    sent = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    for again in (json.dumps(arguments), json.dumps(arguments, ensure_ascii=False)):
        assert size(again) <= escaped(sent)
    assert size(html_safe(arguments)) <= escaped(sent)


@given(text=TEXTS, arguments=ARGUMENTS)
def test_a_request_is_bounded_by_more_than_its_bytes(text: str, arguments: dict[str, Any]) -> None:
    call = RequestedCall(id="c1", name="read_file", arguments=json.dumps(arguments))
    messages = (
        Message(speaker=Speaker.USER, text=text),
        Message(speaker=Speaker.ASSISTANT, text=text, calls=(call,)),
        Message(speaker=Speaker.TOOL, text=text, answers="c1"),
    )
    bounding = Bounding()
    request = ModelRequest(messages=messages, tools=(TOOL,))
    wire = sum(size(json.dumps(encoded(m), ensure_ascii=False)) for m in messages)
    assert bounding.tokens(request) >= wire
    longer = ModelRequest(messages=(*messages, messages[0]), tools=request.tools)
    assert bounding.tokens(longer) > bounding.tokens(request) == Bounding().tokens(request)
    assert bounding.tokens(longer) == Bounding().tokens(longer)


class Purse:
    """A meter that grants so much, and remembers what it was asked."""

    def __init__(self, granted: int) -> None:
        self.granted = granted
        self.asked: list[Ask] = []
        self.released: list[str] = []

    async def reserve(self, ask: Ask) -> int:
        self.asked.append(ask)
        if not self.granted:
            raise LimitReached(limit_name="usd")
        return self.granted

    def release(self, reason: str) -> None:
        self.released.append(reason)


class Asked:
    """A model that answers, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self.failure = failure
        self.facts = ModelFacts(name="a:b", usd_per_million_input=2.0, usd_per_million_output=8.0)

    async def prepare(self) -> ModelFacts:
        return self.facts

    async def complete(
        self, request: ModelRequest, *, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        self.requests.append(request)
        if on_text is not None:
            on_text("hello")
        if self.failure is not None:
            raise self.failure
        message = Message(speaker=Speaker.ASSISTANT, text="hello")
        return ModelReply(message=message, usage=Usage(), stop=StopReason.DONE, model="b")

    async def close(self) -> None:
        return


REQUEST = ModelRequest(
    messages=(Message(speaker=Speaker.USER, text="hello"),), max_output_tokens=1000
)


async def test_the_provider_is_told_to_say_no_more_than_was_granted() -> None:
    model, purse = Asked(), Purse(granted=77)
    await BudgetedModel(model, purse).complete(REQUEST)
    assert model.requests[0].max_output_tokens == 77
    assert (purse.asked[0].output_tokens, purse.asked[0].usd_per_million_output) == (1000, 8.0)


async def test_what_cannot_be_set_aside_is_not_sent() -> None:
    model = Asked()
    with pytest.raises(LimitReached):
        await BudgetedModel(model, Purse(granted=0)).complete(REQUEST)
    assert model.requests == []


@pytest.mark.parametrize(
    ("failure", "is_free"),
    [
        (ModelUnavailable("nobody there", details={"kind": "refused"}), True),
        (ModelFailed("slow down", details={"status": 429}, retryable=True), True),
        (ModelFailed("too long", details={"kind": "context_too_long"}), True),
        (ModelFailed("no", details={"status": 400}), True),
        (ModelFailed("took too long", details={"status": 408}, retryable=True), False),
        (ModelFailed("oops", details={"status": 500}, retryable=True), False),
        (ModelFailed("cut", details={"kind": "cut"}, retryable=True), False),
        (ModelFailed("garbled", details={"kind": "garbled"}), False),
    ],
    ids=str,
)
async def test_only_what_was_refused_is_given_back(failure: Exception, *, is_free: bool) -> None:
    purse = Purse(granted=10)
    with pytest.raises(type(failure)):
        await BudgetedModel(Asked(failure), purse).complete(REQUEST)
    assert bool(purse.released) == is_free
