"""Events of a plan's budget: what a request to a model may cost, set aside before it is sent."""

from dataclasses import dataclass

from patchyard.domain.budget import Amount, nano


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """The most that a request may come to was set aside; it is about to be sent."""

    input_tokens: int  # an upper bound, from the bytes
    output_tokens: int  # the longest answer that the provider is allowed
    usd: float | None = None  # None: unknown price

    @property
    def amount(self) -> Amount:
        """All of it in whole units."""
        return Amount(nano_usd=nano(self.usd or 0.0), tokens=self.input_tokens + self.output_tokens)


@dataclass(frozen=True, kw_only=True)
class Released:
    """The request was refused before it was worked on: what was set aside is free again."""

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class RoomAwaited:
    """A shared budget is all set aside by others for now; the plan waits for them to settle."""

    text: str  # which budget


SpendingEvent = Reserved | Released | RoomAwaited


@dataclass(frozen=True, kw_only=True)
class Held:
    """What is set aside for a request that has no answer yet."""

    number: int  # version of its event, which names it in the purse
    reserved: Reserved


__all__ = ["Held", "Released", "Reserved", "RoomAwaited", "SpendingEvent"]
