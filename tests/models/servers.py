"""A provider that speaks chat completions, strict where real ones are, failing on request.

Unknown fields, the order of roles and the ids of calls are checked. What it answers comes from a
function of how many answers there were before.
"""

import json
import re
from dataclasses import dataclass

from models.loopback import Cue, Json, LoopbackServer, Peer, Refusal, pieces
from patchyard.models.scripted import ScriptedReply

_LONG = "This model's maximum context length is 8192 tokens"
_REFUSALS: dict[str, Refusal] = {
    "busy": Refusal(429, {"error": {"message": "slow down"}}, headers={"retry-after": "7"}),
    "no-quota": Refusal(429, {"error": {"message": "no money", "code": "insufficient_quota"}}),
    "server-error": Refusal(500, {"error": {"message": "oops"}}),
    "too-long": Refusal(400, {"error": {"message": _LONG, "code": "context_length_exceeded"}}),
    "policy": Refusal(400, {"error": {"message": "flagged", "code": "content_filter"}}),
}


@dataclass(kw_only=True)
class ChatServer(LoopbackServer):
    """`/v1/chat/completions` and `/v1/models`."""

    prefix: str = "/v1"
    states_usage: bool = True
    ends_with_done: bool = True
    refusals = _REFUSALS

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        if (method, path) == ("GET", "/models"):
            await peer.whole({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
            return True
        if (method, path) != ("POST", "/chat/completions"):
            raise Refusal(404, {"error": {"message": f"no route {path}"}})
        self.requests.append(data)
        check_chat(data)
        if data["model"] != "tiny":
            raise Refusal(404, {"error": {"message": "The model does not exist"}})
        turn = sum(m["role"] == "assistant" for m in data["messages"])
        return await self.answer(data, turn, peer)

    def pieces(self, cue: Cue) -> list[bytes]:
        deltas = [
            _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            for delta in self._deltas(cue.reply, cue.turn)
        ]
        return [b": keep-alive\n\n", *deltas]

    def endings(self, cue: Cue) -> list[bytes]:
        if cue.fault == "late-error":
            return [_event({"error": {"message": "overloaded", "code": 503}})]
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": _reason(cue)}]}
        said = [_event({"model": "tiny-2026", **last})]
        if self.states_usage and cue.data.get("stream_options", {}).get("include_usage"):
            said.append(_event({"choices": [], "usage": USAGE}))
        return [*said, b"data: [DONE]\r\n\r\n"] if self.ends_with_done else said

    def said(self, text: str) -> bytes:
        return _event({"choices": [{"index": 0, "delta": {"content": text}}]})

    def _deltas(self, reply: ScriptedReply, turn: int) -> list[Json]:
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in pieces(reply.text)]
        for index, (name, arguments) in enumerate(reply.calls):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            head = {"name": name, "arguments": ""}
            first = {"index": index, "id": f"call_{turn}_{index}", "type": "function"}
            deltas.append({"tool_calls": [{**first, "function": head}]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                for piece in pieces(text)
            ]
        return deltas

    def document(self, cue: Cue) -> Json:
        message: Json = {"role": "assistant", "content": cue.reply.text or None}
        if cue.reply.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{cue.turn}_{index}",
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": arguments
                        if isinstance(arguments, str)
                        else json.dumps(arguments),
                    },
                }
                for index, (name, arguments) in enumerate(cue.reply.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": _reason(cue)}
        document: Json = {"model": "tiny-2026", "choices": [choice]}
        return {**document, "usage": USAGE} if self.states_usage else document


USAGE: Json = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 3},
}


def _reason(cue: Cue) -> str:
    if cue.fault == "filtered":
        return "content_filter"
    return "tool_calls" if cue.reply.calls else "stop"


_CHAT_FIELDS = {
    *("model", "messages", "tools", "stream", "stream_options", "temperature"),
    *("max_tokens", "max_completion_tokens", "tool_choice"),
}


def check_chat(data: Json) -> None:
    """Refuse what the real one refuses."""
    unknown = sorted(set(data) - _CHAT_FIELDS)
    if unknown:
        raise _invalid(f"Unrecognized request argument supplied: {unknown[0]}")
    if "stream_options" in data and not data.get("stream"):
        raise _invalid("stream_options is only allowed when stream is enabled")
    for tool in data.get("tools", []):
        name = tool["function"]["name"]
        if tool["type"] != "function" or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise _invalid(f"Invalid tool {name!r}")
    waiting: list[str] = []
    for place, message in enumerate(data["messages"]):
        waiting = _check_message(message, waiting, is_first=place == 0)


def _check_message(message: Json, waiting: list[str], *, is_first: bool) -> list[str]:
    """Check one message; return the ids of calls that wait for an answer after it."""
    role = message["role"]
    if role == "tool":
        if message["tool_call_id"] not in waiting:
            raise _invalid("a tool message must follow the call that it answers")
        return [id_ for id_ in waiting if id_ != message["tool_call_id"]]
    if waiting:
        raise _invalid(f"tool_call_ids without response messages: {waiting}")
    if role not in {"system", "user", "assistant"} or (role == "system" and not is_first):
        raise _invalid(f"the role {role} cannot stand there")
    calls = message.get("tool_calls", [])
    if message["content"] is None and not calls:
        raise _invalid("content may only be null beside tool_calls")
    ids = [call["id"] for call in calls]
    if len(set(ids)) != len(ids):
        raise _invalid("duplicate call ids")
    for call in calls:
        json.loads(call["function"]["arguments"])
    return ids


def _invalid(words: str) -> Refusal:
    return Refusal(status=400, body={"error": {"message": words, "type": "invalid_request_error"}})


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps({"object": "chat.completion.chunk", **data}).encode() + b"\n\n"
