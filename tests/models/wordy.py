"""Replies as a model writes them that knows no calls, and a provider of such a model."""

import json
from typing import Any

from models.loopback import Json, Peer, Refusal
from models.servers import ChatServer
from patchyard.models.scripted import ScriptedReply


def block(name: str, **arguments: Any) -> str:
    """A call, as a model is asked to write it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def written(reply: ScriptedReply) -> ScriptedReply:
    """A reply whose calls stand in its text."""
    blocks = [
        block(name, **dict(given)) for name, given in reply.calls if not isinstance(given, str)
    ]
    return ScriptedReply(text="\n".join([reply.text, *blocks]).strip())


class Wordy(ChatServer):
    """Refuses to be offered tools, as servers do whose model has no words for calls."""

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        if data.get("tools"):
            self.requests.append(data)
            words = '"auto" tool choice requires --enable-auto-tool-choice to be set'
            raise Refusal(400, {"error": {"message": words}})
        return await super().handle(method, path, data, peer)
