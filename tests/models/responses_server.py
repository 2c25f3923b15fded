"""A provider that speaks the responses format, strict where the real one is, failing on request.

The order of items, the ids of calls and the names of tools are checked by hand; where the vendor's
published description is there, each request, each answer and each event is held to it as well, and
no field may stand in a request that it does not name. What it answers is scripted.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema

from models.loopback import Cue, Json, LoopbackServer, Peer, Refusal, pieces
from services import PUBLISHED

DESCRIPTION = PUBLISHED / "openai-api.json"
USAGE: Json = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 18,
}
SECRETLY = "I think of this alone"
_ITEMS = {  # names of the descriptions of what may stand in `input`
    "function_call": "FunctionToolCall",
    "function_call_output": "FunctionCallOutputItemParam",
    "message": "EasyInputMessage",
    "reasoning": "ReasoningItem",
}
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def refusal(status: int, words: str, code: str | None = None, **headers: str) -> Refusal:
    error = {"message": words, "type": "invalid_request_error", "param": None, "code": code}
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    return Refusal(status, {"error": error}, headers=named)


_LONG = "Your input exceeds the context window of this model."
_REFUSALS = {
    "busy": refusal(429, "slow down", "rate_limit_exceeded", retry_after="7"),
    "no-quota": refusal(429, "no money", "insufficient_quota"),
    "server-error": refusal(500, "oops", "server_error"),
    "too-long": refusal(400, _LONG, "context_length_exceeded"),
    "policy": refusal(400, "flagged", "content_filter"),
}


@dataclass(kw_only=True)
class ResponsesServer(LoopbackServer):
    """`/v1/responses` and `/v1/models`."""

    prefix: str = "/v1"
    is_thinking: bool = False  # before each answer, and can read again what it thought
    forgotten: int = 0  # answers whose thoughts it refuses
    has_no_thoughts: bool = False  # refuses to be asked for them
    refusals = _REFUSALS

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        if (method, path) == ("GET", "/models"):
            row = {"id": "tiny", "object": "model", "created": 1, "owned_by": "house"}
            await peer.whole(held("ListModelsResponse", {"object": "list", "data": [row]}))
            return True
        if (method, path) != ("POST", "/responses"):
            raise refusal(404, f"no route {path}")
        self.requests.append(data)
        check_responses(data)
        self._check_thoughts(data)
        if data["model"] != "tiny":
            raise refusal(404, "The model does not exist", "model_not_found")
        return await self.answer(data, _turns(data["input"]), peer)

    def _check_thoughts(self, data: Json) -> None:
        if self.has_no_thoughts and data.get("include"):
            raise refusal(400, "Encrypted content is not supported with this model.")
        known = [thought(turn) for turn in range(self.forgotten, 99)] if self.is_thinking else []
        for place, item in enumerate(data["input"]):
            if item["type"] != "reasoning":
                continue
            if item not in known:
                words = "The encrypted content could not be verified."
                raise refusal(400, words, "invalid_encrypted_content")
            (after,) = data["input"][place + 1 : place + 2] or [{}]
            if after.get("role", after.get("type")) not in {"assistant", "function_call"}:
                raise _invalid("'reasoning' was provided without its required following item.")

    def document(self, cue: Cue) -> Json:
        return held("Response", self._response(cue))

    def pieces(self, cue: Cue) -> list[bytes]:
        start = {"response": {**self._response(cue), "status": "in_progress", "output": []}}
        events: list[Json] = [{"type": "response.created", **start}]
        for index, item in enumerate(self._items(cue)):
            events += _streamed(index, item)
        return [_event(event, number) for number, event in enumerate(events)]

    def endings(self, cue: Cue) -> list[bytes]:
        response = self._response(cue)
        return [_event({"type": f"response.{response['status']}", "response": response}, 9_999)]

    def said(self, text: str) -> bytes:
        return _event({"type": "response.output_text.delta", **_AT, "delta": text}, 1)

    def _response(self, cue: Cue) -> Json:
        status = {"filtered": "incomplete", "late-error": "failed"}.get(cue.fault, "completed")
        is_failed = status == "failed"
        error = {"code": "server_error", "message": "overloaded"} if is_failed else None
        reason = {"reason": "content_filter"} if cue.fault == "filtered" else None
        named = ("tools", "temperature", "top_p", "instructions", "metadata")
        return {
            **{name: cue.data.get(name) for name in named},
            "tools": cue.data.get("tools", []),
            "metadata": {},
            "id": f"resp_{cue.turn}",
            "object": "response",
            "created_at": 1,
            "model": "tiny-2026",
            "status": status,
            "error": error,
            "incomplete_details": reason,
            "output": [] if is_failed else self._items(cue),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "usage": USAGE,
        }

    def _items(self, cue: Cue) -> list[Json]:
        if not self.is_thinking:
            return _items(cue)
        asked = "reasoning.encrypted_content" in cue.data.get("include", ())
        given = thought(cue.turn)
        said = [
            {**item, "phase": "commentary"} if item["type"] == "message" else item
            for item in _items(cue)
        ]
        return [given if asked else {**given, "encrypted_content": None}, *said]


def thought(turn: int) -> Json:
    """What is thought before the answer of that number."""
    summary = [{"type": "summary_text", "text": f"{SECRETLY} {turn}"}]
    sealed = {"encrypted_content": f"gAAAA{turn}==", "status": "completed"}
    return {"type": "reasoning", "id": f"rs_{turn}", "summary": summary, **sealed}


_AT: Json = {"item_id": "msg_0", "output_index": 0, "content_index": 0, "logprobs": []}


def _turns(items: list[Json]) -> int:
    """How many answers were given: each ends where something else is said."""
    ours = {"assistant", "function_call", "reasoning"}
    is_ours = [item.get("role", item["type"]) in ours for item in items]
    return sum(own and not before for own, before in zip(is_ours, [False, *is_ours], strict=False))


def _items(cue: Cue) -> list[Json]:
    items = [_message(cue)] if cue.reply.text else []
    for index, (name, given) in enumerate(cue.reply.calls):
        arguments = given if isinstance(given, str) else json.dumps(given)
        id_ = f"call_{cue.turn}_{index}"
        own = {"id": f"fc_{cue.turn}_{index}", "call_id": id_, "name": name}
        call = {"type": "function_call", **own, "arguments": arguments, "status": "completed"}
        items.append(call)
    return items


def _message(cue: Cue) -> Json:
    content = [{"type": "output_text", "text": cue.reply.text, "annotations": [], "logprobs": []}]
    said = {"role": "assistant", "status": "completed", "content": content}
    return {"id": f"msg_{cue.turn}", "type": "message", **said}


def _streamed(index: int, item: Json) -> list[Json]:
    """The events of one item."""
    at = {"output_index": index}
    if item["type"] == "reasoning":
        where = {**at, "item_id": item["id"], "summary_index": 0}
        text = item["summary"][0]["text"]
        begun = {**item, "status": "in_progress", "summary": []}
        kind = "response.reasoning_summary_text.delta"
        inner: list[Json] = [{"type": kind, **where, "delta": piece} for piece in pieces(text)]
    elif item["type"] == "message":
        begun, inner = {**item, "status": "in_progress", "content": []}, _text_events(item, at)
    else:
        begun, inner = {**item, "status": "in_progress", "arguments": ""}, _call_events(item, at)
    return [
        {"type": "response.output_item.added", **at, "item": begun},
        *inner,
        {"type": "response.output_item.done", **at, "item": item},
    ]


def _text_events(item: Json, at: Json) -> list[Json]:
    (part,) = item["content"]
    where = {**at, "item_id": item["id"], "content_index": 0}
    told = {**where, "logprobs": []}
    return [
        {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
        *(
            {"type": "response.output_text.delta", **told, "delta": piece}
            for piece in pieces(part["text"])
        ),
        {"type": "response.output_text.done", **told, "text": part["text"]},
        {"type": "response.content_part.done", **where, "part": part},
    ]


def _call_events(item: Json, at: Json) -> list[Json]:
    where = {**at, "item_id": item["id"]}
    kind = "response.function_call_arguments"
    whole = {"name": item["name"], "arguments": item["arguments"]}
    return [
        *({"type": f"{kind}.delta", **where, "delta": p} for p in pieces(item["arguments"])),
        {"type": f"{kind}.done", **where, **whole},
    ]


def _event(data: Json, number: int) -> bytes:
    whole = {**data, "sequence_number": number}
    if DESCRIPTION.is_file():
        held(_events()[data["type"]], whole)
    return f"event: {data['type']}\ndata: {json.dumps(whole)}\n\n".encode()


def check_responses(data: Json) -> None:
    """Refuse what the real one refuses."""
    if DESCRIPTION.is_file():
        _check_description(data)
    for tool in data.get("tools", []):
        if tool["type"] != "function" or not _TOOL_NAME.fullmatch(tool["name"]):
            raise _invalid(f"Invalid tool {tool!r}")
        jsonschema.Draft202012Validator.check_schema(tool["parameters"])
    _check_items(data["input"])


def _check_items(items: list[Json]) -> None:
    waiting: list[str] = []
    known: set[str] = set()
    for place, item in enumerate(items):
        if item["type"] == "function_call_output":
            if item["call_id"] not in waiting:
                raise _invalid("No tool call found for function call output")
            waiting.remove(item["call_id"])
            continue
        if item["type"] == "function_call":
            _check_call(item, known)
            waiting.append(item["call_id"])
        elif item["type"] == "message":
            if waiting:
                raise _invalid(f"No tool output found for function call {waiting[0]}")
            if not item["content"] or (item["role"] == "system" and place):
                raise _invalid(f"input[{place}] cannot stand there")
    if waiting:
        raise _invalid(f"No tool output found for function call {waiting[0]}")


def _check_call(item: Json, known: set[str]) -> None:
    if not isinstance(json.loads(item["arguments"]), dict) or not _TOOL_NAME.fullmatch(
        item["name"]
    ):
        raise _invalid("arguments must be an object")
    if item["call_id"] in known or not 1 <= len(item["call_id"]) <= 64:
        raise _invalid(f"Duplicate or bad call id {item['call_id']!r}")
    known.add(item["call_id"])


def _check_description(data: Json) -> None:
    try:
        held("CreateResponse", data)
    except jsonschema.ValidationError as error:
        raise _invalid(error.message) from error
    strange = sorted(set(data) - _fields("CreateResponse"))
    for item in data["input"]:
        strange += sorted(set(item) - _fields(_ITEMS[item["type"]]))
    for tool in data.get("tools", []):
        strange += sorted(set(tool) - _fields("FunctionTool"))
    if strange:
        raise _invalid(f"Unknown parameter: {strange[0]!r}")


def held(name: str, data: Json) -> Json:
    """Return `data`, which is what the published description says, where that is there."""
    if DESCRIPTION.is_file():
        _validator(name).validate(data)
    return data


@cache
def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = json.loads(DESCRIPTION.read_text())["components"]["schemas"]
    return schemas


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": _schemas()}}
    return jsonschema.Draft202012Validator(schema)


@cache
def _fields(name: str) -> set[str]:
    open_, names = [_schemas()[name]], set()
    while open_:
        part = open_.pop()
        names |= set(part.get("properties", {}))
        open_ += part.get("allOf", [])
        if "$ref" in part:
            open_.append(_schemas()[part["$ref"].rpartition("/")[2]])
    return names


@cache
def _events() -> dict[str, str]:
    """Names of the descriptions of events, by their `type`."""
    named = ((name, one.get("properties", {}).get("type", {})) for name, one in _schemas().items())
    return {
        kind: name
        for name, stated in named
        for kind in stated.get("enum", [])
        if name.endswith("Event")
    }


def _invalid(words: str) -> Refusal:
    return refusal(400, words)


__all__ = ["DESCRIPTION", "USAGE", "ResponsesServer", "check_responses", "held"]
