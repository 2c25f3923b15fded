"""Pictures that tools give: shown to a model that can see, named to one that cannot."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from models.loopback import Json, LoopbackServer, Peer, Refusal
from models.messages_server import MessagesServer
from models.ollama_server import OllamaServer
from models.pictures import PNG
from models.responses_server import ResponsesServer
from models.scenes import EDIT, PLAN, WORK, Scene, set_up
from models.servers import ChatServer
from patchyard.clients.http import HttpClient
from patchyard.domain.errors import ModelFailed
from patchyard.domain.messages import Image, Message, ModelRequest, RequestedCall, Speaker
from patchyard.models.bounding import IMAGE_TOKENS, Bounding
from patchyard.models.chat_completions import ChatCompletionsModel
from patchyard.models.encoding import UNSEEN
from patchyard.models.keys import Key
from patchyard.models.messages import MessagesModel
from patchyard.models.ollama import OllamaModel
from patchyard.models.responses import ResponsesModel
from patchyard.models.scripted import ScriptedReply
from patchyard.models.texting import Texting
from patchyard.models.troubles import Provider

pytestmark = pytest.mark.anyio

DATA = base64.b64encode(PNG).decode()
IMAGE = Image(media_type="image/png", data=DATA)
CALLS = tuple(RequestedCall(id=id_, name="read_file", arguments="{}") for id_ in "ab")
ASKED = ModelRequest(
    messages=(
        Message(speaker=Speaker.USER, text="u"),
        Message(speaker=Speaker.ASSISTANT, calls=CALLS),
        Message(speaker=Speaker.TOOL, text="seen", answers="a", images=(IMAGE,)),
        Message(speaker=Speaker.TOOL, text="other", answers="b"),
    )
)
URL = f"data:image/png;base64,{DATA}"
SHOWN: dict[str, Any] = {
    "chat": {
        "role": "user",
        "content": [
            {"type": "text", "text": "The images that the tools showed:"},
            {"type": "image_url", "image_url": {"url": URL}},
        ],
    },
    "messages": [
        {"type": "text", "text": "seen"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": DATA},
        },
    ],
    "ollama": [DATA],
    "responses": [
        {"type": "input_text", "text": "seen"},
        {"type": "input_image", "image_url": URL, "detail": "auto"},
    ],
}
SPEAKERS: dict[str, tuple[type[LoopbackServer], Any]] = {
    "chat": (ChatServer, ChatCompletionsModel),
    "messages": (MessagesServer, MessagesModel),
    "ollama": (OllamaServer, OllamaModel),
    "responses": (ResponsesServer, ResponsesModel),
}


@asynccontextmanager
async def opened(fmt: str, server: Any, *, has_images: bool | None) -> AsyncIterator[Any]:
    async with server.running() as url:
        key = Key(variable="")
        provider = Provider(name="h", base_url=url, model="tiny", key=key, has_images=has_images)
        model = SPEAKERS[fmt][1](provider, HttpClient(url))
        await model.prepare()
        yield model
        await model.close()


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_a_picture_is_shown_as_the_format_has_it(fmt: str) -> None:
    server = SPEAKERS[fmt][0]()
    async with opened(fmt, server, has_images=True) as model:
        await model.complete(ASKED)
        again = (*ASKED.messages, Message(speaker=Speaker.USER, text="and"))
        await model.complete(ModelRequest(messages=again))
    for asked in server.requests:
        talk = asked.get("input") or asked["messages"]
        found = {
            "chat": lambda talk=talk: talk[4],
            "messages": lambda talk=talk: talk[2]["content"][0]["content"],
            "ollama": lambda talk=talk: talk[2]["images"],
            "responses": lambda talk=talk: talk[3]["output"],
        }[fmt]()
        assert found == SHOWN[fmt]


@pytest.mark.parametrize("fmt", SPEAKERS)
async def test_who_cannot_see_is_told_that_there_was_one(fmt: str) -> None:
    server = SPEAKERS[fmt][0]()
    async with opened(fmt, server, has_images=False) as model:
        await model.complete(ASKED)
    (asked,) = server.requests
    assert UNSEEN in json.dumps(asked)
    assert DATA not in json.dumps(asked)


async def test_a_model_of_ollama_says_whether_it_can_see() -> None:
    for capabilities, has_images in ((("vision", "tools"), True), (("tools",), False)):
        server = OllamaServer(capabilities=capabilities)
        async with opened("ollama", server, has_images=None) as model:
            assert model.facts.has_images is has_images


class Blind(ChatServer):
    """Refuses pictures, as servers do whose model cannot see."""

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        if "image_url" in json.dumps(data):
            self.requests.append(data)
            raise Refusal(400, {"error": {"message": "tiny is not a multimodal model"}})
        return await super().handle(method, path, data, peer)


async def test_a_server_that_refuses_a_picture_is_asked_without_from_then_on() -> None:
    server = Blind()
    async with opened("chat", server, has_images=True) as model:
        await model.complete(ASKED)
        await model.complete(ASKED)
        assert not model.facts.has_images
    assert ["image_url" in json.dumps(asked) for asked in server.requests] == [True, False, False]
    server = Blind(faults=["policy"])
    async with opened("chat", server, has_images=True) as model:
        with pytest.raises(ModelFailed, match="content filter"):
            await model.complete(ASKED)
        assert model.facts.has_images is False


def test_a_picture_is_bounded_and_put_beside_words() -> None:
    bare = ModelRequest(
        messages=tuple(Message(speaker=m.speaker, text=m.text) for m in ASKED.messages)
    )
    assert Bounding().tokens(ASKED) - Bounding().tokens(bare) >= IMAGE_TOKENS
    assert Texting().request(ASKED).messages[-1].images == (IMAGE,)


@pytest.mark.service("bubblewrap")
async def test_a_model_that_can_see_looks_at_a_file_and_so_does_its_recording(
    tmp_path: Path,
) -> None:
    scene = set_up("messages", tmp_path)
    (scene.site.repository / "logo.png").write_bytes(PNG)
    scene.server.answering = lambda _: looking(scene)
    talk = str(tmp_path / "talk")
    async with scene.server.running() as url:
        environ = scene.configure(url)
        lived = await scene.carry(environ, record_to=talk)
    assert lived.error is None, lived.words
    blind = set_up("chat", tmp_path / "blind")
    (blind.site.repository / "logo.png").write_bytes(PNG)
    blind.server.answering = lambda _: looking(blind)
    async with blind.server.running() as url:
        told = await blind.carry(blind.configure(url))
    assert told.error is None, told.words
    played = await scene.carry(environ, model=f"recorded:{talk}")
    assert played.error is None, played.words
    said = json.dumps(scene.server.requests[-1])
    assert "logo.png is binary, 68 bytes: an image, shown to you here" in said
    assert DATA in said
    unseen = json.dumps(blind.server.requests[-1])
    assert "failed (BINARY_FILE): logo.png is binary, 68 bytes" in unseen
    assert DATA not in unseen


def looking(scene: Scene) -> ScriptedReply:
    """Look at the picture, mend the text, end."""
    asked = scene.server.requests[-1]
    if "write_file" not in {tool.get("function", tool)["name"] for tool in asked["tools"]}:
        return PLAN
    turn = sum(message["role"] == "assistant" for message in asked["messages"])
    steps = (("read_file", {"path": "logo.png"}), ("search_replace", EDIT))
    return ScriptedReply(calls=(steps[turn],)) if turn < len(steps) else WORK[-1]
