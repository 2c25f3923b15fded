"""How tools are offered, called and answered in plain text, for models that cannot call them.

Pure: from requests to requests, and from a text to the prose and the calls in it.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from patchyard.clients.written_calls import (
    CLOSED,
    OPENED,
    THOUGHT,
    find_calls,
    parse_arguments,
    text_call,
)
from patchyard.domain.messages import Message, ModelRequest, Speaker
from patchyard.domain.tooling import ToolSpec
from patchyard.models.encoding import object_of

FORM = f"""\
{OPENED}
{{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}
{CLOSED}"""
RULES = f"""\
# How to call tools

You act by tools alone. To call one, write a block of this form into your answer:

{FORM}

- One JSON object is in each block. In its texts a line break is written \\n, a quote \\" and a
  backslash \\\\.
- Several blocks may follow each other; each is one call.
- End your answer after the last block. What came of the calls is told to you in the next message,
  in `tool_result` blocks, in the same order. Never write such a block yourself.

The tools there are, each with the JSON schema of its arguments:
"""
REMINDER = (
    f"(A call is written like this, with JSON in it, and nothing follows the last one:\n{FORM})"
)
BROKEN = "tool_call"  # named where a block does not say which tool it calls
_REFUSED = "failed (VALIDATION_ERROR)"
_RESULT = re.compile(r"<tool_res(?:ult|ponse)\b")
_RESULT_END = re.compile(r"</(?=tool_result)")
_NAME = re.compile(r"""["']?\b(?:name|tool|function)["']?\s*[:=]\s*["']([\w.-]+)["']""")
_ARGUMENTS = re.compile(r"""["']?\b(?:arguments|parameters|input)["']?\s*[:=]\s*(?=[{"'])""")
_LOOSE = json.JSONDecoder(strict=False)  # takes raw line breaks in strings
_MARK = re.compile(r"<tool_(?:call|res)|```")
_MARKS = ("<tool_call", "<tool_res", "```")
_STARTS = ("{", "[", "<think")  # of a text that may be no prose at all


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What an answer says, and the calls that stand in it."""

    prose: str
    calls: tuple[tuple[str, str], ...] = ()  # name, arguments as they were written


class Texting:
    """Puts requests into text; what was put so before stays the same object."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[tuple[object, ...], Message]] = {}

    def request(self, request: ModelRequest) -> ModelRequest:
        """Return the request without tools and calls, all of them said in words."""
        known: dict[tuple[int, ...], tuple[tuple[object, ...], Message]] = {}

        def kept(sources: tuple[object, ...], make: Callable[[], Message]) -> Message:
            key = tuple(map(id, sources))
            known[key] = self._known.get(key) or (sources, make())
            return known[key][1]

        said: list[Message] = []
        groups = list(_groups(request.messages))
        if not groups or groups[0][0].speaker is not Speaker.SYSTEM:
            groups.insert(0, ())
        before: Message | None = None
        for place, group in enumerate(groups):
            if place == 0 and request.tools:
                said.append(kept((*group, request.tools), _offering(group, request.tools)))
            elif group and group[0].speaker is Speaker.ASSISTANT:
                before = group[0]
                said.append(kept(group, _asking(before)))
            elif group and group[0].speaker is Speaker.SYSTEM:
                said += group
            elif group:
                said.append(kept((before, *group), _answering(before, group)))
        self._known = known
        return replace(request, messages=tuple(said), tools=(), size=0)


def _groups(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Yield what is said in one go: results and what a user says after them are one message."""
    group: list[Message] = []
    for message in messages:
        if message.speaker in {Speaker.TOOL, Speaker.USER}:
            group.append(message)
            continue
        if group:
            yield tuple(group)
        group = []
        yield (message,)
    if group:
        yield tuple(group)


def _offering(group: Sequence[Message], tools: Sequence[ToolSpec]) -> Callable[[], Message]:
    def make() -> Message:
        lines = [
            f"- `{tool.name}`: {tool.description}\n  {json.dumps(tool.parameters)}"
            for tool in tools
        ]
        words = [message.text for message in group]
        return Message(speaker=Speaker.SYSTEM, text="\n\n".join([*words, RULES + "\n".join(lines)]))

    return make


def _asking(message: Message) -> Callable[[], Message]:
    def make() -> Message:
        written = (
            json.dumps({"name": call.name, "arguments": object_of(call.arguments)})
            for call in message.calls
        )
        blocks = [f"{OPENED}\n{call}\n{CLOSED}" for call in written]
        text = "\n\n".join(filter(None, (message.text, "\n".join(blocks))))
        return replace(message, text=text, calls=())

    return make


def _answering(before: Message | None, group: Sequence[Message]) -> Callable[[], Message]:
    def make() -> Message:
        names = {call.id: call.name for call in before.calls} if before else {}
        parts = [_told(message, names.get(message.answers or "", "")) for message in group]
        is_uncalled = before is not None and not before.calls
        if is_uncalled or any(_REFUSED in message.text for message in group if message.answers):
            parts.append(REMINDER)
        images = tuple(image for message in group for image in message.images)
        return Message(speaker=Speaker.USER, text="\n\n".join(parts), images=images)

    return make


def _told(message: Message, name: str) -> str:
    if message.speaker is Speaker.USER:
        return message.text
    text = _RESULT_END.sub("<\\/", message.text)
    return f'<tool_result name="{name}">\n{text}\n</tool_result>'


def heard(text: str, names: Collection[str]) -> Heard:
    """Return what an answer says; what it makes up of results, and after them, is passed over.

    A block that cannot be read becomes a call whose arguments are its text, to be refused.
    """
    text = THOUGHT.sub("", text)
    if OPENED not in text:
        return _fenced(_true(text)[0], names)
    prose: list[str] = []
    calls: tuple[tuple[str, str], ...] = ()
    place = 0
    while place >= 0:
        opened = text.find(OPENED, place)
        said, is_made_up = _true(text[place : opened if opened >= 0 else len(text)])
        prose.append(said.strip())
        if opened < 0 or is_made_up:
            break
        pieces, place = _block(text, opened + len(OPENED))
        calls += tuple(map(_call, pieces))
    return Heard(prose="\n\n".join(filter(None, prose)), calls=calls)


def _true(prose: str) -> tuple[str, bool]:
    """Return the prose before what it makes up of results, and whether it makes up any."""
    made_up = _RESULT.search(prose)
    return (prose[: made_up.start()], True) if made_up else (prose, False)


def _fenced(text: str, names: Collection[str]) -> Heard:
    """Return what is said by an answer without blocks; calls may stand in code fences."""
    calls = tuple(find_calls(text, names))
    if not calls:
        return Heard(prose=text.strip())
    fence = text.find("```")
    return Heard(prose=text[: max(fence, 0)].strip(), calls=calls)


def _block(text: str, start: int) -> tuple[list[str], int]:
    """Return what stands in the block that begins at `start`, and where the block ends.

    Its JSON decides where it is whole, for its texts may hold the marks of a block.
    """
    pieces: list[str] = []
    end = start
    while True:
        begun = len(text) - len(text[end:].lstrip(", \t\r\n"))
        try:
            value, following = _LOOSE.raw_decode(text, begun)
        except (ValueError, RecursionError):
            break
        rows = value if isinstance(value, list) else [text[begun:following]]
        pieces += [row if isinstance(row, str) else json.dumps(row) for row in rows]
        end = following
    closed, opened = text.find(CLOSED, end), text.find(OPENED, end)
    is_closed = closed >= 0 and not 0 <= opened < closed
    if pieces:
        return pieces, closed + len(CLOSED) if is_closed else end
    ends = [one for one in (closed, opened) if one >= 0]
    last = min(ends, default=len(text))
    return [text[start:last].strip()], last + len(CLOSED) if is_closed else last


def _call(piece: str) -> tuple[str, str]:
    """Return the call that a block can only mean; one that cannot be read is refused as it is."""
    call = text_call(piece)
    if call is not None:
        return call
    name, arguments = _NAME.search(piece), _ARGUMENTS.search(piece)
    whole = dict(parse_arguments(piece).arguments or {})
    if name and whole and not arguments:  # the arguments stand beside the name
        return name.group(1), json.dumps({k: v for k, v in whole.items() if v != name.group(1)})
    written = piece[arguments.end() :] if arguments else piece
    return (name.group(1) if name else BROKEN), written or "{"


class Sieve:
    """Passes on what is prose while an answer comes; the rest is known at its end."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._rest = ""  # of what came: not passed on yet
        self._told: list[str] = []
        self._is_held = False  # what comes from here on may be a call

    def feed(self, piece: str) -> None:
        """Take in the next piece of the answer."""
        if self._is_held:
            return
        self._rest += piece
        if not self._told:
            self._rest = self._rest.lstrip()
            self._is_held = self._rest.startswith(_STARTS)
            if self._is_held or any(start.startswith(self._rest) for start in _STARTS):
                return
        mark = _MARK.search(self._rest)
        self._is_held = mark is not None
        sure = self._rest[: mark.start() if mark else len(self._rest) - _unsure(self._rest)]
        self._tell(sure.rstrip())

    def end(self, prose: str) -> None:
        """Pass on what is left of the prose."""
        told = "".join(self._told)
        if prose.startswith(told) and len(prose) > len(told):
            self._on_text(prose[len(told) :])

    def _tell(self, sure: str) -> None:
        if sure:
            self._on_text(sure)
            self._told.append(sure)
            self._rest = self._rest[len(sure) :]


def _unsure(text: str) -> int:
    """Return how many characters at the end may be the beginning of a mark."""
    longest = max(map(len, _MARKS)) - 1
    ends = (count for count in range(min(longest, len(text)), 0, -1))
    return next((n for n in ends if any(mark.startswith(text[-n:]) for mark in _MARKS)), 0)


__all__ = ["BROKEN", "FORM", "REMINDER", "RULES", "Heard", "Sieve", "Texting", "heard"]
