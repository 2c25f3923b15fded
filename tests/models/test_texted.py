"""A model that cannot call tools writes its calls: it is told how, and understood."""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile_mcp import PROGRAM
from models.ollama_server import OllamaServer
from models.scenes import EDIT, Scene, set_up
from models.servers import ChatServer
from models.wordy import Wordy, block, written
from patchyard.actors.reading import read
from patchyard.clients.http import HttpClient
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
from patchyard.domain.tooling import Effect, ToolSpec
from patchyard.models.chat_completions import ChatCompletionsModel
from patchyard.models.circuits import Circuits
from patchyard.models.failing_over import FailingOverModel
from patchyard.models.keys import Key
from patchyard.models.scripted import ScriptedReply
from patchyard.models.texted import TextedModel
from patchyard.models.texting import FORM, REMINDER, Sieve, Texting, heard
from patchyard.models.troubles import Provider
from patchyard.tools.toolset import NINE

pytestmark = pytest.mark.anyio

NAMES = ("finish", "read_file", "write_file")
TOOLS = tuple(
    ToolSpec(name=name, description="Do.", parameters={"type": "object"}, effect=Effect.READ)
    for name in NAMES
)
ASKED = (Message(speaker=Speaker.SYSTEM, text="s"), Message(speaker=Speaker.USER, text="u"))


ONE = '{"name": "read_file", "arguments": {"path": "a"}}'
CUT = ONE[:21]  # after the name
A, B = ("read_file", '{"path": "a"}'), ("read_file", '{"path": "b"}')


@pytest.mark.parametrize(
    ("text", "prose", "calls"),
    [
        ("Just words.", "Just words.", ()),
        (f"I look.\n{block('read_file', path='a')}", "I look.", (A,)),
        (
            f"One {block('read_file', path='a')} and {block('read_file', path='b')} two.",
            "One\n\nand\n\ntwo.",
            (A, B),
        ),
        ('<tool_call>{"name": "read_file", "arguments": {"path": "a"}}', "", (A,)),
        ('<tool_call>{"tool": "read_file", "parameters": {"path": "a"},}</tool_call>', "", (A,)),
        (f"<tool_call>[{json.dumps({'name': 'read_file', 'input': {'path': 'a'}})}]", "", (A,)),
        (f"<tool_call>\n{ONE}\n{ONE}\n</tool_call>Now.", "Now.", (A, A)),
        (f"<tool_call>{ONE}}}\n</tool_call>Now.", "Now.", (A,)),
        (f"<tool_call>{ONE}\nNow.\n{block('finish')}", "Now.", (A, ("finish", "{}"))),
        (
            f"<tool_call>{ONE[:21]}{block('finish')}",
            "",
            (("read_file", ONE[:21]), ("finish", "{}")),
        ),
        ('<tool_call>{"name": "read_file", "path": "a"}</tool_call>', "", (A,)),
        ('<tool_call>{"name": "finish"}</tool_call>', "", (("finish", "{}"),)),
        ('Look:\n```json\n{"name": "read_file", "arguments": {"path": "a"}}\n```', "Look:", (A,)),
        ('{"name": "read_file", "arguments": {"path": "a"}}', "", (A,)),
        (f"<think>{block('write_file')}</think>\nYes.", "Yes.", ()),
        (
            f"{block('read_file', path='a')}\n<tool_result>made up</tool_result>{block('finish')}",
            "",
            (A,),
        ),
        ("It says <tool_response>nothing", "It says", ()),
        (
            block("write_file", path="t", content="</tool_call> <tool_result> <tool_call>"),
            "",
            (("write_file", '{"path": "t", "content": "</tool_call> <tool_result> <tool_call>"}'),),
        ),
    ],
)
def test_calls_are_found_in_what_is_written(
    text: str, prose: str, calls: tuple[tuple[str, str], ...]
) -> None:
    said = heard(text, NAMES)
    assert (said.prose, said.calls) == (prose, calls)


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ('{"name": "read_file", "arguments": {"path": "a}}', "the JSON ends in the middle"),
        ('{"name": "write_file", "arguments": {"content": "say "hi""}}', "no JSON object"),
        ("read_file a.py", "there is no tool 'tool_call'"),
        ("", "there is no tool 'tool_call'"),
        ('{"name": "fly", "arguments": {}}', "there is no tool 'fly'"),
    ],
)
def test_a_broken_call_is_answered_with_how_to_write_it(inside: str, words: str) -> None:
    said = heard(f"<tool_call>{inside}</tool_call>", NAMES)
    calls = tuple(RequestedCall(id="x", name=n, arguments=a) for n, a in said.calls)
    message = Message(speaker=Speaker.ASSISTANT, calls=calls)
    reply = ModelReply(message=message, usage=Usage(), stop=StopReason.CALLS, model="m")
    (call,) = read(reply, names=NAMES, turn=0).calls
    assert words in call.problem
    refused = f"failed (VALIDATION_ERROR): {call.problem}"
    result = Message(speaker=Speaker.TOOL, text=refused, answers="x")
    put = Texting().request(ModelRequest(messages=(*ASKED, message, result), tools=TOOLS))
    assert REMINDER in put.messages[-1].text


