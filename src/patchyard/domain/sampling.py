"""What an MCP server asks of a model (sampling), read within bounds, and what it is told. Pure.

Of the protocol's request only words count: which model answers, with which temperature, and what
else of a conversation it is shown is not a server's to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.body import Body
from patchyard.domain.messages import Message, ModelReply, Speaker, StopReason

METHOD = "sampling/createMessage"
MOST_MESSAGES = 50
TEXT_CHARS = 60_000  # of all of them
MOST_TOKENS = 4_096  # of an answer
REFUSED = -1  # code of a refusal, MCP 2025-06-18
TOLD = (
    "A tool server asks you what follows, in the middle of a call of one of its tools. Answer it as"
    " plain text. You have no tools here, and nothing of the work that you are otherwise at."
)
SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.ASSISTANT}
STOPS = {StopReason.DONE: "endTurn", StopReason.LENGTH: "maxTokens"}


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """What a server asks."""

    server: str
    messages: tuple[Message, ...]
    max_tokens: int


@dataclass(frozen=True, kw_only=True)
class ModelLent:
    """A server was lent the plan's model for one answer, which the plan paid for."""

    call_id: str  # of the call that the server was at
    server: str
    model: str
    usd: float | None = None  # None: unknown price
    input_tokens: int = 0
    output_tokens: int = 0
    body: Body  # {asked: [{speaker, text}], answer}


def sampling_of(server: str, params: Any) -> Sampling | None:
    """Return what a request's parameters ask; None where that cannot be asked."""
    body = params if isinstance(params, Mapping) else {}
    rows, most, system = body.get("messages"), body.get("maxTokens"), body.get("systemPrompt", "")
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_MESSAGES:
        return None
    if type(most) is not int or most < 1 or not isinstance(system, str):
        return None
    said = [_message(row) for row in rows]
    found = [each for each in said if each is not None]
    length = len(system) + sum(len(each.text) for each in found)
    if len(found) < len(said) or length > TEXT_CHARS or found[-1].speaker != Speaker.USER:
        return None
    head = Message(speaker=Speaker.SYSTEM, text=f"{TOLD}\n\n{system}".rstrip())
    return Sampling(server=server, messages=(head, *found), max_tokens=min(most, MOST_TOKENS))


def _message(row: Any) -> Message | None:
    if not isinstance(row, Mapping):
        return None
    speaker, content = SPEAKERS.get(str(row.get("role"))), row.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [
        part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        for part in parts
    ]
    kept = [text for text in texts if isinstance(text, str)]
    if speaker is None or not kept or len(kept) < len(texts):
        return None
    return Message(speaker=speaker, text="\n".join(kept))


def answer_of(reply: ModelReply) -> Mapping[str, Any]:
    """Return a model's reply as the server is told it."""
    return {
        "role": "assistant",
        "content": {"type": "text", "text": reply.message.text},
        "model": reply.model,
        "stopReason": STOPS.get(reply.stop, str(reply.stop)),
    }


def refusal(why: str) -> Mapping[str, Any]:
    """Return what a server is told that gets no answer; its place is that of a result."""
    return {"error": {"code": REFUSED, "message": why[:500]}}


__all__ = [
    "METHOD",
    "MOST_MESSAGES",
    "MOST_TOKENS",
    "REFUSED",
    "TEXT_CHARS",
    "TOLD",
    "ModelLent",
    "Sampling",
    "answer_of",
    "refusal",
    "sampling_of",
]
