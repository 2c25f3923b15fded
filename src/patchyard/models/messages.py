"""The messages format, as Anthropic defined it.

The provider is asked to keep what it has read of a request, so that the next one, which begins
alike, costs less.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from patchyard.clients.http import HttpClient, HttpTrouble, Trouble
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import (
    Message,
    ModelFacts,
    ModelRequest,
    Speaker,
    StopReason,
    Usage,
)
from patchyard.domain.tooling import ToolSpec
from patchyard.models.answering import Assembly, mapping, whole_number
from patchyard.models.encoding import Encoded, body_of, object_of
from patchyard.models.keyed import KeyedModel
from patchyard.models.troubles import Provider

VERSION = "2026-10-21"  # of the format; it has no temperature any more
LONGEST_ANSWER = 8_192  # tokens asked for where nobody says; the format demands a number
LISTED = 1_000  # models on one page, the most there is
STOPS: Mapping[str, StopReason] = {
    "end_turn": StopReason.DONE,
    "stop_sequence": StopReason.DONE,
    "pause_turn": StopReason.DONE,
    "tool_use": StopReason.CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.FILTERED,
}
STATUSES: Mapping[str, int] = {  # of errors that come as events of a successful answer
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
THOUGHTS = frozenset({"redacted_thinking", "thinking"})
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")  # in the id of a call that another provider gave

COUNTS = (
    *("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    "output_tokens",
)  # what is read of a usage, in the order of `_usage`


@dataclass(frozen=True, kw_only=True)
class Manner:
    """Where servers of this format differ."""

    is_streaming: bool = True
    is_caching: bool = True  # asks to keep what was read of a request


class MessagesModel(KeyedModel):
    """One model behind a base URL that ends before `/v1/messages`."""

    kind = "anthropic"
    asked_at = "/v1/messages"
    has_images = True
    listed_at = f"/v1/models?limit={LISTED}"
    refused_thoughts = re.compile(r"thinking", re.IGNORECASE)

    def __init__(
        self,
        provider: Provider,
        client: HttpClient,
        *,
        manner: Manner | None = None,
        context_tokens: int | None = None,
    ) -> None:
        super().__init__(provider, client, context_tokens=context_tokens)
        self._manner = manner or Manner()
        self._window = context_tokens
        self._longest: int | None = None  # tokens of an answer, as the provider says

    def _encoding(self) -> Encoded:
        return Encoded(lambda said: self._mixed(said, encoded(self._visible(said))), tool=_tool)

    async def prepare(self) -> ModelFacts:
        """Look the model up, which costs nothing; servers that know no such question are passed.

        Raises ModelUnavailable without a key, and as `complete` does.
        """
        await self._provider.key.read()
        self._provider.require_key()
        try:
            found = mapping(await self._fetch(f"/v1/models/{quote(self._provider.model, safe='')}"))
        except HttpTrouble as trouble:
            if trouble.status in {400, 404, 405, 501}:
                return self._facts  # or there is no such model: the first request says so
            raise self._provider.translated(trouble) from trouble
        window = self._window or whole_number(found.get("max_input_tokens")) or None
        self._longest = whole_number(found.get("max_tokens")) or None
        self._facts = replace(self._facts, context_tokens=window)
        return self._facts

    def _headers(self) -> dict[str, str]:
        return {**self._provider.key.headers("x-api-key"), "anthropic-version": VERSION}

    def _body(self, request: ModelRequest) -> bytes:
        most = request.max_output_tokens or LONGEST_ANSWER
        settings: dict[str, Any] = {
            "model": self._provider.model,
            "max_tokens": min(most, self._longest or most),
            "stream": self._manner.is_streaming,
        }
        if self._manner.is_caching:
            settings["cache_control"] = {"type": "ephemeral"}
        rules, turns = self._said(request.messages)
        system = {"system": b"[%s]" % b",".join(rules)} if rules else {}
        further = {**system, **self._encoded.tools(request.tools)}
        return body_of(settings, "messages", turns, further)

    def _said(self, messages: Sequence[Message]) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the rules, and the turns: what one side says before the other is one of them."""
        rules: list[bytes] = []
        turns: list[tuple[bytes, list[bytes]]] = []
        for message, blocks in zip(messages, self._encoded.each(messages), strict=True):
            if blocks == b"[]":
                continue
            said = blocks[1:-1]
            if message.speaker is Speaker.SYSTEM:
                rules.append(said)
                continue
            role = b"assistant" if message.speaker is Speaker.ASSISTANT else b"user"
            if not turns or turns[-1][0] != role:
                turns.append((role, []))
            turns[-1][1].append(said)
        whole = [b'{"role":"%s","content":[%s]}' % (role, b",".join(b)) for role, b in turns]
        return rules, whole

    def _take_whole(self, data: Mapping[str, Any], assembly: Assembly) -> None:
        if data.get("type") == "error":
            raise self._error(data)
        blocks = data.get("content")
        if not isinstance(blocks, list):
            raise HttpTrouble(Trouble.GARBLED, "the answer holds no content")
        for index, block in enumerate(blocks):
            _begin(mapping(block), index, assembly)
        _end(data, data.get("usage"), assembly)

    def _take(self, data: Mapping[str, Any], assembly: Assembly) -> bool:
        kind, index = data.get("type"), data.get("index")
        if kind == "error":
            raise self._error(data)
        if kind == "message_start":
            message = mapping(data.get("message"))
            assembly.name(message.get("model"))
            assembly.told |= _told(message.get("usage"))
        elif kind == "content_block_start":
            _begin(mapping(data.get("content_block")), index, assembly)
        elif kind == "content_block_delta":
            _go_on(mapping(data.get("delta")), index, assembly)
        elif kind == "message_delta":
            _end(mapping(data.get("delta")), data.get("usage"), assembly)
        return kind == "message_stop"

    def _error(self, data: Mapping[str, Any]) -> ModelFailed | ModelUnavailable:
        status = STATUSES.get(str(mapping(data.get("error")).get("type")), 500)
        return self._told_late(data, status)