def test_what_is_put_into_words_alternates_and_stays_the_same() -> None:
    call = RequestedCall(id="c0-0", name="read_file", arguments='{"path": "a"}')
    talk = (
        *ASKED,
        Message(speaker=Speaker.ASSISTANT, text="I look.", calls=(call,)),
        Message(speaker=Speaker.TOOL, text="x </tool_result> y", answers="c0-0"),
        Message(speaker=Speaker.USER, text="and now"),
        Message(speaker=Speaker.ASSISTANT, text="I am done."),
        Message(speaker=Speaker.USER, text="Call a tool."),
    )
    texting = Texting()
    first = texting.request(ModelRequest(messages=talk[:5], tools=TOOLS))
    whole = texting.request(ModelRequest(messages=talk, tools=TOOLS))
    assert all(a is b for a, b in zip(first.messages, whole.messages, strict=False))
    assert [m.speaker for m in whole.messages] == [
        *(Speaker.SYSTEM, Speaker.USER, Speaker.ASSISTANT, Speaker.USER),
        *(Speaker.ASSISTANT, Speaker.USER),
    ]
    assert whole.tools == ()
    assert not any(m.calls or m.answers for m in whole.messages)
    rules, _, said, told, _, nudged = (m.text for m in whole.messages)
    assert rules.startswith("s\n\n")
    assert FORM in rules
    assert all(f"- `{name}`: Do.\n" in rules for name in NAMES)
    assert said == f"I look.\n\n{block('read_file', path='a')}"
    assert told == '<tool_result name="read_file">\nx <\\/tool_result> y\n</tool_result>\n\nand now'
    assert nudged == f"Call a tool.\n\n{REMINDER}"


def test_without_tools_or_rules_nothing_is_added_but_what_must_be() -> None:
    bare = Texting().request(ModelRequest(messages=ASKED))
    assert [m.text for m in bare.messages] == ["s", "u"]
    late = Texting().request(ModelRequest(messages=(ASKED[1], ASKED[0])))
    assert [m.speaker for m in late.messages] == [Speaker.USER, Speaker.SYSTEM]
    (rules, asked) = Texting().request(ModelRequest(messages=ASKED[1:], tools=TOOLS)).messages
    assert (rules.speaker, asked.text) == (Speaker.SYSTEM, "u")


PIECES = st.sampled_from(
    ["I ", "look.", "\n", " ", "<", "<tool", "_call>", "<tool_call>", "</tool_call>", "```", "{"]
)


@given(st.lists(PIECES, max_size=12))
def test_what_is_shown_while_it_comes_is_the_prose(pieces: list[str]) -> None:
    shown: list[str] = []
    sieve = Sieve(shown.append)
    for piece in pieces:
        sieve.feed(piece)
    early = "".join(shown)
    prose = heard("".join(pieces), NAMES).prose
    sieve.end(prose)
    assert prose.startswith(early)
    assert "".join(shown) == prose
    assert "<tool_call>" not in early


@asynccontextmanager
async def opened(server: ChatServer, *, has_tools: bool = True) -> AsyncIterator[TextedModel]:
    async with server.running() as url:
        key = Key(variable="")
        provider = Provider(name="h", base_url=url, model="tiny", key=key, has_tools=has_tools)
        model = TextedModel(ChatCompletionsModel(provider, HttpClient(url)))
        yield model
        await model.close()


@pytest.mark.parametrize("has_tools", [True, False])
async def test_a_server_that_refuses_tools_is_asked_in_words_from_then_on(
    *, has_tools: bool
) -> None:
    reply = ScriptedReply(text="I look.", calls=(("read_file", {"path": "a"}),) * 2)
    server = Wordy(answering=lambda _: written(reply))
    heard_: list[str] = []
    async with opened(server, has_tools=has_tools) as model:
        asked = ModelRequest(messages=ASKED, tools=TOOLS, turn=3)
        said = await model.complete(asked, on_text=heard_.append)
        await model.complete(asked)
        assert not model.facts.has_tools
    assert ["tools" in asked for asked in server.requests] == [True] * has_tools + [False] * 2
    assert [call.id for call in said.message.calls] == ["text-3-0", "text-3-1"]
    assert (said.message.text, said.stop) == ("I look.", StopReason.CALLS)
    assert "".join(heard_) == "I look."


