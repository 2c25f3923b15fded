"""What a factory gives for each provider there is by name, and which one it takes by itself."""

from collections.abc import Mapping

import pytest

from models.loopback import Json, LoopbackServer, Peer
from models.ollama_server import OllamaServer
from models.servers import ChatServer
from patchyard.execution import Message, ProviderFactory, Speaker, TaskRequest
from patchyard.models.scripted import ScriptedReply

pytestmark = pytest.mark.anyio

NOWHERE = {"OLLAMA_HOST": "127.0.0.1:9", "XDG_CONFIG_HOME": "/nowhere"}
ASKED = TaskRequest(messages=(Message(speaker=Speaker.USER, text="say hello"),))


class Vendor(ChatServer):
    """One that has the model which the built-in provider takes by itself."""

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        if (method, path) != ("GET", "/models"):
            return await super().handle(method, path, data, peer)
        await peer.whole({"object": "list", "data": [{"id": "gpt-4o", "object": "model"}]})
        return True


def environ(url: str, vendor: str) -> Mapping[str, str]:
    """Return the variables that people set for a vendor's own provider."""
    if vendor == "ollama":
        return {**NOWHERE, "OLLAMA_HOST": url}
    name = vendor.upper()
    return {**NOWHERE, f"{name}_BASE_URL": url, f"{name}_API_KEY": "k-12345"}


@pytest.mark.parametrize("vendor", ["ollama", "openai", "resetdata"])
async def test_each_vendor_is_asked_by_its_name_at_its_own_address(vendor: str) -> None:
    def answering(_turn: int) -> ScriptedReply:
        return ScriptedReply(text=f"hello from {vendor}")

    server: LoopbackServer = ChatServer(answering=answering)
    if vendor == "ollama":
        server = OllamaServer(answering=answering)
    async with server.running() as url:
        model = await ProviderFactory(environ(url, vendor)).create(f"{vendor}:tiny")
        answer = await model.execute_task(ASKED)
    assert (model.name, answer.text) == (f"{vendor}:tiny", f"hello from {vendor}")
    assert answer.output_tokens


@pytest.mark.parametrize(("vendor", "name"), [("openai", "gpt-4o"), ("ollama", "tiny:latest")])
async def test_a_factory_takes_what_is_there_by_itself(vendor: str, name: str) -> None:
    server: LoopbackServer = OllamaServer() if vendor == "ollama" else Vendor()
    async with server.running() as url:
        model = await ProviderFactory(environ(url, vendor)).select()
    assert model.name == f"{vendor}:{name}"
