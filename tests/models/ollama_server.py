"""A provider that speaks Ollama's own format, with a window, a memory and loading as it has."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from models.loopback import Cue, Json, LoopbackServer, Peer, Refusal, pieces
from patchyard.models.scripted import ScriptedReply

_OLLAMA_FIELDS = {
    *("model", "messages", "tools", "stream", "options", "keep_alive", "truncate", "think"),
}
_OLLAMA_MESSAGE = {
    "role",
    "content",
    "thinking",
    "tool_calls",
    "tool_name",
    "tool_call_id",
    "images",
}

_BUSY = Refusal(500, {"error": "unexpected server status"})
_MEMORY = "model requires more system memory (9.3 GiB) than is available (4.0 GiB)"
_REFUSALS = {
    "busy": _BUSY,
    "server-error": _BUSY,
    "memory": Refusal(500, {"error": _MEMORY}),
    "too-long": Refusal(400, {"error": "the input length exceeds the context length"}),
}


@dataclass(kw_only=True)
class OllamaServer(LoopbackServer):
    """`/api/show`, `/api/ps`, `/api/tags`, `/api/generate` and `/api/chat`."""

    model: str = "tiny:latest"
    largest: int = 40_960
    capabilities: tuple[str, ...] = ("completion", "tools")
    loaded: int | None = None  # window of the loaded model
    most_memory: int = 1_000_000  # tokens of window that there is memory for
    still_loading: int = 0  # answers that say so, before it is there
    refusals = _REFUSALS
    streamed_as = "application/x-ndjson"

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        routes: dict[tuple[str, str], Callable[[Json], Json]] = {
            ("POST", "/api/show"): self._show,
            ("GET", "/api/ps"): self._running,
            ("GET", "/api/tags"): lambda _: {"models": [{"name": self.model}]},
            ("POST", "/api/generate"): self._load,
        }
        if (method, path) in routes:
            await peer.whole(routes[method, path](data))
            return True
        if (method, path) != ("POST", "/api/chat"):
            raise Refusal(404, {"error": "404 page not found"})
        self.requests.append(data)
        check_ollama(data)
        self._known(data)
        self._load(data)
        turn = sum(m["role"] == "assistant" for m in data["messages"])
        return await self.answer(data, turn, peer)

    def _known(self, data: Json) -> None:
        wanted = data.get("model", "")
        if wanted not in {self.model, self.model.removesuffix(":latest")}:
            raise Refusal(404, {"error": f"model '{wanted}' not found"})

    def _show(self, data: Json) -> Json:
        self._known(data)
        return {
            "details": {"family": "tiny"},
            "model_info": {"general.architecture": "tiny", "tiny.context_length": self.largest},
            "capabilities": list(self.capabilities),
        }

    def _running(self, _data: Json) -> Json:
        if self.loaded is None:
            return {"models": []}
        return {"models": [{"name": self.model, "context_length": self.loaded}]}

    def _load(self, data: Json) -> Json:
        self._known(data)
        if self.still_loading:
            self.still_loading -= 1
            raise Refusal(503, {"error": "llm server loading model"})
        self.loaded = min(data["options"]["num_ctx"], self.most_memory)
        return {"model": self.model, "response": "", "done": True, "done_reason": "load"}

    def document(self, cue: Cue) -> Json:
        return self._line(cue.reply.text, calls=cue.reply, is_done=True)

    def pieces(self, cue: Cue) -> list[bytes]:
        lines = [self._line("", thinking="hm"), *map(self._line, pieces(cue.reply.text))]
        if cue.reply.calls:
            lines.append(self._line("", calls=cue.reply))
        return [_encoded(line) for line in lines]

    def endings(self, cue: Cue) -> list[bytes]:
        if cue.fault == "late-error":
            return [_encoded({"error": "an error was encountered while running the model"})]
        return [_encoded(self._line("", is_done=True))]

    def said(self, text: str) -> bytes:
        return _encoded(self._line(text))

    def _line(
        self,
        text: str,
        *,
        thinking: str = "",
        calls: ScriptedReply | None = None,
        is_done: bool = False,
    ) -> Json:
        message: Json = {"role": "assistant", "content": text}
        if thinking:
            message["thinking"] = thinking
        if calls and calls.calls:
            message["tool_calls"] = [
                {"function": {"name": name, "arguments": arguments}}
                for name, arguments in calls.calls
            ]
        line: Json = {"model": self.model, "message": message, "done": is_done}
        if is_done:
            line |= {"done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7}
        return line


def _encoded(line: Json) -> bytes:
    return json.dumps(line).encode() + b"\n"


def check_ollama(data: Json) -> None:
    """Refuse what does not decode into the real one's records."""
    unknown = sorted(set(data) - _OLLAMA_FIELDS)
    if unknown:
        raise Refusal(400, {"error": f"unknown field {unknown[0]}"})
    names: list[str] = []
    for message in data["messages"]:
        strange = sorted(set(message) - _OLLAMA_MESSAGE)
        if strange or not isinstance(message["content"], str):
            raise Refusal(400, {"error": f"json: bad message {strange}"})
        if message["role"] == "tool" and message["tool_name"] not in names:
            raise Refusal(400, {"error": "a tool message answers no call"})
        for call in message.get("tool_calls", []):
            names.append(call["function"]["name"])
            if not isinstance(call["function"]["arguments"], dict):
                raise Refusal(400, {"error": "json: arguments are no object"})
    size = sum(len(message["content"]) for message in data["messages"])
    if size // 4 > data["options"]["num_ctx"]:
        raise Refusal(400, {"error": "the input length exceeds the context length"})
