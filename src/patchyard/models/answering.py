"""Puts an answer together from the pieces it comes in, whatever the wire format."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from patchyard.contracts.model import OnText
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
    estimated_usage,
)

CHARACTERS_PER_TOKEN = 8  # more than any tokenizer needs, so the cap never cuts a fair answer
DEFAULT_TOKENS = 32_768
MOST_THOUGHT = 400_000  # characters that are kept of what one answer was thought of
ABSURD = 8  # times what sizes say: no tokenizer takes that many tokens
LEAST_CALL = 32  # characters that a call counts for beside its own: all take more than 4 tokens
LONGEST_NAME = 200  # characters kept of the name of a tool, or that a provider gives its model
LONGEST_ID = 200  # characters kept of the id of a call


class Enough(Exception):
    """More came than was asked for; leaving the request closes the connection."""


@dataclass(kw_only=True)
class _CallPieces:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Assembly:
    """One answer that is being received."""

    request: ModelRequest
    model: str
    maker: str = ""  # whose thoughts these are; empty: none are kept
    on_text: OnText | None = None
    stop: StopReason | None = None
    usage: Usage | None = None
    told: dict[str, Any] = field(default_factory=dict)  # said so far of what it took, as it came
    _text: list[str] = field(default_factory=list)
    _calls: dict[int, _CallPieces] = field(default_factory=dict)
    _last: int = -1  # the highest place of a call
    _thoughts: dict[int, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    _growing: dict[int, dict[str, list[str]]] = field(default_factory=dict)  # fields of thoughts
    _thought: int = 0  # characters of all thoughts
    _characters: int = 0

    @property
    def is_full(self) -> bool:
        """Whether more was said than was asked for; reading on would never end."""
        allowed = self.request.max_output_tokens or DEFAULT_TOKENS
        return self._characters > allowed * CHARACTERS_PER_TOKEN

    @property
    def calls_begun(self) -> int:
        """How many calls have begun."""
        return len(self._calls)

    def name(self, model: object) -> None:
        """Take in the name that the provider answers with, if it does."""
        if isinstance(model, str) and model:
            self.model = model[:LONGEST_NAME]

    def add_text(self, text: object) -> None:
        """Take in a piece of the text; some servers give it as a list of parts."""
        if isinstance(text, list):
            text = "".join(str(part.get("text") or "") for part in map(mapping, text))
        if isinstance(text, str) and text:
            self._text.append(text)
            self._characters += len(text)
            if self.on_text:
                self.on_text(text)

    def add_thinking(self, text: object) -> None:
        """Count what a model thinks aloud; it is not shown."""
        if isinstance(text, str):
            self._characters += len(text)

    def begin_thought(self, index: object, block: Mapping[str, Any]) -> None:
        """Take in a block of thought, as it begins or whole; it is kept and given back as it is."""
        if isinstance(index, int) and self._has_room(json.dumps(block) + " " * LEAST_CALL):
            before = len(self._calls) + any(text.strip() for text in self._text)
            self._thoughts[index] = (before, dict(block))
            self._growing.pop(index, None)

    def add_to_thought(self, index: object, name: str, piece: object) -> None:
        """Take in the next piece of a field of a thought that has begun."""
        if not (isinstance(index, int) and index in self._thoughts and isinstance(piece, str)):
            return
        if self._has_room(piece):
            begun = str(self._thoughts[index][1].get(name) or "")
            self._growing.setdefault(index, {}).setdefault(name, [begun]).append(piece)

    def _has_room(self, thought: str) -> bool:
        """Count a piece of a thought; return whether all of them together are still kept."""
        self._thought += len(thought)
        return self._thought <= MOST_THOUGHT

    def add_call(self, index: object, id_: object, function: object) -> None:
        """Take in a piece of a call; pieces of one call share their index."""
        if not isinstance(function, Mapping):
            return
        place = self._place(index, id_)
        if place not in self._calls:
            self._calls[place] = _CallPieces()
            self._last = max(self._last, place)
            self._characters += LEAST_CALL
        pieces = self._calls[place]
        if isinstance(id_, str) and id_:
            pieces.id = id_[:LONGEST_ID]
        name = function.get("name")
        if isinstance(name, str) and name and name != pieces.name:
            pieces.name = f"{pieces.name}{name}"[:LONGEST_NAME]
            self._characters += len(name)
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments)
        if isinstance(arguments, str):
            pieces.arguments.append(arguments)
            self._characters += len(arguments)

    def lacks_arguments(self, index: object) -> bool:
        """Whether nothing of the arguments of that call has come yet."""
        pieces = self._calls.get(index) if isinstance(index, int) else None
        return pieces is None or not any(pieces.arguments)

    def _place(self, index: object, id_: object) -> int:
        if isinstance(index, int):
            return index
        last = self._last
        said = id_[:LONGEST_ID] if isinstance(id_, str) else ""
        is_new = last not in self._calls or said not in {"", self._calls[last].id}
        return last + 1 if is_new else last

    def reply(self) -> ModelReply:
        """Return the whole answer; without a word of the provider its usage is estimated."""
        calls = tuple(
            RequestedCall(
                id=pieces.id or f"call-{index}",
                name=pieces.name,
                arguments="".join(pieces.arguments),
            )
            for index, pieces in sorted(self._calls.items())
        )
        text = "".join(self._text)
        message = Message(
            speaker=Speaker.ASSISTANT,
            text=text,
            calls=calls,
            thoughts=self._kept(parts=len(calls) + bool(text.strip())),
        )
        stop = StopReason.LENGTH if self.is_full else self.stop or StopReason.DONE
        if calls and stop is StopReason.DONE:
            stop = StopReason.CALLS
        usage = believed(self.usage, self.request, message)
        return ModelReply(message=message, usage=usage, stop=stop, model=self.model)

    def _kept(self, *, parts: int) -> Thoughts | None:
        """Return the thoughts that led to something; providers refuse others, and cut ones."""
        for index, grown in self._growing.items():
            self._thoughts[index][1].update({name: "".join(each) for name, each in grown.items()})
        blocks = tuple(
            Thought(before=before, block=json.dumps(block))
            for _, (before, block) in sorted(self._thoughts.items())
            if before < parts
        )
        is_kept = self.maker and blocks and self._thought <= MOST_THOUGHT
        return Thoughts(maker=self.maker, blocks=blocks) if is_kept else None


def believed(stated: Usage | None, request: ModelRequest, answer: Message) -> Usage:
    """Return what the provider states; what is missing or cannot be is counted from sizes."""
    counted = estimated_usage(request, answer)
    if stated is None:
        return counted
    most_asked = counted.input_tokens * ABSURD + DEFAULT_TOKENS  # the tools are not counted
    most_said = max(counted.output_tokens, request.max_output_tokens or DEFAULT_TOKENS) * ABSURD
    asked = stated.input_tokens if 0 < stated.input_tokens <= most_asked else counted.input_tokens
    is_silent = not stated.output_tokens and (answer.text or answer.calls)
    is_said = stated.output_tokens <= most_said and not is_silent
    said = stated.output_tokens if is_said else counted.output_tokens
    cached = min(stated.cached_tokens, asked)
    return replace(
        stated,
        input_tokens=asked,
        output_tokens=said,
        cached_tokens=cached,
        written_tokens=min(stated.written_tokens, asked - cached),
        is_estimated=(asked, said) != (stated.input_tokens, stated.output_tokens),
    )


def whole_number(value: object) -> int:
    """Return a count as a provider states it; nonsense is 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), 1_000_000_000)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, an empty one where something else stands."""
    return value if isinstance(value, Mapping) else {}


__all__ = [
    "CHARACTERS_PER_TOKEN",
    "DEFAULT_TOKENS",
    "Assembly",
    "Enough",
    "believed",
    "mapping",
    "whole_number",
]
