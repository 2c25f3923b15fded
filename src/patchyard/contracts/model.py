"""The seam to language models: one question, one answer; and to who pays for it."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from patchyard.domain.budget import Ask
from patchyard.domain.failover import ModelSwitched
from patchyard.domain.messages import ModelFacts, ModelReply, ModelRequest

OnText = Callable[[str], None]
OnWait = Callable[[str], None]  # what a model is waited for, in words: loading, slowing down

OnSwitch = Callable[[ModelSwitched], Awaitable[None]]  # that another model is asked; journals it


class Model(Protocol):
    """One model of one provider, or a wrapper around such.

    Implementations keep the encoded form of messages they have seen, so that a request costs what
    is new in it. They never retry by themselves; that is a wrapper's work.
    """

    @property
    def facts(self) -> ModelFacts:
        """What is known without asking the provider."""
        ...

    async def prepare(self) -> ModelFacts:
        """Look the model up at its provider and return what is now known of it.

        Raises ModelUnavailable with the curing command when the provider cannot be reached, the
        model is not there or its context window is too small for the work.
        """
        ...

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask once. `on_text` gets pieces of the answer as they come, if the provider streams.

        Raises ModelFailed (with `retryable`) or ModelUnavailable; vendor errors are `__cause__`.
        Cancelling closes the connection.
        """
        ...

    async def close(self) -> None:
        """Free connections. Called once by whoever made the model."""
        ...


class Meter(Protocol):
    """Pays for the requests of one plan: whoever sends one asks it first."""

    async def reserve(self, ask: Ask) -> int:
        """Set aside the most that a request may cost, and return how long its answer may be.

        In tokens, at most what was asked for; on disk when it returns. Waits for others that have
        the rest of a shared budget set aside. Raises LimitReached: nothing may be sent then.
        """
        ...

    def release(self, reason: str) -> None:
        """Give it back: the provider refused the request, or nobody was reached."""
        ...


__all__ = ["Meter", "Model", "OnSwitch", "OnText", "OnWait"]
