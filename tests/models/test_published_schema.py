"""What we send is what the vendor's published description accepts."""

import json
from typing import Any

import jsonschema
import pytest

from models.loopback import Refusal
from models.responses_server import ResponsesServer, check_responses
from models.servers import ChatServer
from patchyard.clients.http import HttpClient
from patchyard.domain.messages import Message, ModelRequest, RequestedCall, Speaker
from patchyard.models.chat_completions import ChatCompletionsModel, Dialect
from patchyard.models.keys import Key
from patchyard.models.responses import Bearing, ResponsesModel
from patchyard.models.troubles import Provider
from patchyard.tools.toolset import toolset
from services import PUBLISHED

pytestmark = [pytest.mark.anyio, pytest.mark.service("published-schemas")]


def described() -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((PUBLISHED / "openai-api.json").read_text())
    return whole


TALK = (
    Message(speaker=Speaker.SYSTEM, text="s"),
    Message(speaker=Speaker.USER, text="u"),
    Message(
        speaker=Speaker.ASSISTANT,
        text="t",
        calls=(RequestedCall(id="c1", name="read_file", arguments='{"path": "a"}'),),
    ),
    Message(speaker=Speaker.TOOL, text="r", answers="c1"),
    Message(
        speaker=Speaker.ASSISTANT,
        calls=(RequestedCall(id="c2", name="finish", arguments="{}"),),
    ),
    Message(speaker=Speaker.TOOL, text="", answers="c2"),
    Message(speaker=Speaker.ASSISTANT, text="just text"),
    Message(speaker=Speaker.USER, text="again"),
)


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_request_fits_the_published_description(*, is_streaming: bool) -> None:
    description = described()
    schema = {
        "$ref": "#/components/schemas/CreateChatCompletionRequest",
        "components": description["components"],
    }
    tools = tuple(tool.spec for tool in toolset("/w").values())
    server = ChatServer()
    async with server.running() as url:
        model = ChatCompletionsModel(
            Provider(name="openai", base_url=url, model="tiny", key=Key(variable="")),
            HttpClient(url),
            dialect=Dialect(is_streaming=is_streaming, limit_field="max_completion_tokens"),
        )
        await model.complete(
            ModelRequest(messages=TALK, tools=tools, max_output_tokens=100, temperature=0.2)
        )
        await model.complete(ModelRequest(messages=TALK[:2]))
        await model.close()
    validator = jsonschema.Draft202012Validator(schema)
    known = _fields(description["components"]["schemas"])
    for request in server.requests:
        validator.validate(request)
        assert set(request) <= known
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**server.requests[0], "messages": [{"role": "tool"}]})


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_request_for_responses_fits_it_too(*, is_streaming: bool) -> None:
    tools = tuple(tool.spec for tool in toolset("/w").values())
    server = ResponsesServer()  # holds requests, its answers and its events to the description
    async with server.running() as url:
        model = ResponsesModel(
            Provider(name="openai", base_url=url, model="tiny", key=Key(variable="")),
            HttpClient(url),
            bearing=Bearing(is_streaming=is_streaming),
        )
        request = ModelRequest(messages=TALK, tools=tools, max_output_tokens=100, temperature=0.2)
        await model.complete(request)
        await model.close()
    (asked,) = server.requests
    for strange in ({"max_tokens": 5}, {"tools": [{"type": "function", "name": "x"}]}):
        with pytest.raises(Refusal):
            check_responses({**asked, **strange})


def _fields(schemas: dict[str, Any]) -> set[str]:
    open_ = [schemas["CreateChatCompletionRequest"]]
    names: set[str] = set()
    while open_:
        part = open_.pop()
        names |= set(part.get("properties", {}))
        open_ += part.get("allOf", [])
        if "$ref" in part:
            open_.append(schemas[part["$ref"].rpartition("/")[2]])
    return names
