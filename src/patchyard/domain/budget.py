"""Limits and what was used of them: of one plan, and amounts in general. Pure arithmetic."""

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass

from patchyard.domain.errors import UsageError

UNPRICED_TOKENS = 2_000_000  # bound of a model whose price is not known (interface.md)
NANO = 1_000_000_000  # a USD; the cheapest token of the price table is 5 of them
MOST = 1e15  # that a limit can say, of whatever
FREE = 2**63  # more nano-USD than can be spent
NOISE_DIGITS = 3  # of a nano-USD: what floating point adds to a price below this is none


@dataclass(frozen=True, kw_only=True)
class Amount:
    """What is used or set aside, in whole units, so that sums are exact."""

    nano_usd: int = 0
    tokens: int = 0  # in and out together
    steps: int = 0  # turns of an actor
    calls: int = 0  # of tools
    ms: int = 0  # of wall time

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            nano_usd=self.nano_usd + other.nano_usd,
            tokens=self.tokens + other.tokens,
            steps=self.steps + other.steps,
            calls=self.calls + other.calls,
            ms=self.ms + other.ms,
        )

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(
            nano_usd=self.nano_usd - other.nano_usd,
            tokens=self.tokens - other.tokens,
            steps=self.steps - other.steps,
            calls=self.calls - other.calls,
            ms=self.ms - other.ms,
        )


