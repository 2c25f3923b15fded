"""What a hostile provider answers costs little memory and no time beyond its length."""

import asyncio
import json
import os
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest

from models.loopback import Peer
from models.test_hard_servers import serving
from models.test_provider_troubles import ASKED, SPEAKERS
from patchyard.actors.reading import read
from patchyard.clients.http import LINE_BYTES, HttpClient, HttpTrouble, Trouble
from patchyard.domain.errors import ModelFailed
from patchyard.domain.messages import (
    Message,
    ModelReply,
    ModelRequest,
    RequestedCall,
    Speaker,
    StopReason,
    Usage,
)
from patchyard.models.answering import LONGEST_ID, LONGEST_NAME, MOST_THOUGHT, Assembly
from patchyard.toolbox.wire import MOST_PARTS

pytestmark = pytest.mark.anyio

MEGABYTE = 1024 * 1024
MOST_MEGABYTES = 200
EMPTY = b'{"choices":[' + b"[]," * MOST_PARTS + b"0]}"
ASKING = """
    import anyio
    from models.test_provider_troubles import ASKED, SPEAKERS
    from patchyard.domain.errors import ModelFailed

    async def ask():
        model = SPEAKERS[{fmt!r}][1]({url!r})
        try:
            await model.complete(ASKED)
        except ModelFailed as error:
            print(error.message)
        await model.close()

    anyio.run(ask)
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


async def many_values(peer: Peer) -> None:
    """One line, an event and a whole document at once, of empty lists."""
    await peer.begin("text/event-stream")
    await peer.chunk(b"data: " + EMPTY + b"\n\n")
    await peer.left()


async def lines_of_one_event(peer: Peer) -> None:
    await peer.begin("text/event-stream")
    await peer.chunk(b'data: {"a":[0\n')
    for _ in range(LINE_BYTES // MEGABYTE + 1):
        await peer.chunk(b"data: " + b" " * MEGABYTE + b"\n")
    await peer.left()


async def lines_of_one_document(peer: Peer) -> None:
    await peer.begin("application/json")
    await peer.chunk(b'{"a":[0\n')
    for _ in range(LINE_BYTES // MEGABYTE + 1):
        await peer.chunk(b",[]" * (MEGABYTE // 3) + b"\n")
    await peer.left()


@pytest.mark.parametrize("fmt", ["chat", "messages", "responses"])
@pytest.mark.parametrize(
    ("behaving", "words"),
    [
        (many_values, f"more than {MOST_PARTS:,} values"),
        (lines_of_one_event, "longer than is read"),
        (lines_of_one_document, "longer than is read"),
    ],
)
async def test_an_answer_that_would_take_much_memory_is_not_read(
    fmt: str, behaving: Any, words: str
) -> None:
    async with serving(behaving) as (_, url):
        model = SPEAKERS[fmt][1](url)
        with pytest.raises(ModelFailed, match=words) as caught:
            await model.complete(ASKED)
        await model.close()
    assert caught.value.retryable


async def test_a_list_of_models_that_would_take_much_memory_is_not_read() -> None:
    async def many(peer: Peer) -> None:
        await peer.whole(EMPTY)

    for behaving in (lines_of_one_document, many):
        async with serving(behaving) as (_, url), HttpClient(url) as client:
            with pytest.raises(HttpTrouble) as caught:
                await client.fetch("/models")
        assert caught.value.kind is Trouble.GARBLED


@pytest.mark.parametrize("fmt", ["chat", "ollama"])
async def test_an_answer_of_empty_lists_takes_no_more_than_its_share_of_memory(fmt: str) -> None:
    async def hostile(peer: Peer) -> None:
        await peer.begin("application/json" if fmt == "ollama" else "text/event-stream")
        prefix = b"" if fmt == "ollama" else b"data: "
        await peer.chunk(prefix + b'{"choices":[0\n')
        for _ in range(LINE_BYTES // MEGABYTE - 1):
            await peer.chunk(prefix + b",[]" * (MEGABYTE // 3 - 8) + b"\n")
        await peer.chunk(prefix + b"]}\n\n")
        await peer.end()

    async with serving(hostile) as (_, url):
        asking = textwrap.dedent(ASKING.format(fmt=fmt, url=url))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", asking),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
    assert b"more than 500,000 values" in said
    peak = int(said.split(b"VmHWM:")[1].split()[0]) // 1024
    assert peak < MOST_MEGABYTES


@pytest.mark.parametrize(
    "function", [{}, {"name": "", "arguments": ""}, {"name": "read_file", "arguments": "{}"}]
)
def test_an_answer_of_nothing_but_calls_is_full_in_time(function: Mapping[str, str]) -> None:
    assembly = Assembly(request=ModelRequest(messages=(), max_output_tokens=1000), model="m")
    for count in range(1000):
        assembly.add_call(None, f"call-{count}", function)
        if assembly.is_full:
            break
    assert 100 < assembly.calls_begun < 1000
    assert assembly.reply().stop is StopReason.LENGTH


def test_a_fair_answer_of_the_shortest_calls_is_not_cut() -> None:
    assembly = Assembly(request=ModelRequest(messages=(), max_output_tokens=1000), model="m")
    for count in range(100):  # of ten tokens each
        assembly.add_call(count, f"call_{count:024}", {"name": "ls", "arguments": '{"path":"."}'})
    assert not assembly.is_full


def test_names_and_the_id_of_a_call_are_kept_as_far_as_they_are_of_use() -> None:
    assembly = Assembly(request=ASKED, model="m")
    assembly.name("n" * MEGABYTE)
    for id_ in ("i" * MEGABYTE, "j" * MEGABYTE):
        assembly.add_call(None, id_, {"name": "r" * MEGABYTE, "arguments": "{"})
        assembly.add_call(None, id_, {"arguments": "}"})
    reply = assembly.reply()
    assert reply.model == "n" * LONGEST_NAME
    assert [call.id for call in reply.message.calls] == ["i" * LONGEST_ID, "j" * LONGEST_ID]
    assert [call.arguments for call in reply.message.calls] == ["{}", "{}"]
    assert {call.name for call in reply.message.calls} == {"r" * LONGEST_NAME}


def test_a_tool_by_a_name_without_an_end_is_told_in_few_words() -> None:
    call = RequestedCall(id="1", name="read_file" + "e" * MEGABYTE, arguments="{}")
    message = Message(speaker=Speaker.ASSISTANT, text="", calls=(call,))
    reply = ModelReply(message=message, usage=Usage(), stop=StopReason.CALLS, model="m")
    (found,) = read(reply, names=["read_file", "write_file"], turn=1).calls
    assert len(found.problem) < 200


def test_thoughts_without_an_end_are_not_kept() -> None:
    assembly = Assembly(request=ASKED, model="m", maker="us")
    assembly.begin_thought(0, {"type": "thinking", "thinking": ""})
    for _ in range(MOST_THOUGHT):
        assembly.add_to_thought(0, "thinking", "hm")
    assembly.add_text("so")
    assert assembly.reply().message.thoughts is None
    assert sum(map(len, assembly._growing[0]["thinking"])) <= MOST_THOUGHT


def test_pieces_of_a_thought_are_put_together_and_a_block_that_begins_anew_is_another() -> None:
    assembly = Assembly(request=ASKED, model="m", maker="us")
    assembly.begin_thought(0, {"thinking": "old"})
    assembly.add_to_thought(0, "thinking", " words")
    assembly.begin_thought(0, {"thinking": "a"})
    for piece in ("b", "c"):
        assembly.add_to_thought(0, "thinking", piece)
    assembly.add_text("so")
    kept = assembly.reply().message.thoughts
    assert kept is not None
    assert [json.loads(one.block) for one in kept.blocks] == [{"thinking": "abc"}]
