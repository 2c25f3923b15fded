"""Keeps what a process asks of a provider within its rates; who is over them waits."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from patchyard.contracts.model import Model, OnText, OnWait
from patchyard.domain.messages import ModelReply, ModelRequest, estimated_tokens
from patchyard.domain.throttle import WINDOW_S, Rates, Sent, wait_s
from patchyard.models.wrapping import WrappedModel

LEAST_S = 0.05  # between two looks


class Throttle:
    """What was asked of one provider in the last minute, by all plans of this process."""

    def __init__(self, rates: Rates, now: Callable[[], float] = time.monotonic) -> None:
        self.rates = rates
        self._now = now
        self._sent: list[Sent] = []
        self._line = asyncio.Lock()  # gives way in the order of coming
        self._under_way = 0

    @contextlib.asynccontextmanager
    async def turn(self, tokens: int, *, told: Callable[[], None]) -> AsyncIterator[list[int]]:
        """Wait until a request of about `tokens` may be sent; hold its place during the block.

        Who came first is let through first, a small request after a large one too.

        The block puts what it really took into the list. `told` is called once where it waits.
        """
        is_told = self._line.locked()
        if is_told:
            told()
        async with self._line:
            await self._room(tokens, (lambda: None) if is_told else told)
            sent = Sent(at=self._now(), tokens=tokens)
            self._sent.append(sent)
            self._under_way += 1
        took: list[int] = []
        try:
            yield took
        finally:
            self._under_way -= 1
            if took and sent in self._sent:
                self._sent[self._sent.index(sent)] = replace(sent, tokens=took[0])

    async def _room(self, tokens: int, told: Callable[[], None]) -> None:
        is_told = False
        while (wait := self._wait_s(tokens)) > 0:
            if not is_told:
                is_told = True
                told()
            await asyncio.sleep(min(max(wait, LEAST_S), 1.0))

    def _wait_s(self, tokens: int) -> float:
        now = self._now()
        self._sent = [each for each in self._sent if now - each.at < WINDOW_S]
        if self.rates.concurrent is not None and self._under_way >= self.rates.concurrent:
            return LEAST_S
        return wait_s(self.rates, self._sent, tokens, now)


class Throttles:
    """The throttles of one process, by provider."""

    def __init__(self) -> None:
        self.known: dict[str, Throttle] = {}

    def of(self, provider: str, rates: Rates) -> Throttle:
        """Return the provider's throttle; new rates count from the next request on."""
        found = self.known.setdefault(provider, Throttle(rates))
        found.rates = rates
        return found


class LimitedModel(WrappedModel):
    """A model that is asked no more than its provider's rates allow."""

    def __init__(self, model: Model, throttle: Throttle, *, on_wait: OnWait | None = None) -> None:
        super().__init__(model)
        self._throttle = throttle
        self._on_wait = on_wait

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask the model when it is its turn."""
        async with self._throttle.turn(estimated_tokens(request), told=self._say) as took:
            reply = await self._model.complete(request, on_text=on_text)
            took.append(reply.usage.input_tokens + reply.usage.output_tokens)
            return reply

    def _say(self) -> None:
        if self._on_wait is not None:
            provider = self.facts.name.partition(":")[0]
            self._on_wait(f"room within the rates of {provider}, which models.yaml sets")


__all__ = ["LEAST_S", "LimitedModel", "Throttle", "Throttles"]
