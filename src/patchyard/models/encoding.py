"""Keeps the encoded form of what was sent before, so that a request costs what is new in it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from patchyard.domain.messages import Message
from patchyard.domain.tooling import ToolSpec


class Encoded:
    """Bytes of messages and tools, remembered by identity; records are immutable."""

    def __init__(self, encode: Callable[[Message], Any]) -> None:
        self._encode = encode
        self._known: dict[int, tuple[Message, bytes]] = {}
        self._tools: tuple[Sequence[ToolSpec], bytes] = ((), b"[]")

    def messages(self, messages: Sequence[Message]) -> bytes:
        """Return the JSON array of all messages; what was not sent this time is forgotten."""
        known: dict[int, tuple[Message, bytes]] = {}
        for message in messages:
            found = self._known.get(id(message))
            known[id(message)] = found or (message, to_json(self._encode(message)))
        self._known = known
        return b"[" + b",".join([known[id(message)][1] for message in messages]) + b"]"

    def tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """Return the JSON array of all tools, in the shape that both formats share."""
        if self._tools[0] is not tools:
            self._tools = (tools, to_json([_function(tool) for tool in tools]))
        return self._tools[1]


def to_json(value: Any) -> bytes:
    """Return compact JSON in UTF-8; bytes that were no text become replacement marks."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _function(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


__all__ = ["Encoded", "to_json"]
