"""A model that calls tools by what it writes, where it cannot call them itself."""

from dataclasses import replace

from patchyard.contracts.model import Model, OnText
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.messages import (
    ModelReply,
    ModelRequest,
    RequestedCall,
    StopReason,
)
from patchyard.models.texting import Sieve, Texting, heard
from patchyard.models.wrapping import WrappedModel


class TextedModel(WrappedModel):
    """Passes on to a model what it can do; tools that it cannot call are put into words.

    Whether it can is in its facts, which may come to know it only when it is asked.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._texting = Texting()

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask the model as it is, or in words."""
        if self._model.facts.has_tools:
            try:
                return await self._model.complete(request, on_text=on_text)
            except (ModelFailed, ModelUnavailable):
                if self._model.facts.has_tools:
                    raise
        return await self._in_words(request, on_text)

    async def _in_words(self, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        sieve = Sieve(on_text) if on_text else None
        reply = await self._model.complete(
            self._texting.request(request), on_text=sieve.feed if sieve else None
        )
        said = heard(reply.message.text, {tool.name for tool in request.tools})
        if sieve:
            sieve.end(said.prose)
        calls = tuple(
            RequestedCall(id=f"text-{request.turn}-{index}", name=name, arguments=arguments)
            for index, (name, arguments) in enumerate(said.calls)
        )
        stop = StopReason.CALLS if calls and reply.stop is StopReason.DONE else reply.stop
        message = replace(reply.message, text=said.prose, calls=calls)
        return replace(reply, message=message, stop=stop)


__all__ = ["TextedModel"]
