"""A key that its provider repeats comes into no answer, no journal and no error."""

import json
from typing import Any

import pytest

from models.loopback import Peer
from models.test_hard_servers import serving
from models.test_odd_answers import OddServer
from models.test_provider_troubles import ASKED, SECRET, SPEAKERS, chat_model
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import (
    Message,
    ModelReply,
    ModelRequest,
    RequestedCall,
    Speaker,
    StopReason,
    Thought,
    Thoughts,
    Usage,
)
from patchyard.models.keys import HIDDEN, Key
from patchyard.models.unrepeating import LEAST_KEY, unrepeated

KEY = Key(variable="K", environ={"K": SECRET})
CALL = {"id": SECRET, "name": f"tool_{SECRET}", "arguments": json.dumps({"path": SECRET})}


def chat_answer() -> dict[str, Any]:
    function = {"name": CALL["name"], "arguments": CALL["arguments"]}
    said = {"content": f"it is {SECRET}", "tool_calls": [{"id": SECRET, "function": function}]}
    return {"model": SECRET, "choices": [{"message": said, "finish_reason": "stop"}]}


def messages_answer() -> dict[str, Any]:
    used = {"type": "tool_use", "id": SECRET, "name": CALL["name"], "input": {"path": SECRET}}
    thought = {"type": "thinking", "thinking": SECRET, "signature": "s"}
    content = [thought, {"type": "text", "text": f"it is {SECRET}"}, used]
    return {"model": SECRET, "content": content, "stop_reason": "tool_use"}


def ollama_answer() -> dict[str, Any]:
    function = {"name": CALL["name"], "arguments": {"path": SECRET}}
    said = {"content": f"it is {SECRET}", "tool_calls": [{"id": SECRET, "function": function}]}
    return {"model": "m", "message": said, "done": True}


def responses_answer() -> dict[str, Any]:
    text = {"type": "output_text", "text": f"it is {SECRET}"}
    used = {"type": "function_call", "call_id": SECRET, **CALL}
    output = [{"type": "message", "content": [text]}, used]
    return {"model": SECRET, "status": "completed", "output": output}


ANSWERS = {
    "chat": chat_answer,
    "messages": messages_answer,
    "ollama": ollama_answer,
    "responses": responses_answer,
}


@pytest.mark.anyio
@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_a_key_that_is_repeated_in_an_answer_is_hidden(fmt: str) -> None:
    async def repeating(peer: Peer) -> None:
        await peer.whole(ANSWERS[fmt]())

    async with serving(repeating) as (_, url):
        model = SPEAKERS[fmt][1](url, is_streaming=False)
        reply = await model.complete(ASKED)
        await model.close()
    assert SECRET not in repr(reply)
    assert reply.message.text == f"it is {HIDDEN}"
    (call,) = reply.message.calls
    assert call.name == f"tool_{HIDDEN}"
    assert json.loads(call.arguments) == {"path": HIDDEN}
    assert reply.message.thoughts is None


def replied(text: str, **more: Any) -> ModelReply:
    message = Message(speaker=Speaker.ASSISTANT, text=text, **more)
    return ModelReply(message=message, usage=Usage(), stop=StopReason.DONE, model="m")


def test_a_key_that_the_request_held_stays_so_that_an_edit_of_it_fits() -> None:
    reply = replied(f"it is {SECRET}")
    shown = Message(speaker=Speaker.TOOL, text=f"KEY={SECRET}", answers="1")
    assert unrepeated(reply, ModelRequest(messages=(shown,)), KEY) is reply
    call = RequestedCall(id="1", name="n", arguments=json.dumps({"k": SECRET}))
    called = Message(speaker=Speaker.ASSISTANT, text="", calls=(call,))
    assert unrepeated(reply, ModelRequest(messages=(called,)), KEY) is reply
    assert SECRET not in unrepeated(reply, ASKED, KEY).message.text


def test_a_short_key_is_a_word_that_code_may_hold() -> None:
    reply = replied("if value is EMPTY or not-needed")
    for word in ("EMPTY", "not-needed", "n" * (LEAST_KEY - 1)):
        assert unrepeated(reply, ASKED, Key(variable="K", environ={"K": word})) is reply
    assert unrepeated(reply, ASKED, Key()) is reply


def test_thoughts_stay_as_they_are_or_go() -> None:
    blocks = (Thought(before=0, block=json.dumps({"thinking": "well"})),)
    thoughts = Thoughts(maker="m", blocks=blocks)
    kept = unrepeated(replied(f"it is {SECRET}", thoughts=thoughts), ASKED, KEY)
    assert kept.message.thoughts == thoughts
    assert SECRET not in kept.message.text


@pytest.mark.anyio
@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_a_redirect_that_repeats_the_key_is_told_without_it(fmt: str) -> None:
    async def sending_on(peer: Peer) -> None:
        place = f"http://127.0.0.1:9/{SECRET}/next?key={SECRET}"
        await peer.whole({}, status=307, headers={"location": place})

    async with serving(sending_on) as (_, url):
        model = SPEAKERS[fmt][1](url)
        with pytest.raises(ModelUnavailable, match="not followed") as caught:
            await model.complete(ASKED)
        await model.close()
    assert SECRET not in f"{caught.value} {caught.value.hint} {caught.value.details}"
    assert f"http://127.0.0.1:9/{HIDDEN}/next" in caught.value.message


@pytest.mark.anyio
@pytest.mark.parametrize("before", range(360, 400, 5))
async def test_a_key_is_hidden_before_an_error_is_cut_off(before: int) -> None:
    escaped = SECRET.replace("-", "\\u002d")
    said = f'{{"error": {{"message": "{"m" * before}{escaped}"}}}}'

    async def refusing(peer: Peer) -> None:
        await peer.whole(said.encode(), status=400)

    async with serving(refusing) as (_, url):
        model = chat_model(url)
        with pytest.raises(ModelFailed) as caught:
            await model.complete(ASKED)
        await model.close()
    assert SECRET[:4] not in caught.value.message


@pytest.mark.anyio
async def test_a_key_is_hidden_before_the_beginning_of_an_unreadable_answer_is_shown() -> None:
    server = OddServer(body=b"data: " + b"x" * 60 + SECRET.encode() + b"\n\n")
    async with server.running() as url:
        model = chat_model(url)
        with pytest.raises(ModelFailed, match="no JSON") as caught:
            await model.complete(ASKED)
        await model.close()
    assert SECRET[:4] not in caught.value.message
