"""A provider that counts its own tokens: what each request took, and what it was allowed to say."""

import asyncio
import json
import random
from dataclasses import dataclass, field

from models.loopback import Cue, Json, Peer, Refusal
from models.servers import ChatServer
from patchyard.models.scripted import ScriptedReply

BYTES_PER_TOKEN = 2  # of a request; every tokenizer needs more
PRICE_IN, PRICE_OUT = 2_500, 10_000  # nano-USD a token, as the price table says of gpt-4o


@dataclass(kw_only=True)
class CountingServer(ChatServer):
    """Charges what it works on: refusals are free, answers that are cut are not."""

    seed: int = 1
    trouble: float = 0.0  # share of requests that go wrong
    pause_s: float = 0.0
    charged_tokens: int = 0
    charged_nano: int = 0
    longest: list[int] = field(default_factory=list)  # answers that were allowed, in tokens
    sixth: asyncio.Event = field(default_factory=asyncio.Event)  # a request was the sixth
    _random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    async def handle(self, method: str, path: str, data: Json, peer: Peer) -> bool:
        data["model"] = "tiny"
        return await super().handle(method, path, data, peer)

    async def answer(self, data: Json, _turn: int, peer: Peer) -> bool:
        allowed = data.get("max_tokens") or data["max_completion_tokens"]
        self.longest.append(allowed)
        if len(self.longest) == 6:
            self.sixth.set()
        asked = len(json.dumps(data["messages"])) // BYTES_PER_TOKEN
        said = self._random.randint(1, allowed)
        kind = self._random.random()
        if kind < self.trouble / 2:
            raise Refusal(429, {"error": {"message": "slow down"}})
        self.charged_tokens += asked + said
        self.charged_nano += asked * PRICE_IN + said * PRICE_OUT
        number = len(self.longest)
        reply = ScriptedReply(calls=(("read_file", {"path": "a.txt", "start_line": number}),))
        if "write_file" not in {tool["function"]["name"] for tool in data["tools"]}:
            reply = ScriptedReply(calls=(("finish", {"summary": "read on"}),))
        usage = {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
        }
        if kind < self.trouble:
            await peer.begin("text/event-stream; charset=utf-8")
            return False
        await asyncio.sleep(self.pause_s)
        cue = Cue(data=data, turn=number, reply=reply)
        await peer.whole({**self.document(cue), "usage": usage})
        return True


__all__ = ["CountingServer"]
