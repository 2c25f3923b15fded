"""How many tokens a request can take at most, whoever's tokenizer counts them.

A tokenizer that works on bytes makes one token of a byte at worst, and all that chat models use
do, if only for what they have no word for. So every byte counts as a token, in the longest form
that a server may give the text before it counts: normalised by Unicode's rules, arguments of calls
escaped, tools indented. What a server's template adds of its own is allowed for beside that.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from patchyard.domain.messages import Message, ModelRequest
from patchyard.domain.tooling import ToolSpec

REQUEST_TOKENS = 2_048  # a template's own words: how to call tools, the date, who the model is
MESSAGE_TOKENS = 64  # marks of a message, its speaker, the id that it answers
CALL_TOKENS = 128  # marks of a call
TOOL_TOKENS = 64  # marks of a tool
IMAGE_TOKENS = 40_000  # a picture in the finest detail, where small models count the most
ESCAPED = 6  # characters of \u0000
_ODD = re.compile(r"[^ !#-%(-;=?-\[\]-~]")  # what some JSON writer escapes


class Bounding:
    """Bounds requests of one conversation; what was bounded before is not measured again."""

    def __init__(self) -> None:
        self._known: tuple[Message, ...] = ()
        self._sum = 0  # of the known messages
        self._tools: tuple[Sequence[ToolSpec], int] = ((), 0)

    def tokens(self, request: ModelRequest) -> int:
        """Return an upper bound of the tokens that `request` takes."""
        messages, count = request.messages, len(self._known)
        if messages[:count] != self._known:
            count, self._sum = 0, 0
        self._sum += sum(_of_message(message) for message in messages[count:])
        self._known = messages
        return REQUEST_TOKENS + self._of_tools(request.tools) + self._sum

    def _of_tools(self, tools: Sequence[ToolSpec]) -> int:
        if self._tools[0] is not tools:
            self._tools = (tools, sum(_of_tool(tool) for tool in tools))
        return self._tools[1]


def _of_message(message: Message) -> int:
    calls = sum(
        CALL_TOKENS + len(call.id) + escaped(call.name) + escaped(call.arguments)
        for call in message.calls
    )
    thoughts = sum(plain(one.block) for one in message.thoughts.blocks) if message.thoughts else 0
    said = len(message.answers or "") + plain(message.text) + calls + thoughts
    return MESSAGE_TOKENS + said + IMAGE_TOKENS * len(message.images)


def _of_tool(tool: ToolSpec) -> int:
    shown = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return TOOL_TOKENS + len(json.dumps(shown, indent=4))


def plain(text: str) -> int:
    """Return the bytes of a text in its longest form by any of Unicode's normal forms."""
    if text.isascii():
        return len(text)
    return sum(count * _longest(character) for character, count in Counter(text).items())


def escaped(text: str) -> int:
    """Return the bytes of a text in which a server may escape whatever JSON can be escaped."""
    odd: list[str] = _ODD.findall(text)
    pairs = sum(character > "\uffff" for character in odd)
    spaces = text.count(",") + text.count(":")  # that another JSON writer puts after them
    return len(text) + spaces + (ESCAPED - 1) * len(odd) + ESCAPED * pairs


def _longest(character: str) -> int:
    if character.isascii():
        return 1
    forms = (character, *(unicodedata.normalize(form, character) for form in ("NFD", "NFKD")))
    return max(len(form.encode("utf-8", "replace")) for form in forms)


__all__ = ["Bounding", "escaped", "plain"]
