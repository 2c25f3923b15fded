"""How much may be asked of a provider: requests and tokens a minute, and at once. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The bounds of one provider. None: not bounded."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None

    def __bool__(self) -> bool:
        """Whether anything is bounded."""
        return any((self.requests_per_minute, self.tokens_per_minute, self.concurrent))


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One request of the last minute."""

    at: float
    tokens: int  # estimated when it was sent, told when it was answered


def wait_s(rates: Rates, sent: Sequence[Sent], tokens: int, now: float) -> float:
    """Return the seconds until a request of `tokens` may be sent; 0 where it may be now.

    `sent` are the requests of the last minute, oldest first. A request that alone takes more than a
    minute's tokens waits until nothing else was sent in that minute.
    """
    return max(_for_requests(rates, sent, now), _for_tokens(rates, sent, tokens, now))


def _for_requests(rates: Rates, sent: Sequence[Sent], now: float) -> float:
    most = rates.requests_per_minute
    if most is None or len(sent) < most:
        return 0.0
    return max(0.0, sent[len(sent) - most].at + WINDOW_S - now)


def _for_tokens(rates: Rates, sent: Sequence[Sent], tokens: int, now: float) -> float:
    if rates.tokens_per_minute is None:
        return 0.0
    room = max(0, rates.tokens_per_minute - tokens)
    left = sum(each.tokens for each in sent)
    ends = now
    for each in sent:
        if left <= room:
            break
        left -= each.tokens
        ends = each.at + WINDOW_S
    return max(0.0, ends - now)


__all__ = ["WINDOW_S", "Rates", "Sent", "wait_s"]
