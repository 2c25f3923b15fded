"""Requests and replies as they lie in a recording, and how two requests are compared.

What differs from run to run without meaning is taken out: the path of the work tree and the
engine's ids become placeholders that are filled in again on playing back; durations, dates,
addresses in memory and made-up temporary names are ignored when two texts are compared.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchyard.domain.messages import (
    Message,
    ModelReply,
    ModelRequest,
    RequestedCall,
    Speaker,
    StopReason,
    Thought,
    Thoughts,
    Usage,
)
from patchyard.domain.tooling import ToolSpec
from patchyard.models.answering import whole_number
from patchyard.models.keys import hide

WORKSPACE = "<workspace>"
_ULID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")
_PLACE = re.compile(r"<id:(\d+)>")
_VOLATILE = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d\d:\d\d:\d\d(?:\.\d+)?\b"
    r"|\b\d+(?:\.\d+)?(?:e-\d+)?\s?(?:ns|us|µs|ms|s|sec|seconds?|minutes?)\b"
    r"|\b0x[0-9a-fA-F]{6,}\b"
    r"|(?<=/tmp/)[\w.-]+"
)


class Placeholders:
    """Takes out, and fills in, the work tree's path, the engine's ids and secrets.

    `plans` is the folder below which a plan that runs unconfined has its trees, as `ID.../root`;
    such a tree counts as the workspace.
    """

    def __init__(
        self, *, workspace: str = "", plans: str = "", secrets: Sequence[str] = ()
    ) -> None:
        escaped = json.dumps(workspace)[1:-1]
        self._paths = [path for path in dict.fromkeys((workspace, escaped)) if len(path) > 1]
        self._workspace = workspace
        self._trees = (
            re.compile(rf"{re.escape(plans)}/{_ULID.pattern}[\w-]*/root\b") if plans else None
        )
        self._secrets = tuple(form for one in secrets for form in (one, json.dumps(one)[1:-1]))
        self._ids: dict[str, int] = {}

    def take_out(self, text: str) -> str:
        """Return the text with placeholders; ids are numbered as they first appear."""
        if self._trees is not None:
            text = self._trees.sub(self._tree, text)
        for path in self._paths:
            text = text.replace(path, WORKSPACE)
        text = _ULID.sub(self._number, text)
        return hide(text, self._secrets)

    def fill_in(self, text: str) -> str:
        """Return the text with this run's path and ids."""
        by_number = {number: id_ for id_, number in self._ids.items()}
        text = _PLACE.sub(lambda m: by_number.get(int(m.group(1)), m.group(0)), text)
        return text.replace(WORKSPACE, self._workspace) if self._workspace else text

    def _tree(self, found: re.Match[str]) -> str:
        self._workspace = found.group(0)
        return WORKSPACE

    def _number(self, found: re.Match[str]) -> str:
        return f"<id:{self._ids.setdefault(found.group(0), len(self._ids) + 1)}>"


@dataclass(frozen=True, kw_only=True)
class Canonical:
    """A request as JSON with placeholders, and the hash by which two requests are the same."""

    data: dict[str, Any]
    digest: str


class Canon:
    """Makes requests canonical; each message is worked on once, known again by identity."""

    def __init__(self, places: Placeholders) -> None:
        self._places = places
        self._known: dict[int, tuple[Message, dict[str, Any], bytes]] = {}
        self._tools: tuple[Sequence[ToolSpec], list[Any]] = ((), [])

    def request(self, request: ModelRequest) -> Canonical:
        """Return the canonical form of a request."""
        known: dict[int, tuple[Message, dict[str, Any], bytes]] = {}
        for message in request.messages:
            found = self._known.get(id(message)) or self._made(message)
            known[id(message)] = found
        self._known = known
        rows = [known[id(message)] for message in request.messages]
        data = {
            "purpose": request.purpose,
            "turn": request.turn,
            "max_output_tokens": request.max_output_tokens,
            "temperature": request.temperature,
            "tools": self._listed(request.tools),
            "messages": [row[1] for row in rows],
        }
        return Canonical(data=data, digest=whole_digest(data, [row[2] for row in rows]))

    def _made(self, message: Message) -> tuple[Message, dict[str, Any], bytes]:
        data = _message_data(message, self._places)
        return message, data, message_digest(data)

    def _listed(self, tools: Sequence[ToolSpec]) -> list[Any]:
        if self._tools[0] is not tools:
            rows = [
                {"name": t.name, "description": t.description, "parameters": t.parameters}
                for t in tools
            ]
            self._tools = (tools, rows)
        return self._tools[1]


def message_digest(data: Mapping[str, Any]) -> bytes:
    """Return the hash of one message, what is volatile in it left out."""
    return hashlib.sha256(_canonical_text(data).encode()).digest()