async def test_who_can_call_tools_is_offered_them_and_other_refusals_are_told() -> None:
    server = ChatServer(faults=["policy"])
    async with opened(server) as model:
        asked = ModelRequest(messages=ASKED, tools=TOOLS)
        with pytest.raises(ModelFailed, match="content filter"):
            await model.complete(asked)
        await model.complete(asked)
    assert all(len(asked["tools"]) == len(TOOLS) for asked in server.requests)


async def test_a_chain_goes_on_in_words_and_comes_back_out_of_them() -> None:
    reply = ScriptedReply(text="I look.", calls=(("read_file", {"path": "a"}),))
    able = ChatServer(answering=lambda _: reply, faults=["", "server-error"])
    wordy = Wordy(answering=lambda _: written(reply))
    async with opened(able) as first, opened(wordy) as second:
        chain = FailingOverModel((first, second), Circuits())
        talk: tuple[Message, ...] = ASKED
        for turn in range(3):
            said = await chain.complete(ModelRequest(messages=talk, tools=TOOLS, turn=turn))
            (call,) = said.message.calls
            result = Message(speaker=Speaker.TOOL, text=f"r{turn}", answers=call.id)
            talk = (*talk, said.message, result)
    told = wordy.requests[-1]["messages"]
    assert told[-1]["content"] == '<tool_result name="read_file">\nr0\n</tool_result>'
    roles = [message["role"] for message in able.requests[-1]["messages"]]
    assert roles == ["system", "user", *["assistant", "tool"] * 2]


STEPS = (
    ("list_directory", {"path": "."}),
    ("search_files", {"query": "*.py"}),
    ("grep_search", {"query": "helo"}),
    ("codebase_search", {"query": "greeting"}),
    ("read_file", {"path": "greet.py"}),
    ("search_replace", EDIT),
    ("write_file", {"path": "note.txt", "content": 'a "quoted" line\n<tool_call>\n'}),
    ("delete_file", {"path": "note.txt"}),
    ("execute_command", {"command": "grep -q hello greet.py"}),
    ("mcp__h__echo", {"text": "hello </tool_result>"}),
    ("finish", {"summary": "greets right"}),
)


async def run(scene: Scene, environ: dict[str, str], model: str, *words: str) -> Any:
    """What `agents run` says of a plan that went well."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "patchyard", "run", "Mend the greeting", "--in", "process"),
        *("--validate", "grep -q hello greet.py", "--format", "json", "--model", model, *words),
        cwd=scene.site.repository,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    said = json.loads(out)
    assert (process.returncode, said["status"]) == (0, "ok"), err
    return said["data"]


@pytest.mark.service("bubblewrap")
async def test_a_task_is_finished_with_all_nine_tools_and_one_of_mcp_by_a_model_without_calls(
    tmp_path: Path,
) -> None:
    scene = set_up("ollama", tmp_path)
    shutil.copy(PROGRAM, scene.site.repository / "server.py")
    server = scene.server
    assert isinstance(server, OllamaServer)
    server.capabilities = ("completion",)

    def answering(turn: int) -> ScriptedReply:
        is_planning = "`write_file`" not in server.requests[-1]["messages"][0]["content"]
        call = ("finish", {"summary": "look and mend"}) if is_planning else STEPS[turn]
        return written(ScriptedReply(text=f"Step {turn}.", calls=(call,)))

    server.answering = answering
    talk = str(tmp_path / "talk")
    async with server.running() as url:
        environ = scene.configure(url)
        settings = Path(environ["XDG_CONFIG_HOME"]) / "patchyard" / "config.yaml"
        settings.write_text("mcp_servers: {h: {command: python3, args: [server.py]}}\n")
        said = await run(scene, environ, "house:tiny", "--record", talk)
    played = await run(scene, environ, f"recorded:{talk}")  # knows nothing of words
    assert played["changeset"]["tree"] == said["changeset"]["tree"]
    assert [file["path"] for file in said["changeset"]["files"]] == ["greet.py"]
    assert {name for name, _ in STEPS[:-1]} == {*NINE, "mcp__h__echo"}
    assert not any("tools" in request for request in server.requests)
    results = server.requests[-1]["messages"][3::2]
    assert len(results) == len(NINE) + 1
    for (name, _), result in zip(STEPS, results, strict=False):
        assert re.match(rf'<tool_result name="{name}">\n(?!failed)', result["content"]), result
    assert "hello <\\/tool_result>\n" in results[-1]["content"]  # as the server said it back