def encoded(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message; none where it says nothing, which the format refuses."""
    if message.speaker is Speaker.TOOL:
        answered: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(message.answers)}
        if message.images:
            return [{**answered, "content": _seen(message)}]
        return [{**answered, "content": message.text} if message.text.strip() else answered]
    blocks = _seen(message)
    for call in message.calls:
        own = {"id": _id(call.id), "name": call.name, "input": object_of(call.arguments)}
        blocks.append({"type": "tool_use", **own})
    return blocks


def _seen(message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if message.text.strip():
        blocks.append({"type": "text", "text": message.text})
    for image in message.images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
        blocks.append({"type": "image", "source": source})
    return blocks


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }


def _id(given: str | None) -> str:
    return _FOREIGN.sub("_", given or "") or "_"


def _begin(block: Mapping[str, Any], index: object, assembly: Assembly) -> None:
    """Take in a block as it begins, or the whole of it where nothing is streamed."""
    assembly.add_text(block.get("text"))
    assembly.add_thinking(block.get("thinking"))
    if block.get("type") in THOUGHTS:
        assembly.begin_thought(index, block)
    if block.get("type") == "tool_use":
        given = block.get("input")
        function = {"name": block.get("name"), "arguments": given or None}
        assembly.add_call(index, block.get("id"), function)


def _go_on(delta: Mapping[str, Any], index: object, assembly: Assembly) -> None:
    """Take in the next piece of a block."""
    assembly.add_text(delta.get("text"))
    assembly.add_thinking(delta.get("thinking"))
    for name in ("thinking", "signature"):
        assembly.add_to_thought(index, name, delta.get(name))
    if "partial_json" in delta:
        assembly.add_call(index, None, {"arguments": delta["partial_json"]})


def _end(data: Mapping[str, Any], usage: object, assembly: Assembly) -> None:
    """Take in why the answer ended, and what it took."""
    assembly.name(data.get("model"))
    assembly.told |= _told(usage)
    if assembly.told:
        assembly.usage = _usage(assembly.told)
    reason = data.get("stop_reason")
    if isinstance(reason, str):
        assembly.stop = STOPS.get(reason, StopReason.DONE)


def _told(usage: object) -> dict[str, Any]:
    stated = mapping(usage)
    return {name: stated[name] for name in COUNTS if stated.get(name) is not None}


def _usage(stated: Mapping[str, Any]) -> Usage:
    """Return the tokens of a request; the format counts those of its cache apart."""
    fresh, written, kept, said = (whole_number(stated.get(name)) for name in COUNTS)
    return Usage(
        input_tokens=fresh + written + kept,
        output_tokens=said,
        cached_tokens=kept,
        written_tokens=written,
    )


__all__ = ["LONGEST_ANSWER", "VERSION", "Manner", "MessagesModel", "encoded"]
