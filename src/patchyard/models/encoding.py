"""Keeps the encoded form of what was sent before, so that a request costs what is new in it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from patchyard.domain.messages import Message, Thoughts
from patchyard.domain.tooling import ToolSpec
from patchyard.toolbox.wire import loaded

UNSEEN = "(there was an image here, which cannot be shown to you)"


class Encoded:
    """Bytes of messages and tools, kept from one request to the next; records are immutable."""

    def __init__(
        self,
        encode: Callable[[Message], Any],
        *,
        tool: Callable[[ToolSpec], Any] | None = None,
    ) -> None:
        """Take how a message is encoded, and a tool: as a function where nothing is said."""
        self._encode = encode
        self._tool = tool or _function
        self._sent: tuple[Message, ...] = ()
        self._parts: list[bytes] = []  # of each of them
        self._tools: tuple[Sequence[ToolSpec], bytes] = ((), b"[]")

    def each(self, messages: Sequence[Message]) -> Sequence[bytes]:
        """Return the JSON of each message; what was not sent this time is forgotten.

        A conversation mostly grows: then nothing is done for what was sent before.
        """
        count = len(self._sent)
        if tuple(messages[:count]) == self._sent:
            new = (to_json(self._encode(message)) for message in messages[count:])
            parts = [*self._parts, *new]
        else:
            known = dict(zip(map(id, self._sent), self._parts, strict=True))
            parts = [known.get(id(one)) or to_json(self._encode(one)) for one in messages]
        self._sent, self._parts = tuple(messages), parts
        return parts

    def tools(self, tools: Sequence[ToolSpec]) -> Mapping[str, bytes]:
        """Return the field of all tools, in the shape of this format; none where there are none."""
        if not tools:
            return {}
        if self._tools[0] is not tools:
            self._tools = (tools, to_json([self._tool(tool) for tool in tools]))
        return {"tools": self._tools[1]}


def body_of(
    settings: Mapping[str, Any], name: str, parts: Sequence[bytes], further: Mapping[str, bytes]
) -> bytes:
    """Return a request in JSON: settings, the array `name` of encoded parts, encoded fields.

    The parts are copied once: they may be a megabyte.
    """
    fields = [b',"%s":%s' % (key.encode(), value) for key, value in further.items()]
    said = [*parts] or [b""]
    said[0] = b'%s,"%s":[%s' % (to_json(settings)[:-1], name.encode(), said[0])
    said[-1] = b"%s]%s}" % (said[-1], b"".join(fields))
    return b",".join(said)


def to_json(value: Any) -> bytes:
    """Return compact JSON in UTF-8; bytes that were no text become replacement marks."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def without_images(message: Message) -> Message:
    """Return the message with a word in the place of its pictures."""
    if not message.images:
        return message
    return replace(message, text=f"{message.text}\n{UNSEEN}", images=())


def with_thoughts(parts: Sequence[Any], thoughts: Thoughts) -> list[Any]:
    """Return the parts of a message, the thoughts in their places among them."""
    mixed: list[Any] = []
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        mixed += [
            loaded(one.block)
            for one in thoughts.blocks
            if one.before == place or (is_last and one.before > place)
        ]
        mixed.append(part)
    return mixed


def object_of(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call as an object, an empty one where they are none."""
    try:
        value = loaded(arguments)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _function(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


__all__ = [
    "UNSEEN",
    "Encoded",
    "body_of",
    "object_of",
    "to_json",
    "with_thoughts",
    "without_images",
]
