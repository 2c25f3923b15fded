"""What has been said between an actor and its model, with the size and the hash of each message."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from patchyard.domain.messages import Message, RequestedCall, Speaker
from patchyard.toolbox.wire import loaded

OVERHEAD_BYTES = 80  # of the wire format, a message
WORTH_BYTES = 400  # what a shorter form must save
PICTURE_BYTES = 6_000  # what a picture takes of a window, as text would
KEPT_TEXT = 200  # characters kept of a long text in a shortened call


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One message and what may take its place when room is needed."""

    message: Message
    size: int  # bytes, about what it takes in a request
    shorter: Message | None = None
    is_pinned: bool = False  # the system prompt and the task


class Conversation:
    """Entries in order; their size, their hash and their messages are kept at hand."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._begin(entries)

    def _begin(self, entries: Iterable[Entry]) -> None:
        self._entries: list[Entry] = []
        self._messages: list[Message] = []
        self._hash = hashlib.sha256()
        self._hashed = 0  # of the messages; the rest waits until somebody asks for the hash
        self.size = 0  # bytes
        for one in entries:
            self.add(one)

    def add(self, one: Entry) -> None:
        """Append an entry."""
        self._entries.append(one)
        self._messages.append(one.message)
        self.size += one.size

    def make_room(
        self, budget: int, compact: Callable[[Sequence[Entry], int], Iterable[Entry]]
    ) -> None:
        """Put what `compact` returns in the place of all entries when they are over `budget`."""
        if self.size > budget:
            self._begin(compact(self._entries, budget))

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages in order."""
        return tuple(self._messages)

    @property
    def fingerprint(self) -> str:
        """The hash of the whole, from the hashes of its messages."""
        for message in self._messages[self._hashed :]:
            self._hash.update(_digest(message))
        self._hashed = len(self._messages)
        return self._hash.hexdigest()


def entry(message: Message, *, shorter: Message | None = None, is_pinned: bool = False) -> Entry:
    """Measure a message; a `shorter` form that saves little is dropped."""
    size = _size(message)
    if shorter is not None and size - _size(shorter) < WORTH_BYTES:
        shorter = None
    return Entry(message=message, size=size, shorter=shorter, is_pinned=is_pinned)


def shortened(old: Entry, *, is_last: bool = False) -> Entry:
    """Return the entry in its shorter form, or itself when there is none.

    What was said last keeps its thoughts: a provider wants them beside the calls they led to.
    """
    if old.shorter is None:
        return old
    made = entry(replace(old.shorter, thoughts=old.message.thoughts) if is_last else old.shorter)
    return replace(made, is_pinned=old.is_pinned)


def spoken(message: Message) -> Entry:
    """Measure what a model said; its shorter form leaves out long texts and all thoughts."""
    is_long = any(len(text) > 2 * KEPT_TEXT for text in (message.text, *_arguments(message)))
    if not is_long and message.thoughts is None:
        return entry(message)
    calls = tuple(
        RequestedCall(id=c.id, name=c.name, arguments=_short_arguments(c.arguments))
        for c in message.calls
    )
    shorter = replace(message, text=_short(message.text), calls=calls, thoughts=None)
    return entry(message, shorter=shorter)


def _arguments(message: Message) -> Iterator[str]:
    return (call.arguments for call in message.calls)


def starts_exchange(one: Entry) -> bool:
    """Whether a conversation may be cut before this entry."""
    return one.message.speaker is Speaker.ASSISTANT


def _size(message: Message) -> int:
    calls = sum(len(c.name) + _bytes(c.arguments) + OVERHEAD_BYTES for c in message.calls)
    thoughts = sum(_bytes(block) for block in _thoughts(message))
    images = PICTURE_BYTES * len(message.images)
    return _bytes(message.text) + calls + thoughts + images + OVERHEAD_BYTES


def _thoughts(message: Message) -> tuple[str, ...]:
    return tuple(one.block for one in message.thoughts.blocks) if message.thoughts else ()


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _digest(message: Message) -> bytes:
    whole = hashlib.sha256()
    for part in (message.speaker, message.text, message.answers or ""):
        whole.update(f"{len(part)}:".encode())
        whole.update(part.encode("utf-8", "surrogatepass"))
    for call in message.calls:
        line = f"{call.id}\0{call.name}\0{call.arguments}\0"
        whole.update(line.encode("utf-8", "surrogatepass"))
    for image in message.images:
        whole.update(image.data.encode("ascii", "replace"))
    for block in _thoughts(message):
        whole.update(block.encode("utf-8", "surrogatepass"))
    return whole.digest()


def _short(text: str) -> str:
    if len(text) <= 2 * KEPT_TEXT:
        return text
    return f"{text[:KEPT_TEXT]} [... {len(text) - KEPT_TEXT:,} characters left out]"


def _short_arguments(arguments: str) -> str:
    if len(arguments) <= 2 * KEPT_TEXT:
        return arguments
    try:
        value = loaded(arguments)
    except ValueError:
        return "{}"
    if not isinstance(value, dict):
        return "{}"
    return json.dumps({k: _short(v) if isinstance(v, str) else v for k, v in value.items()})


__all__ = [
    "PICTURE_BYTES",
    "WORTH_BYTES",
    "Conversation",
    "Entry",
    "entry",
    "shortened",
    "spoken",
    "starts_exchange",
]
