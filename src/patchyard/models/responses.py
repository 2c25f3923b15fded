"""The responses format, as OpenAI defined it.

Nothing of a conversation is left with the provider: each request says the whole of it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchyard.clients.http import HttpClient, HttpTrouble, Trouble
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import Message, ModelRequest, Speaker, StopReason, Usage
from patchyard.domain.tooling import ToolSpec
from patchyard.models.answering import Assembly, mapping, whole_number
from patchyard.models.encoding import Encoded, body_of
from patchyard.models.keyed import KeyedModel
from patchyard.models.troubles import Provider

LEAST_ANSWER = 16  # tokens; the format takes no smaller limit
ENDS: Mapping[str, StopReason] = {  # by the status of an answer
    "completed": StopReason.DONE,
    "incomplete": StopReason.LENGTH,
}
STATUSES: Mapping[str, int] = {  # of errors that come in a successful answer; others are 500
    "bio_policy": 400,
    "content_filter": 400,
    "context_length_exceeded": 400,
    "data_residency_mismatch": 400,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "model_not_found": 404,
    "rate_limit_exceeded": 429,
    "vector_store_timeout": 504,
}
PHASE = "phase"  # of a text: commentary or final_answer
_SAID = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHT = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_ITEMS = frozenset({"response.output_item.added", "response.output_item.done"})
_ENDED = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclass(frozen=True, kw_only=True)
class Bearing:
    """Where servers of this format differ."""

    is_streaming: bool = True


class ResponsesModel(KeyedModel):
    """One model behind a base URL that ends before `/responses`."""

    kind = "openai-responses"
    asked_at = "/responses"
    has_images = True
    asks_thoughts = True
    refused_thoughts = re.compile(r'encrypted[_ ]content|"include"', re.IGNORECASE)

    def __init__(
        self,
        provider: Provider,
        client: HttpClient,
        *,
        bearing: Bearing | None = None,
        context_tokens: int | None = None,
    ) -> None:
        super().__init__(provider, client, context_tokens=context_tokens)
        self._bearing = bearing or Bearing()

    def _encoding(self) -> Encoded:
        return Encoded(lambda said: self._mixed(said, encoded(self._visible(said))), tool=_tool)

    def _mixed(self, message: Message, parts: Sequence[Any]) -> list[Any]:
        return _phased(super()._mixed(message, parts))

    def _body(self, request: ModelRequest) -> bytes:
        settings: dict[str, Any] = {
            "model": self._provider.model,
            "store": False,
            "stream": self._bearing.is_streaming,
        }
        if self._asks_thoughts:
            settings["include"] = ["reasoning.encrypted_content"]
        if request.max_output_tokens is not None:
            settings["max_output_tokens"] = max(LEAST_ANSWER, request.max_output_tokens)
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        items = [each[1:-1] for each in self._encoded.each(request.messages) if each != b"[]"]
        return body_of(settings, "input", items, self._encoded.tools(request.tools))

    def _take_whole(self, data: Mapping[str, Any], assembly: Assembly) -> None:
        self._require_well(data)
        items = data.get("output")
        if not isinstance(items, list):
            raise HttpTrouble(Trouble.GARBLED, "the answer holds no output")
        for index, item in enumerate(map(mapping, items)):
            kind = item.get("type")
            if kind == "function_call":
                _take_call(item, index, assembly, is_whole=True)
            elif kind == "message":
                _keep_phase(item, index, assembly)
                assembly.add_text(_texts(item.get("content")))
            elif kind == "reasoning":
                assembly.add_thinking(_texts(item.get("summary")) + _texts(item.get("content")))
                _keep(item, index, assembly)
        _end(data, assembly)

    def _take(self, data: Mapping[str, Any], assembly: Assembly) -> bool:
        kind, index, piece = str(data.get("type")), data.get("output_index"), data.get("delta")
        if kind == "error" or data.get("error"):
            raise self._error(mapping(data.get("error")) or data)
        if kind in _SAID:
            assembly.add_text(piece)
        elif kind in _THOUGHT:
            assembly.add_thinking(piece)
        elif kind == "response.function_call_arguments.delta":
            assembly.add_call(index, None, {"arguments": piece})
        elif kind in _ITEMS:
            is_whole = kind == "response.output_item.done"
            _take_item(mapping(data.get("item")), index, assembly, is_whole=is_whole)
        elif kind == "response.created":
            assembly.name(mapping(data.get("response")).get("model"))
        elif kind in _ENDED:
            response = mapping(data.get("response"))
            self._require_well(response)
            _end(response, assembly)
        return kind in _ENDED

    def _require_well(self, data: Mapping[str, Any]) -> None:
        """Raise what is wrong with an answer that ended."""
        if data.get("error") or data.get("status") in {"failed", "cancelled"}:
            raise self._error(mapping(data.get("error")))

    def _error(self, error: Mapping[str, Any]) -> ModelFailed | ModelUnavailable:
        code = str(error.get("code") or error.get("type") or "")
        words = str(error.get("message") or "no reason given")
        said = f"{words} ({code})" if code else words
        return self._told_late({"error": {"message": said}}, STATUSES.get(code, 500))


def encoded(message: Message) -> list[dict[str, Any]]:
    """Return the items of a message; none where it says nothing."""
    if message.speaker is Speaker.TOOL:
        answered = {"call_id": message.answers or "", "output": _seen(message)}
        return [{"type": "function_call_output", **answered}]
    said = {"type": "message", "role": str(message.speaker), "content": _seen(message)}
    calls = [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in message.calls
    ]
    return [said, *calls] if message.text.strip() else calls


def _seen(message: Message) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.text
    urls = (f"data:{image.media_type};base64,{image.data}" for image in message.images)
    parts = [{"type": "input_image", "image_url": url, "detail": "auto"} for url in urls]
    return [{"type": "input_text", "text": message.text}, *parts]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,  # else the format demands schemas without optional properties
    }


def _take_item(
    item: Mapping[str, Any], index: object, assembly: Assembly, *, is_whole: bool
) -> None:
    """Take in an item of a stream, as it begins and once more when it is whole."""
    kind = item.get("type")
    if kind == "function_call":
        _take_call(item, index, assembly, is_whole=is_whole)
    elif kind == "reasoning" and is_whole:
        _keep(item, index, assembly)
    elif kind == "message" and not is_whole:
        _keep_phase(item, index, assembly)


def _take_call(
    item: Mapping[str, Any], index: object, assembly: Assembly, *, is_whole: bool
) -> None:
    """Take in a call as it begins, and the whole of it where its pieces did not come."""
    is_missing = is_whole and assembly.lacks_arguments(index)
    function = {
        "name": item.get("name"),
        "arguments": item.get("arguments") if is_missing else None,
    }
    assembly.add_call(index, item.get("call_id"), function)


def _texts(content: object) -> str:
    parts: Sequence[Any] = content if isinstance(content, list) else []
    said = (part.get("text") or part.get("refusal") for part in map(mapping, parts))
    return "".join(text for text in said if isinstance(text, str))


def _keep(item: Mapping[str, Any], index: object, assembly: Assembly) -> None:
    """Keep a thought that can be read again by whoever gave it."""
    if item.get("encrypted_content"):
        assembly.begin_thought(index, item)


def _keep_phase(item: Mapping[str, Any], index: object, assembly: Assembly) -> None:
    """Keep whether a text is a comment or the answer, which newer models want to be told again."""
    if item.get(PHASE):
        assembly.begin_thought(index, {PHASE: item[PHASE]})


def _phased(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items with each phase at the text that follows it."""
    phase: dict[str, Any] = {}
    made: list[dict[str, Any]] = []
    for item in items:
        if set(item) == {PHASE}:
            phase = item
            continue
        is_text = item.get("type") == "message"
        made.append({**item, **phase} if is_text else item)
        phase = {} if is_text else phase
    return made


def _end(data: Mapping[str, Any], assembly: Assembly) -> None:
    """Take in why the answer ended, and what it took."""
    assembly.name(data.get("model"))
    if isinstance(data.get("usage"), Mapping):
        assembly.usage = _usage(data["usage"])
    reason = mapping(data.get("incomplete_details")).get("reason")
    is_filtered = reason == "content_filter"
    known = ENDS.get(str(data.get("status")), StopReason.DONE)
    assembly.stop = StopReason.FILTERED if is_filtered else known


def _usage(data: Mapping[str, Any]) -> Usage:
    details = mapping(data.get("input_tokens_details"))
    return Usage(
        input_tokens=whole_number(data.get("input_tokens")),
        output_tokens=whole_number(data.get("output_tokens")),
        cached_tokens=whole_number(details.get("cached_tokens")),
        written_tokens=whole_number(details.get("cache_write_tokens")),
    )


__all__ = ["LEAST_ANSWER", "PHASE", "Bearing", "ResponsesModel", "encoded"]
