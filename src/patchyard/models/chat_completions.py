"""The chat completions format, as OpenAI defined it and many servers speak it.

Knows no price and retries nothing.
"""

from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from patchyard.clients.http import Answer, HttpClient, HttpTrouble, Trouble, parsed
from patchyard.contracts.model import OnText
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import (
    Message,
    ModelFacts,
    ModelReply,
    ModelRequest,
    Speaker,
    StopReason,
    Usage,
)
from patchyard.models.answering import Assembly, Enough, mapping, whole_number
from patchyard.models.encoding import Encoded, to_json
from patchyard.models.event_streams import events_of
from patchyard.models.listings import advised, names_in, require_listed
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


class ChatCompletionsModel:
    """One model behind a base URL that ends before `/chat/completions`."""

    def __init__(
        self,
        provider: Provider,
        client: HttpClient,
        *,
        dialect: Dialect | None = None,
        context_tokens: int | None = None,
    ) -> None:
        self._provider = provider
        self._client = client
        self._dialect = dialect or Dialect()
        self._encoded = Encoded(encoded)
        self._facts = ModelFacts(
            name=f"{provider.name}:{provider.model}", context_tokens=context_tokens
        )

    @property
    def facts(self) -> ModelFacts:
        """The name, and the window where the configuration states it."""
        return self._facts

    async def prepare(self) -> ModelFacts:
        """Check what can be checked without a charge: that a key is there when one is named."""
        self._provider.require_key()
        return self._facts

    def require_key(self) -> None:
        """Raise ModelUnavailable where a key is named and not there."""
        self._provider.require_key()

    async def offered(self) -> tuple[str, ...]:
        """Return the names of the models the provider lists. Raises as `complete` does."""
        try:
            data = await self._client.fetch("/models", headers=self._provider.key.headers())
        except HttpTrouble as trouble:
            raise self._provider.translated(trouble) from trouble
        return names_in(data)

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask once. Raises ModelFailed or ModelUnavailable; cancelling closes the connection."""
        assembly = Assembly(request=request, model=self._provider.model, on_text=on_text)
        try:
            with suppress(Enough):
                async with self._client.ask(
                    "/chat/completions",
                    body=self._body(request),
                    headers=self._provider.key.headers(),
                ) as answer:
                    await self._receive(answer, assembly)
        except HttpTrouble as trouble:
            raise await advised(self._provider, trouble, self.offered) from trouble
        return assembly.reply()

    async def require_listed(self) -> None:
        """Raise ModelUnavailable where the provider's list lacks the model.

        Raises as `complete` does where the list cannot be had; a provider may well have none.
        """
        await require_listed(self._provider, self.offered)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _body(self, request: ModelRequest) -> bytes:
        settings: dict[str, Any] = {"model": self._provider.model}
        if request.max_output_tokens is not None:
            settings[self._dialect.limit_field] = request.max_output_tokens
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        settings["stream"] = self._dialect.is_streaming
        if self._dialect.is_streaming and self._dialect.asks_usage:
            settings["stream_options"] = {"include_usage": True}
        parts = [to_json(settings)[:-1], b',"messages":', self._encoded.messages(request.messages)]
        if request.tools:
            parts += [b',"tools":', self._encoded.tools(request.tools)]
        return b"".join([*parts, b"}"])

    async def _receive(self, answer: Answer, assembly: Assembly) -> None:
        if answer.is_json:
            whole = b"\n".join([line async for line in answer.lines])
            self._take(mapping(parsed(whole)), assembly, part="message")
            return
        try:
            async with aclosing(events_of(answer.lines)) as events:
                async for data in events:
                    if data == b"[DONE]":
                        break
                    self._take(mapping(parsed(data)), assembly, part="delta")
                    if assembly.is_full:
                        raise Enough
        except HttpTrouble:
            if assembly.stop is None:
                raise
        if assembly.stop is None:
            raise HttpTrouble(Trouble.CUT, "the answer ended in the middle")

    def _take(self, data: Mapping[str, Any], assembly: Assembly, *, part: str) -> None:
        if data.get("error"):
            raise self._error(data)
        if isinstance(data.get("model"), str) and data["model"]:
            assembly.model = data["model"]
        if isinstance(data.get("usage"), Mapping):
            assembly.usage = _usage(data["usage"])
        choices = data.get("choices")
        choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
        if part == "message" and not choice:
            raise HttpTrouble(Trouble.GARBLED, "the answer holds no choice")
        said = mapping(choice.get(part))
        assembly.add_text(said.get("content") or said.get("refusal"))
        assembly.add_thinking(said.get("reasoning_content") or said.get("reasoning"))
        calls = said.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            piece = mapping(call)
            index = piece.get("index", place if part == "message" else None)
            assembly.add_call(index, piece.get("id"), piece.get("function"))
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            assembly.stop = STOPS.get(reason, StopReason.DONE)

    def _error(self, data: Mapping[str, Any]) -> ModelFailed | ModelUnavailable:
        """Translate an error that came as an event of a successful answer."""
        error = mapping(data["error"])
        code = error.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        return self._provider.told_late(data, status)


def encoded(message: Message) -> dict[str, Any]:
    """Return a message as this format has it."""
    if message.speaker is Speaker.TOOL:
        return {"role": "tool", "tool_call_id": message.answers or "", "content": message.text}
    said: dict[str, Any] = {"role": str(message.speaker), "content": message.text}
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


def _usage(data: Mapping[str, Any]) -> Usage:
    details = mapping(data.get("prompt_tokens_details"))
    return Usage(
        input_tokens=whole_number(data.get("prompt_tokens")),
        output_tokens=whole_number(data.get("completion_tokens")),
        cached_tokens=whole_number(details.get("cached_tokens")),
    )


__all__ = ["ChatCompletionsModel", "Dialect", "encoded"]
