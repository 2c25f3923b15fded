"""Limits of a plan and what was used of them. Pure arithmetic."""

from dataclasses import dataclass

from patchyard.domain.errors import UsageError

UNPRICED_TOKENS = 2_000_000  # bound of a model whose price is not known (interface.md)


@dataclass(frozen=True, kw_only=True)
class PlanLimits:
    """The four limits of a plan. None: not bounded."""

    usd: float | None = 5.0
    tokens: int | None = None
    steps: int | None = 200  # turns of the actor
    seconds: float | None = 3600.0  # wall time over all phases


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


def raised(before: float | None, asked: str, *, name: str) -> float:
    """Return a limit set anew: `+2` is so much more than before, `2` is that.

    Raises UsageError for what is neither, and for less than nothing.
    """
    is_more = asked.startswith("+")
    try:
        value = float(asked.removeprefix("+"))
    except ValueError as error:
        raise UsageError(f"{name} {asked!r} is no number", hint="write it like 5 or +2") from error
    whole = value + (before or 0.0) if is_more else value
    if not 0 <= whole < float("inf"):
        raise UsageError(f"{name} must be 0 or more, not {asked}")
    return whole


def passed_limit(limits: PlanLimits, spent: Spent) -> str | None:
    """Return a sentence naming the first limit that is reached, None while there is room."""
    if limits.steps is not None and spent.steps >= limits.steps:
        return f"the limit of {limits.steps} {'step' if limits.steps == 1 else 'steps'} is reached"
    if limits.usd is not None and spent.is_priced and 0 < spent.usd >= limits.usd:
        return f"the limit of {limits.usd:g} USD is reached"
    if limits.tokens is not None and spent.tokens >= limits.tokens:
        return (
            f"the limit of {limits.tokens} {'token' if limits.tokens == 1 else 'tokens'} is reached"
        )
    if limits.tokens is None and not spent.is_priced and spent.tokens >= UNPRICED_TOKENS:
        return f"the limit of {UNPRICED_TOKENS} tokens for a model of unknown price is reached"
    if limits.seconds is not None and spent.seconds >= limits.seconds:
        return f"the time limit of {limits.seconds:g} s is reached"
    return None


__all__ = ["UNPRICED_TOKENS", "PlanLimits", "Spent", "passed_limit", "raised"]
