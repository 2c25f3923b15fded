"""What the formats of providers with a key share: asking, listing, and receiving streamed or whole.

Knows no format: what is sent, and what an answer's pieces mean, a format says. Knows no price and
retries nothing.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from patchyard.clients.http import Answer, HttpClient, HttpTrouble, Trouble, parsed
from patchyard.contracts.model import OnText
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import Message, ModelFacts, ModelReply, ModelRequest, Thoughts
from patchyard.models.answering import Assembly, Enough, mapping
from patchyard.models.encoding import Encoded, with_thoughts, without_images
from patchyard.models.event_streams import events_of
from patchyard.models.listings import advised, names_in, require_listed
from patchyard.models.troubles import NO_IMAGES, NO_TOOLS, Provider
from patchyard.models.unrepeating import unrepeated

REFUSING = (400, 404, 422)  # answers to what a model cannot do; gateways say 404
LAST = b"[DONE]"  # with which some servers end a stream, whatever its format


class KeyedModel(ABC):
    """One model behind a base URL; a format says the rest."""

    kind: str  # of provider, as models.yaml names it
    asked_at: str  # path of a request
    listed_at: str = "/models"
    has_images: bool = False  # whether its models can see, where nobody says
    asks_thoughts: bool = False  # else whatever comes is kept
    refused_thoughts: re.Pattern[str] | None = None  # what says so; None: none are kept

    def __init__(
        self, provider: Provider, client: HttpClient, *, context_tokens: int | None = None
    ) -> None:
        self._provider = provider
        self._client = client
        self._facts = ModelFacts(
            name=f"{provider.name}:{provider.model}",
            context_tokens=context_tokens,
            has_tools=provider.has_tools,
            has_images=self.has_images if provider.has_images is None else provider.has_images,
        )
        self._asks_thoughts = self.asks_thoughts
        self._unreadable: set[Thoughts] = set()  # that the provider refused
        self._encoded = self._encoding()

    @property
    def facts(self) -> ModelFacts:
        """The name, and the window where the configuration or the provider states it."""
        return self._facts

    async def prepare(self) -> ModelFacts:
        """Check what can be checked without a charge: that a key is there when one is named."""
        await self._provider.key.read()
        self._provider.require_key()
        return self._facts

    def require_key(self) -> None:
        """Raise ModelUnavailable where a key is named and not there."""
        self._provider.require_key()

    async def offered(self) -> tuple[str, ...]:
        """Return the names of the models the provider lists. Raises as `complete` does."""
        try:
            return names_in(await self._fetch(self.listed_at))
        except HttpTrouble as trouble:
            raise self._provider.translated(trouble) from trouble

    async def require_listed(self) -> None:
        """Raise ModelUnavailable where the provider's list lacks the model.

        Raises as `complete` does where the list cannot be had; a provider may well have none.
        """
        await require_listed(self._provider, self.offered)

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask once. Raises ModelFailed or ModelUnavailable; cancelling closes the connection."""
        while True:
            try:
                return await self._reply(request, on_text)
            except HttpTrouble as trouble:
                if request.tools and _refuses_tools(trouble):
                    self._facts = replace(self._facts, has_tools=False)
                if not self._gives_way(trouble, request):
                    raise await advised(self._provider, trouble, self.offered) from trouble

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _reply(self, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        assembly = Assembly(
            request=request, model=self._provider.model, maker=self._maker, on_text=on_text
        )
        with suppress(Enough):
            async with self._client.ask(
                self.asked_at, body=self._body(request), headers=await self._authorised()
            ) as answer:
                await self._receive(answer, assembly)
        return unrepeated(assembly.reply(), request, self._provider.key)

    @property
    def _maker(self) -> str:
        return f"{self.kind} {self._facts.name}"

    def _visible(self, message: Message) -> Message:
        """Return the message as this model can be sent it: without what it cannot see."""
        return message if self._facts.has_images else without_images(message)

    def _mixed(self, message: Message, parts: Sequence[Any]) -> list[Any]:
        """Return the parts of a message, what this model thought in its places among them."""
        thoughts = message.thoughts
        is_ours = thoughts is not None and thoughts.maker == self._maker
        if thoughts is None or not is_ours or thoughts in self._unreadable:
            return list(parts)
        return with_thoughts(parts, thoughts)

    def _gives_way(self, trouble: HttpTrouble, request: ModelRequest) -> bool:
        """Whether the request was refused for what it can be sent without; that costs nothing."""
        if trouble.status not in REFUSING:
            return False
        has_left_out = self._leaves_images(trouble, request) or self._leaves_thoughts(
            trouble, request
        )
        if has_left_out:
            self._encoded = self._encoding()
        return has_left_out

    def _leaves_images(self, trouble: HttpTrouble, request: ModelRequest) -> bool:
        is_shown = self._facts.has_images and any(one.images for one in request.messages)
        if not is_shown or not NO_IMAGES.search(trouble.body):
            return False
        self._facts = replace(self._facts, has_images=False)
        return True

    def _leaves_thoughts(self, trouble: HttpTrouble, request: ModelRequest) -> bool:
        """Leave out thoughts that were refused.

        That comes where a key of another account is used from now on, where what was said before
        a thought is not what it was (newer models of Anthropic bind the two), and from models
        that have none to give.
        """
        refused = self.refused_thoughts
        if refused is None or not refused.search(trouble.body):
            return False
        ours = {m.thoughts for m in request.messages if m.thoughts is not None}
        sent = {one for one in ours if one.maker == self._maker} - self._unreadable
        if not (sent or self._asks_thoughts):
            return False
        self._asks_thoughts = self._asks_thoughts and bool(sent)
        self._unreadable |= sent
        return True

    async def _fetch(self, path: str) -> Any:
        return await self._client.fetch(path, headers=await self._authorised())

    async def _receive(self, answer: Answer, assembly: Assembly) -> None:
        if answer.is_json:
            self._take_whole(mapping(parsed(await answer.whole())), assembly)
            return
        try:
            async with aclosing(events_of(answer.lines)) as events:
                async for data in events:
                    if data == LAST or self._take(mapping(parsed(data)), assembly):
                        break
                    if assembly.is_full:
                        raise Enough
        except HttpTrouble:
            if assembly.stop is None:
                raise
        if assembly.stop is None:
            raise HttpTrouble(Trouble.CUT, "the answer ended in the middle")

    async def _authorised(self) -> dict[str, str]:
        """Return what authorises a request, the key read anew."""
        await self._provider.key.read()
        return self._headers()

    def _headers(self) -> dict[str, str]:
        """Return what authorises a request."""
        return self._provider.key.headers()

    @abstractmethod
    def _encoding(self) -> Encoded:
        """Return what encodes messages and tools, with nothing remembered yet."""

    @abstractmethod
    def _body(self, request: ModelRequest) -> bytes:
        """Return a request as this format has it."""

    @abstractmethod
    def _take_whole(self, data: Mapping[str, Any], assembly: Assembly) -> None:
        """Take in an answer that came whole. Raises what `_take` raises."""

    @abstractmethod
    def _take(self, data: Mapping[str, Any], assembly: Assembly) -> bool:
        """Take in an event of a stream; return whether it is the last.

        Raises HttpTrouble, and ModelFailed or ModelUnavailable for an error that comes late.
        """

    def _told_late(self, data: Mapping[str, Any], status: int) -> ModelFailed | ModelUnavailable:
        """Translate an error that came as an event of a successful answer."""
        return self._provider.told_late(data, status)


def _refuses_tools(trouble: HttpTrouble) -> bool:
    return trouble.status in REFUSING and bool(NO_TOOLS.search(trouble.body))


__all__ = ["LAST", "REFUSING", "KeyedModel"]