def whole_digest(data: Mapping[str, Any], digests: Sequence[bytes]) -> str:
    """Return the hash of a request from the hashes of its messages."""
    rest = {key: value for key, value in data.items() if key != "messages"}
    whole = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for digest in digests:
        whole.update(digest)
    return whole.hexdigest()


def reply_data(reply: ModelReply, places: Placeholders) -> dict[str, Any]:
    """Return a reply as JSON, placeholders in."""
    usage = reply.usage
    return {
        "message": _message_data(reply.message, places),
        "stop": str(reply.stop),
        "model": reply.model,
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "written_tokens": usage.written_tokens,
            "is_estimated": usage.is_estimated,
            "usd": usage.usd,
        },
    }


def reply_from(data: Mapping[str, Any], places: Placeholders) -> ModelReply:
    """Return the reply that `reply_data` wrote, filled in for this run.

    Raises ValueError, KeyError, TypeError or AttributeError for anything else.
    """
    said = data["message"]
    calls = tuple(
        RequestedCall(id=str(id_), name=str(name), arguments=places.fill_in(arguments))
        for id_, name, arguments in said["calls"]
    )
    message = Message(
        speaker=Speaker(said["speaker"]),
        text=places.fill_in(said["text"]),
        calls=calls,
        thoughts=_thoughts_from(said["thoughts"], places) if "thoughts" in said else None,
    )
    return ModelReply(
        message=message,
        usage=_usage_from(data["usage"]),
        stop=StopReason(data["stop"]),
        model=str(data["model"]),
    )


def _thoughts_from(data: Mapping[str, Any], places: Placeholders) -> Thoughts:
    blocks = (
        Thought(before=whole_number(before), block=places.fill_in(block))
        for before, block in data["blocks"]
    )
    return Thoughts(maker=str(data["maker"]), blocks=tuple(blocks))


def _usage_from(data: Mapping[str, Any]) -> Usage:
    usd = data.get("usd")
    return Usage(
        input_tokens=whole_number(data["input_tokens"]),
        output_tokens=whole_number(data["output_tokens"]),
        cached_tokens=whole_number(data["cached_tokens"]),
        written_tokens=whole_number(data.get("written_tokens")),
        is_estimated=bool(data["is_estimated"]),
        usd=None if usd is None else max(0.0, float(usd)),
    )


def first_difference(expected: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return in words where two requests first differ."""
    for index, (old, new) in enumerate(zip(expected["messages"], asked["messages"], strict=False)):
        if _settled(old) != _settled(new):
            return f"message {index + 1} ({new['speaker']}): {_between(old, new)}"
    counts = len(expected["messages"]), len(asked["messages"])
    if counts[0] != counts[1]:
        return f"{counts[0]} messages were recorded and {counts[1]} are asked"
    for key in expected:
        if expected[key] != asked.get(key) and key != "messages":
            return f"`{key}`: {_between(expected[key], asked.get(key))}"
    return "nothing that shows"


def _message_data(message: Message, places: Placeholders) -> dict[str, Any]:
    data: dict[str, Any] = {
        "speaker": str(message.speaker),
        "text": places.take_out(message.text),
        "calls": [[c.id, c.name, places.take_out(c.arguments)] for c in message.calls],
        "answers": message.answers,
    }
    if message.images:  # what they show is no part of a recording, only that it is the same
        digests = (hashlib.sha256(one.data.encode()).hexdigest() for one in message.images)
        data["images"] = list(digests)
    thoughts = message.thoughts
    if thoughts is None:
        return data
    blocks = [[one.before, places.take_out(one.block)] for one in thoughts.blocks]
    return {**data, "thoughts": {"maker": thoughts.maker, "blocks": blocks}}


def _canonical_text(value: Any) -> str:
    return json.dumps(_settled(value), sort_keys=True, separators=(",", ":"))


def _settled(value: Any) -> Any:
    if isinstance(value, str):
        return _VOLATILE.sub("<volatile>", value)
    if isinstance(value, Mapping):
        return {key: _settled(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_settled(inner) for inner in value]
    return value


def _between(old: Any, new: Any) -> str:
    one = json.dumps(_settled(old), sort_keys=True, ensure_ascii=False)
    two = json.dumps(_settled(new), sort_keys=True, ensure_ascii=False)
    at = next(
        (i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b),
        min(len(one), len(two)),
    )
    start = max(0, at - 30)
    return f"recorded ...{one[start : at + 60]!r}, asked ...{two[start : at + 60]!r}"


__all__ = [
    "WORKSPACE",
    "Canon",
    "Canonical",
    "Placeholders",
    "first_difference",
    "message_digest",
    "reply_data",
    "reply_from",
    "whole_digest",
]
