"""What is said to a model and what it answers, in no vendor's format."""

from dataclasses import dataclass
from enum import StrEnum

from patchyard.domain.tooling import ToolSpec


class Speaker(StrEnum):
    """Who says a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, kw_only=True)
class RequestedCall:
    """A tool call as the model wrote it; its arguments are text that may not even be JSON."""

    id: str  # the provider's id, answered with the same
    name: str  # whatever the model wrote
    arguments: str  # JSON text, unparsed


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture that a tool gave; a format sends it where its model can see."""

    media_type: str  # image/png, image/jpeg, image/gif or image/webp
    data: str  # base64


@dataclass(frozen=True, kw_only=True)
class Thought:
    """A block of what a model thought, opaque."""

    before: int  # parts of the answer (its text, each call) that came before it
    block: str  # JSON, as the provider gave it


@dataclass(frozen=True, kw_only=True)
class Thoughts:
    """What a model thought before it answered: for that model alone, and shown to nobody.

    It goes back unchanged with the next request to whom it came from; any other is not sent it.
    """

    maker: str  # "KIND PROVIDER:MODEL"
    blocks: tuple[Thought, ...]


@dataclass(frozen=True, kw_only=True)
class Message:
    """One turn of a conversation. Immutable, so that a wire format encodes it once."""

    speaker: Speaker
    text: str = ""
    calls: tuple[RequestedCall, ...] = ()  # assistant only
    answers: str | None = None  # tool only: id of the RequestedCall
    thoughts: Thoughts | None = None  # assistant only
    images: tuple[Image, ...] = ()  # tool and user only


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """All a model is given for one reply."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    purpose: str = ""  # strategize or execute; never sent, for scripts and recordings
    turn: int = 0  # replies given before in this conversation; never sent
    size: int = 0  # bytes of the messages as the asker counted them; 0: not counted
    max_output_tokens: int | None = None  # None: the provider's own default
    temperature: float | None = None  # None: the provider's own default


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one request, as the provider reports them: a claim, checked against sizes."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # part of input_tokens read from the provider's cache
    written_tokens: int = 0  # another part, written to it
    is_estimated: bool = False  # True where the provider said nothing and bytes were counted
    usd: float | None = None  # what it cost by the price table; None: unknown price


class StopReason(StrEnum):
    """Why the model stopped writing."""

    DONE = "done"
    CALLS = "calls"
    LENGTH = "length"
    FILTERED = "filtered"


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """One answer of a model."""

    message: Message  # speaker ASSISTANT
    usage: Usage
    stop: StopReason
    model: str  # the name the provider answered with


def estimated_tokens(request: ModelRequest) -> int:
    """Return the tokens of a request as its size lets guess them, four characters each."""
    return (request.size or sum(_characters(message) for message in request.messages)) // 4 + 1


def estimated_usage(request: ModelRequest, answer: Message) -> Usage:
    """Return tokens counted from sizes, four characters each, where a provider says nothing."""
    return Usage(
        input_tokens=estimated_tokens(request),
        output_tokens=_characters(answer) // 4 + 1,
        is_estimated=True,
    )


def _characters(message: Message) -> int:
    return len(message.text) + sum(len(c.name) + len(c.arguments) for c in message.calls)


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What is known of a model before it is asked."""

    name: str  # "provider:model"
    context_tokens: int | None = None  # None: unknown
    has_tools: bool = True
    has_images: bool = False  # whether it can see
    usd_per_million_input: float | None = None  # at most, whatever a cache does; None: unknown
    usd_per_million_output: float | None = None


__all__ = [
    "Image",
    "Message",
    "ModelFacts",
    "ModelReply",
    "ModelRequest",
    "RequestedCall",
    "Speaker",
    "StopReason",
    "Thought",
    "Thoughts",
    "Usage",
    "estimated_tokens",
    "estimated_usage",
]
