"""The chat completions format, as OpenAI defined it and many servers speak it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchyard.clients.http import HttpClient, HttpTrouble, Trouble
from patchyard.domain.messages import Image, Message, ModelRequest, Speaker, StopReason, Usage
from patchyard.models.answering import Assembly, mapping, whole_number
from patchyard.models.encoding import Encoded, body_of, to_json
from patchyard.models.keyed import KeyedModel
from patchyard.models.troubles import Provider

STOPS: Mapping[str, StopReason] = {
    "stop": StopReason.DONE,
    "tool_calls": StopReason.CALLS,
    "function_call": StopReason.CALLS,
    "length": StopReason.LENGTH,
    "content_filter": StopReason.FILTERED,
}


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Where servers of this format differ."""

    is_streaming: bool = True
    asks_usage: bool = True  # sends stream_options.include_usage
    limit_field: str = "max_tokens"  # OpenAI itself: max_completion_tokens


class ChatCompletionsModel(KeyedModel):
    """One model behind a base URL that ends before `/chat/completions`."""

    kind = "openai-compatible"
    asked_at = "/chat/completions"

    def __init__(
        self,
        provider: Provider,
        client: HttpClient,
        *,
        dialect: Dialect | None = None,
        context_tokens: int | None = None,
    ) -> None:
        super().__init__(provider, client, context_tokens=context_tokens)
        self._dialect = dialect or Dialect()

    def _encoding(self) -> Encoded:
        return Encoded(lambda said: encoded(self._visible(said)))

    def _body(self, request: ModelRequest) -> bytes:
        settings: dict[str, Any] = {"model": self._provider.model}
        if request.max_output_tokens is not None:
            settings[self._dialect.limit_field] = request.max_output_tokens
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        settings["stream"] = self._dialect.is_streaming
        if self._dialect.is_streaming and self._dialect.asks_usage:
            settings["stream_options"] = {"include_usage": True}
        further = self._encoded.tools(request.tools)
        return body_of(settings, "messages", self._said(request.messages), further)

    def _said(self, messages: Sequence[Message]) -> Sequence[bytes]:
        """Return the JSON of all messages; what tools show follows all of their answers."""
        if not (self._facts.has_images and any(one.images for one in messages)):
            return self._encoded.each(messages)
        said: list[bytes] = []
        shown: list[Image] = []
        for message, each in zip(messages, self._encoded.each(messages), strict=True):
            if shown and message.speaker is not Speaker.TOOL:
                said.append(to_json(_showing(shown)))
                shown = []
            said.append(each)
            shown += message.images if message.speaker is Speaker.TOOL else ()
        if shown:
            said.append(to_json(_showing(shown)))
        return said

    def _take_whole(self, data: Mapping[str, Any], assembly: Assembly) -> None:
        choice = self._choice(data, assembly)
        if not choice:
            raise HttpTrouble(Trouble.GARBLED, "the answer holds no choice")
        said = mapping(choice.get("message"))
        for place, call in enumerate(_calls(said)):
            _take_call(call, place, assembly)
        _take_said(choice, said, assembly)

    def _take(self, data: Mapping[str, Any], assembly: Assembly) -> bool:
        choice = self._choice(data, assembly)
        said = mapping(choice.get("delta"))
        for call in _calls(said):
            _take_call(call, None, assembly)
        _take_said(choice, said, assembly)
        return False

    def _choice(self, data: Mapping[str, Any], assembly: Assembly) -> Mapping[str, Any]:
        """Return what is said, empty where nothing is; take in what stands beside it."""
        if data.get("error"):
            code = mapping(data["error"]).get("code")
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
            raise self._told_late(data, status)
        assembly.name(data.get("model"))
        if isinstance(data.get("usage"), Mapping):
            assembly.usage = _usage(data["usage"])
        choices = data.get("choices")
        return mapping(choices[0]) if isinstance(choices, list) and choices else {}


def _calls(said: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = said.get("tool_calls")
    return [mapping(call) for call in calls] if isinstance(calls, list) else []


def _take_call(piece: Mapping[str, Any], place: int | None, assembly: Assembly) -> None:
    assembly.add_call(piece.get("index", place), piece.get("id"), piece.get("function"))


def _take_said(choice: Mapping[str, Any], said: Mapping[str, Any], assembly: Assembly) -> None:
    assembly.add_text(said.get("content") or said.get("refusal"))
    assembly.add_thinking(said.get("reasoning_content") or said.get("reasoning"))
    reason = choice.get("finish_reason")
    if isinstance(reason, str):
        assembly.stop = STOPS.get(reason, StopReason.DONE)


def encoded(message: Message) -> dict[str, Any]:
    """Return a message as this format has it."""
    if message.speaker is Speaker.TOOL:
        return {"role": "tool", "tool_call_id": message.answers or "", "content": message.text}
    said: dict[str, Any] = {"role": str(message.speaker), "content": message.text}
    if message.images:
        said["content"] = [{"type": "text", "text": message.text}, *_parts(message.images)]
    if message.calls:
        said["content"] = message.text or None
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    return said


def _showing(images: Sequence[Image]) -> dict[str, Any]:
    """Return what shows the images of tools, whose own messages can hold text alone."""
    told = {"type": "text", "text": "The images that the tools showed:"}
    return {"role": "user", "content": [told, *_parts(images)]}


def _parts(images: Sequence[Image]) -> list[dict[str, Any]]:
    urls = (f"data:{image.media_type};base64,{image.data}" for image in images)
    return [{"type": "image_url", "image_url": {"url": url}} for url in urls]


def _usage(data: Mapping[str, Any]) -> Usage:
    details = mapping(data.get("prompt_tokens_details"))
    return Usage(
        input_tokens=whole_number(data.get("prompt_tokens")),
        output_tokens=whole_number(data.get("completion_tokens")),
        cached_tokens=whole_number(details.get("cached_tokens")),
        written_tokens=whole_number(details.get("cache_write_tokens")),
    )


__all__ = ["ChatCompletionsModel", "Dialect", "encoded"]
