"""Ollama's own chat format, with an explicit context window.

Its OpenAI-compatible endpoint cuts requests at its default window without a word, so it is not
used. Knows no price and retries nothing, but waits for a model that is being loaded.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from patchyard.clients.http import Answer, HttpClient, HttpTrouble, Trouble, parsed
from patchyard.contracts.model import OnText, OnWait
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
from patchyard.models.encoding import Encoded, body_of, object_of, to_json, without_images
from patchyard.models.troubles import NO_TOOLS, Provider, said_by
from patchyard.models.unrepeating import unrepeated

LEAST_TOKENS = 8_192  # a window in which the smallest task with its tools fits
WANTED_TOKENS = 32_768
KEEP_ALIVE = "30m"  # tools may run long between two requests
STOPS: Mapping[str, StopReason] = {"stop": StopReason.DONE, "length": StopReason.LENGTH}


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How a model is loaded and waited for."""

    window: int = WANTED_TOKENS  # tokens asked for, where the model has as many
    patience_s: float = 600.0
    poll_s: float = 1.0
    is_streaming: bool = True


class OllamaModel:
    """One model of an Ollama server."""

    def __init__(
        self,
        provider: Provider,
        client: HttpClient,
        *,
        loading: Loading | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        pull = f"`ollama pull {provider.model}`"
        start = "start it with `ollama serve`, or name another address in OLLAMA_HOST"
        self._provider = replace(provider, missing_hint=pull, unreachable_hint=start)
        self._client = client
        self._loading = loading or Loading()
        self._on_wait = on_wait
        self._names: dict[str, str] = {}
        self._encoded = Encoded(self._encode)
        self._window = self._loading.window
        self._facts = ModelFacts(
            name=f"{provider.name}:{provider.model}",
            has_tools=provider.has_tools,
            usd_per_million_input=0.0,
            usd_per_million_output=0.0,
        )

    @property
    def facts(self) -> ModelFacts:
        """What is known so far; it costs nothing."""
        return self._facts

    async def prepare(self) -> ModelFacts:
        """Look the model up, load it with the window it needs, and wait until it is there."""
        shown = mapping(await self._fetch("/api/show", {"model": self._provider.model}))
        said = shown.get("capabilities")
        knows_tools = "tools" in said if isinstance(said, list) else self._facts.has_tools
        largest = _largest_window(shown)
        if largest is not None and largest < LEAST_TOKENS:
            raise self._unfit(
                f"its window has {largest:,} tokens and at least {LEAST_TOKENS:,} are needed",
                "take a model with a larger one: `ollama pull qwen3-coder`",
            )
        self._window = min(self._loading.window, largest or self._loading.window)
        stated = self._provider.has_images
        self._facts = replace(
            self._facts,
            context_tokens=self._window,
            has_tools=knows_tools and self._provider.has_tools,
            has_images="vision" in (said or ()) if stated is None else stated,
        )
        await self._load()
        return self._facts

    async def offered(self) -> tuple[str, ...]:
        """Return the names of the models that are pulled. Raises as `complete` does."""
        rows = mapping(await self._fetch("/api/tags")).get("models")
        listed = rows if isinstance(rows, list) else []
        return tuple(str(mapping(row)["name"]) for row in listed if "name" in mapping(row))

    async def capabilities(self, name: str) -> frozenset[str]:
        """Return what a pulled model says that it can do: `tools`, `completion`, `embedding`."""
        shown = mapping(await self._fetch("/api/show", {"model": name}))
        said = shown.get("capabilities")
        return frozenset(map(str, said)) if isinstance(said, list) else frozenset()

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask once. Raises ModelFailed or ModelUnavailable; cancelling closes the connection."""
        body = self._body(request)
        if len(body) > self._window * 8:
            raise self._provider.too_long(f"{len(body):,} bytes for {self._window:,} tokens")
        assembly = Assembly(request=request, model=self._provider.model, on_text=on_text)
        with suppress(Enough):
            await self._patiently(lambda: self._chat(body, assembly))
        return unrepeated(assembly.reply(), request, self._provider.key)

    async def close(self) -> None:
        """Close the connections; the server unloads the model by itself."""
        await self._client.close()

    async def _chat(self, body: bytes, assembly: Assembly) -> None:
        async with self._client.ask(
            "/api/chat", body=body, headers=await self._authorised()
        ) as answer:
            await self._receive(answer, assembly)

    async def _authorised(self) -> dict[str, str]:
        await self._provider.key.read()
        return self._provider.key.headers()

    async def _load(self) -> None:
        held = await self._held()
        if held is not None and held >= self._window:
            return
        self._say_loading()
        await self._fetch(
            "/api/generate",
            {
                "model": self._provider.model,
                "stream": False,
                "keep_alive": KEEP_ALIVE,
                "options": {"num_ctx": self._window},
            },
        )
        held = await self._held()
        if held is not None and held < LEAST_TOKENS:
            raise self._unfit(
                f"the server gave it a window of {held:,} tokens only",
                "unset OLLAMA_CONTEXT_LENGTH and lower OLLAMA_NUM_PARALLEL of the server",
            )
        if held is not None and held < self._window:
            self._window = held
            self._facts = replace(self._facts, context_tokens=held)

    async def _held(self) -> int | None:
        """Return the window of the loaded model; None when it is not loaded or nobody says."""
        rows = mapping(await self._fetch("/api/ps")).get("models")
        wanted = (self._provider.model, f"{self._provider.model}:latest")
        for row in rows if isinstance(rows, list) else []:
            state = mapping(row)
            if state.get("name") in wanted or state.get("model") in wanted:
                return whole_number(state.get("context_length")) or None
        return None

    async def _fetch(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        async def ask() -> Any:
            return await self._client.fetch(
                path,
                body=None if body is None else to_json(body),
                headers=await self._authorised(),
            )

        return await self._patiently(ask)

    async def _patiently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask, and ask again while the server says that it is loading the model."""
        waited = 0.0
        while True:
            try:
                return await ask()
            except HttpTrouble as trouble:
                if not _is_loading(trouble) or waited >= self._loading.patience_s:
                    raise self._translated(trouble) from trouble
            self._say_loading()
            await asyncio.sleep(self._loading.poll_s)
            waited += self._loading.poll_s

    def _translated(self, trouble: HttpTrouble) -> ModelFailed | ModelUnavailable:
        if "more system memory" in trouble.body:
            return self._unfit(
                said_by(trouble.body, self._provider.key),
                "take a smaller model, or a smaller window (`context_tokens` of the provider)",
            )
        if NO_TOOLS.search(trouble.body):
            self._facts = replace(self._facts, has_tools=False)
        return self._provider.translated(trouble)

    def _unfit(self, why: str, cure: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._facts.name} cannot do this work: {why}",
            hint=cure,
            details={"kind": "unfit", "provider": self._provider.name},
        )

    def _say_loading(self) -> None:
        if self._on_wait:
            size = f"a window of {self._window:,} tokens"
            self._on_wait(f"{self._provider.model} to be loaded with {size}")

    def _body(self, request: ModelRequest) -> bytes:
        options: dict[str, Any] = {"num_ctx": self._window}
        if request.max_output_tokens is not None:
            options["num_predict"] = request.max_output_tokens
        if request.temperature is not None:
            options["temperature"] = request.temperature
        settings = {
            "model": self._provider.model,
            "stream": self._loading.is_streaming,
            "keep_alive": KEEP_ALIVE,
            "truncate": False,
            "options": options,
        }
        further = self._encoded.tools(request.tools)
        return body_of(settings, "messages", self._encoded.each(request.messages), further)

    async def _receive(self, answer: Answer, assembly: Assembly) -> None:
        async with aclosing(_whole(answer)) as lines:
            async for line in lines:
                if line.strip():
                    self._take(mapping(parsed(line)), assembly)
                if assembly.is_full:
                    raise Enough
        if assembly.stop is None:
            raise HttpTrouble(Trouble.CUT, "the answer ended in the middle")

    def _take(self, data: Mapping[str, Any], assembly: Assembly) -> None:
        if data.get("error"):
            raise HttpTrouble(
                Trouble.STATUS, "an error in the answer", status=500, body=json.dumps(data)
            )
        said = mapping(data.get("message"))
        assembly.add_text(said.get("content"))
        assembly.add_thinking(said.get("thinking"))
        calls = said.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            piece = mapping(call)
            assembly.add_call(assembly.calls_begun, piece.get("id"), piece.get("function"))
        if data.get("done") is True:
            assembly.stop = STOPS.get(str(data.get("done_reason", "stop")), StopReason.DONE)
            if "eval_count" in data:
                assembly.usage = Usage(
                    input_tokens=whole_number(data.get("prompt_eval_count")),
                    output_tokens=whole_number(data.get("eval_count")),
                    usd=0.0,
                )

    def _encode(self, message: Message) -> dict[str, Any]:
        message = message if self._facts.has_images else without_images(message)
        said: dict[str, Any] = {"role": str(message.speaker), "content": message.text}
        if message.speaker is Speaker.TOOL:
            said["tool_name"] = self._names.get(message.answers or "", "")
            said["tool_call_id"] = message.answers or ""
        if message.images:
            said["images"] = [image.data for image in message.images]
        if message.calls:
            self._names.update({call.id: call.name for call in message.calls})
            said["tool_calls"] = [
                {"id": c.id, "function": {"name": c.name, "arguments": object_of(c.arguments)}}
                for c in message.calls
            ]
        return said


async def _whole(answer: Answer) -> AsyncGenerator[bytes]:
    if not answer.is_json:
        async for line in answer.lines:
            yield line
        return
    yield await answer.whole()


def _largest_window(shown: Mapping[str, Any]) -> int | None:
    facts = mapping(shown.get("model_info"))
    sizes: Sequence[int] = [
        whole_number(value) for name, value in facts.items() if name.endswith(".context_length")
    ]
    return max(sizes, default=0) or None


def _is_loading(trouble: HttpTrouble) -> bool:
    return trouble.status in {500, 503} and "loading model" in trouble.body.lower()


__all__ = ["LEAST_TOKENS", "WANTED_TOKENS", "Loading", "OllamaModel"]
