"""A provider that speaks the messages format, strict where the real one is, failing on request.

Unknown fields, turns that alternate, empty blocks, results right after the calls they answer and
the ids of calls are checked. What it answers is scripted.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from models.loopback import Cue, Json, LoopbackServer, Peer, Refusal, pieces
from patchyard.models.scripted import ScriptedReply

USAGE: Json = {
    "input_tokens": 6,
    "cache_creation_input_tokens": 2,
    "cache_read_input_tokens": 3,
    "output_tokens": 1,
}
SECRETLY = "I think of this alone"
THOUGHTS = {"redacted_thinking", "thinking"}
SAID = 7  # tokens of the answer, as they are told at its end
_FIELDS = {
    *("model", "messages", "max_tokens", "system", "stream", "tools"),
    *("cache_control", "tool_choice", "stop_sequences", "metadata", "thinking"),
}
_ID = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def _refusal(status: int, kind: str, words: str, **headers: str) -> Refusal:
    body = {"type": "error", "error": {"type": kind, "message": words}}
    return Refusal(status, body, headers={k.replace("_", "-"): v for k, v in headers.items()})


def _invalid(words: str) -> Refusal:
    return _refusal(400, "invalid_request_error", words)


_REFUSALS = {
    "busy": _refusal(429, "rate_limit_error", "slow down", retry_after="7"),
    "no-quota": _refusal(400, "invalid_request_error", "Your credit balance is too low"),
    "server-error": _refusal(500, "api_error", "oops"),
    "too-long": _invalid("prompt is too long: 210000 tokens > 200000 maximum"),
    "policy": _invalid("Output blocked by content filtering policy"),
}


@dataclass(kw_only=True)
class MessagesServer(LoopbackServer):
    """`/v1/messages` and `/v1/models`."""

    window: int = 200_000  # tokens, as the model's page says
    longest: int = 64_000  # tokens of an answer
    has_list: bool = True
    is_thinking: bool = False  # before each answer, and wants to see again what it thought
    forgotten: int = 0  # answers whose thoughts it refuses
    refusals = _REFUSALS

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        place, _, _ = path.partition("?")
        if method == "GET" and self.has_list:
            await peer.whole(self._listed(place))
            return True
        if (method, place) != ("POST", "/v1/messages"):
            raise _refusal(404, "not_found_error", f"no route {place}")
        self.requests.append(data)
        check_messages(data)
        self._check_thoughts(data["messages"])
        if data["model"] != "tiny":
            raise _refusal(404, "not_found_error", f"model: {data['model']}")
        turn = sum(m["role"] == "assistant" for m in data["messages"])
        return await self.answer(data, turn, peer)

    def _listed(self, place: str) -> Json:
        row = {"id": "tiny", "type": "model", "max_input_tokens": self.window}
        row |= {"max_tokens": self.longest}
        if place == "/v1/models":
            return {"data": [row], "has_more": False}
        if place != "/v1/models/tiny":
            raise _refusal(404, "not_found_error", f"model: {place}")
        return row

    def pieces(self, cue: Cue) -> list[bytes]:
        start: Json = {"id": "m", "type": "message", "role": "assistant", "content": []}
        start |= {"model": "tiny-2026", "usage": USAGE}
        events: list[Json] = [{"type": "message_start", "message": start}, {"type": "ping"}]
        for index, block in enumerate(self._blocks(cue.reply, cue.turn)):
            events += _streamed(index, block)
        return [_event(event) for event in events]

    def endings(self, cue: Cue) -> list[bytes]:
        if cue.fault == "late-error":
            error = {"type": "overloaded_error", "message": "overloaded"}
            return [_event({"type": "error", "error": error})]
        told = {"delta": {"stop_reason": _reason(cue)}, "usage": {"output_tokens": SAID}}
        return [_event({"type": "message_delta", **told}), _event({"type": "message_stop"})]

    def said(self, text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return _event({"type": "content_block_delta", "index": 0, "delta": delta})

    def _blocks(self, reply: ScriptedReply, turn: int) -> list[Json]:
        blocks = thoughts(turn) if self.is_thinking else []
        blocks += [{"type": "text", "text": reply.text}] if reply.text else []
        for index, (name, given) in enumerate(reply.calls):
            own = {"id": f"toolu_{turn}_{index}", "name": name, "input": given}
            blocks.append({"type": "tool_use", **own})
        return blocks

    def _check_thoughts(self, messages: list[Json]) -> None:
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        for turn, blocks in enumerate(said):
            is_known = self.is_thinking and turn >= self.forgotten
            given = thoughts(turn) if is_known else []
            sent = [block for block in blocks if block["type"] in THOUGHTS]
            if sent and (sent != given or blocks[: len(sent)] != sent):
                raise _invalid(f"messages.{turn}: `thinking` blocks cannot be modified")
            if turn == len(said) - 1 and sent != given:
                raise _invalid(f"messages.{turn}: Expected `thinking`")

    def document(self, cue: Cue) -> Json:
        said = {"type": "message", "role": "assistant", "model": "tiny-2026"}
        usage = {**USAGE, "output_tokens": SAID}
        content = self._blocks(cue.reply, cue.turn)
        return {**said, "content": content, "stop_reason": _reason(cue), "usage": usage}

    def _authorise(self, headers: Mapping[str, str]) -> None:
        if headers.get("anthropic-version") != "2026-10-21":
            raise _refusal(400, "invalid_request_error", "anthropic-version: header is required")
        bearer = headers.get("authorization", "").removeprefix("Bearer ")  # the vendor's SDK
        given = headers.get("x-api-key", bearer)
        if self.key and given != self.key:
            raise _refusal(401, "authentication_error", f"invalid x-api-key {given}")


def _reason(cue: Cue) -> str:
    if cue.fault == "filtered":
        return "refusal"
    return "tool_use" if cue.reply.calls else "end_turn"


def thoughts(turn: int) -> list[Json]:
    """What is thought before the answer of that number."""
    return [
        {"type": "thinking", "thinking": f"{SECRETLY} {turn}", "signature": f"sig+{turn}="},
        {"type": "redacted_thinking", "data": f"opaque {turn}"},
    ]


def _streamed(index: int, block: Json) -> list[Json]:
    """Return the events of one block."""
    if block["type"] in THOUGHTS:
        return _thought(index, block)
    is_text = block["type"] == "text"
    begun = {**block, "text": ""} if is_text else {**block, "input": {}}
    given = "" if is_text else block["input"]
    whole = block["text"] if is_text else given if isinstance(given, str) else json.dumps(given)
    name, kind = ("text", "text_delta") if is_text else ("partial_json", "input_json_delta")
    at = {"index": index}
    return [
        {"type": "content_block_start", **at, "content_block": begun},
        *(
            {"type": "content_block_delta", **at, "delta": {"type": kind, name: piece}}
            for piece in pieces(whole)
        ),
        {"type": "content_block_stop", **at},
    ]


def _thought(index: int, block: Json) -> list[Json]:
    at = {"index": index}
    if block["type"] == "redacted_thinking":
        begun, deltas = block, []
    else:
        begun = {**block, "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return [
        {"type": "content_block_start", **at, "content_block": begun},
        *({"type": "content_block_delta", **at, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", **at},
    ]


def check_messages(data: Json) -> None:
    """Refuse what the real one refuses."""
    unknown = sorted(set(data) - _FIELDS)
    if unknown:
        raise _invalid(f"{unknown[0]}: Extra inputs are not permitted")
    if type(data.get("max_tokens")) is not int or data["max_tokens"] < 1:
        raise _invalid("max_tokens: Field required")
    for tool in data.get("tools", []):
        if set(tool) - {"name", "description", "input_schema", "cache_control"}:
            raise _invalid("tools: Extra inputs are not permitted")
        if not _NAME.fullmatch(tool["name"]) or tool["input_schema"]["type"] != "object":
            raise _invalid(f"tools: {tool['name']!r}")
    for block in data.get("system", []):
        _check_text(block)
    _check_turns(data["messages"])


def _check_turns(messages: list[Json]) -> None:
    if not messages or messages[0]["role"] != "user":
        raise _invalid("messages: first message must use the user role")
    waiting: list[str] = []
    known: set[str] = set()
    for place, message in enumerate(messages):
        if set(message) != {"role", "content"} or message["role"] not in {"user", "assistant"}:
            raise _invalid(f"messages.{place}: a role and content")
        if place and messages[place - 1]["role"] == message["role"]:
            raise _invalid(f"messages.{place}: roles do not alternate")  # real ones combine them
        if not message["content"]:
            raise _invalid(f"messages.{place}: must have non-empty content")
        answered = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        if answered != waiting or [b["type"] for b in message["content"][: len(answered)]] != [
            "tool_result"
        ] * len(answered):
            raise _invalid(f"messages.{place}: `tool_use` without `tool_result` right after")
        waiting = [_called(block, known) for block in message["content"] if _is_call(block)]
        for block in message["content"]:
            _check_text(block)
    if waiting:
        raise _invalid("the last calls have no results")


def _is_call(block: Json) -> bool:
    return bool(block["type"] == "tool_use")


def _called(block: Json, known: set[str]) -> str:
    if set(block) != {"type", "id", "name", "input"} or not isinstance(block["input"], dict):
        raise _invalid("tool_use: id, name and input as an object")
    if not _ID.fullmatch(block["id"]) or block["id"] in known:
        raise _invalid(f"tool_use: the id {block['id']!r} cannot be used")
    known.add(block["id"])
    return str(block["id"])


def _check_text(block: Json) -> None:
    if block["type"] == "text" and not block["text"].strip():
        raise _invalid("text content blocks must contain non-whitespace text")
    if block["type"] not in {"text", "image", "tool_use", "tool_result", *THOUGHTS}:
        raise _invalid(f"a block of type {block['type']!r}")


def _event(data: Json) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