MEASURES = tuple(Amount.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """The most of each measure; None: not bounded."""

    nano_usd: int | None = None
    tokens: int | None = None
    steps: int | None = None
    calls: int | None = None
    ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What stands in the books of one scope."""

    spent: Amount = Amount()
    reserved: Amount = Amount()  # the most that what is under way can still come to

    @property
    def taken(self) -> Amount:
        """What nobody else can have any more, as far as is known now."""
        return self.spent + self.reserved


def shortages(ceiling: Ceiling, taken: Amount, wanted: Amount) -> Iterator[str]:
    """Name each measure that `wanted` would pass; one that is not wanted is never short."""
    for name in MEASURES:
        limit, more = getattr(ceiling, name), getattr(wanted, name)
        if limit is not None and more > 0 and getattr(taken, name) + more > limit:
            yield name


def nano(usd: float) -> int:
    """Return a price in nano-USD, rounded up: what is reserved is never less than what comes."""
    if usd >= FREE / NANO:
        return FREE
    return math.ceil(round(usd * NANO, NOISE_DIGITS))


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request to a model before it is sent: the most it can take."""

    input_tokens: int  # an upper bound, from the bytes
    output_tokens: int  # that are wanted at most
    usd_per_million_input: float | None = None  # at most; None: unknown price
    usd_per_million_output: float | None = None

    @property
    def is_priced(self) -> bool:
        """Whether it can be bounded in money."""
        return self.usd_per_million_input is not None and self.usd_per_million_output is not None

    def usd(self, output_tokens: int) -> float | None:
        """Return what it costs at most with so many tokens of answer; None: unknown price."""
        rate_in, rate_out = self.usd_per_million_input, self.usd_per_million_output
        if rate_in is None or rate_out is None:
            return None
        return (self.input_tokens * rate_in + output_tokens * rate_out) / 1e6

    def amount(self, output_tokens: int) -> Amount:
        """Return all of it with so many tokens of answer."""
        return Amount(
            nano_usd=nano(self.usd(output_tokens) or 0.0),
            tokens=self.input_tokens + output_tokens,
        )


def affordable(ask: Ask, ceiling: Ceiling, taken: Amount) -> int:
    """Return the longest answer, in tokens, that fits; negative where not even the question does.

    At most what is asked for.
    """
    longest = ask.output_tokens
    if ceiling.tokens is not None:
        longest = min(longest, ceiling.tokens - taken.tokens - ask.input_tokens)
    if ceiling.nano_usd is None:
        return longest
    left = ceiling.nano_usd - taken.nano_usd
    return bisect.bisect_right(range(longest + 1), left, key=lambda n: _price(ask, n)) - 1


def _price(ask: Ask, output_tokens: int) -> int:
    price = ask.amount(output_tokens).nano_usd
    return price or -FREE  # what costs nothing fits even where more than all is spent


@dataclass(frozen=True, kw_only=True)
class PlanLimits:
    """The limits of a plan. None: not bounded."""

    usd: float | None = 5.0
    tokens: int | None = None
    steps: int | None = 200  # turns of the actor
    seconds: float | None = 3600.0  # wall time over all phases
    calls: int | None = None  # of tools

    def ceiling(self, *, is_priced: bool) -> Ceiling:
        """Return them in whole units; what has no known price is bounded by tokens always."""
        tokens = UNPRICED_TOKENS if self.tokens is None and not is_priced else self.tokens
        return Ceiling(
            nano_usd=None if self.usd is None else round(min(self.usd * NANO, FREE)),
            tokens=tokens,
            steps=self.steps,
            calls=self.calls,
            ms=None if self.seconds is None else round(self.seconds * 1000),
        )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a plan has used so far."""

    usd: float = 0.0
    is_priced: bool = True  # False as soon as one request had no known price
    input_tokens: int = 0
    output_tokens: int = 0
    steps: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens in and out together."""
        return self.input_tokens + self.output_tokens

    @property
    def amount(self) -> Amount:
        """Money and tokens in whole units."""
        return Amount(nano_usd=nano(self.usd), tokens=self.tokens)


def raised(before: float | None, asked: str, *, name: str) -> float:
    """Return a limit set anew: `+2` is so much more than before, `2` is that.

    Raises UsageError for what is neither, and for less than nothing.
    """
    is_more = asked.startswith("+")
    try:
        value = float(asked.removeprefix("+"))
    except ValueError as error:
        raise UsageError(f"{name} {asked!r} is no number", hint="write it like 5 or +2") from error
    if is_more and before is None:
        raise UsageError(
            f"{name} {asked} raises a limit, and this plan has none of the kind",
            hint=f"say the limit itself: {name} {asked.removeprefix('+')}",
        )
    whole = value + (before or 0.0) if is_more else value
    if not 0 <= whole <= MOST:
        raise UsageError(f"{name} must be 0 or more, and {MOST:.0e} at most, not {asked}")
    return whole


@dataclass(frozen=True, kw_only=True)
class PassedLimit:
    """A limit of a plan that is reached."""

    name: str  # the field of PlanLimits
    told: str  # one sentence, for people


RAISING = {
    "steps": "--max-steps +100",
    "usd": "--budget-usd +5",
    "tokens": "--max-tokens N",  # an unset limit has nothing to add to
    "calls": "--max-calls +100",
    "seconds": "--timeout +1h",
}
"""Option of `agents plan limit` that raises a plan's own limit, by the limit's name."""


def passed_limit(limits: PlanLimits, spent: Spent) -> PassedLimit | None:
    """Return the first limit that is reached, None while there is room."""
    for name, told in _passed(limits, spent):
        return PassedLimit(name=name, told=told)
    return None


def _passed(limits: PlanLimits, spent: Spent) -> Iterator[tuple[str, str]]:
    if limits.steps is not None and spent.steps >= limits.steps:
        unit = "step" if limits.steps == 1 else "steps"
        yield "steps", f"the limit of {limits.steps} {unit} is reached"
    if limits.usd is not None and spent.is_priced and 0 < spent.usd >= limits.usd:
        yield "usd", f"the limit of {limits.usd:g} USD is reached"
    if limits.tokens is not None and spent.tokens >= limits.tokens:
        unit = "token" if limits.tokens == 1 else "tokens"
        yield "tokens", f"the limit of {limits.tokens} {unit} is reached"
    if limits.tokens is None and not spent.is_priced and spent.tokens >= UNPRICED_TOKENS:
        told = f"the limit of {UNPRICED_TOKENS} tokens for a model of unknown price is reached"
        yield "tokens", told
    if limits.seconds is not None and spent.seconds >= limits.seconds:
        yield "seconds", f"the time limit of {limits.seconds:g} s is reached"


__all__ = [
    "MEASURES",
    "NANO",
    "RAISING",
    "UNPRICED_TOKENS",
    "Amount",
    "Ask",
    "Ceiling",
    "PassedLimit",
    "PlanLimits",
    "Spent",
    "Tally",
    "affordable",
    "nano",
    "passed_limit",
    "raised",
    "shortages",
]
