"""What is booked in the shared purse together with events, and what refuses it. Pure."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchyard.domain.budget import NANO, Amount, Ceiling, Tally, shortages
from patchyard.domain.errors import LimitReached

UNITS: Mapping[str, tuple[str, float]] = {  # a measure's name for people, and how many make one
    "nano_usd": ("USD", NANO),
    "tokens": ("tokens", 1),
    "steps": ("steps", 1),
    "calls": ("calls of tools", 1),
    "ms": ("seconds", 1000),
}
KEYS: Mapping[str, str] = {  # the setting's part that stands for a measure
    "nano_usd": "usd",
    "tokens": "tokens",
    "steps": "steps",
    "calls": "calls",
    "ms": "time",
}


@dataclass(frozen=True, kw_only=True)
class Account:
    """One line of the books: of a project or of the whole installation, of a day or of all."""

    project: str = ""  # empty: the installation
    day: str = ""  # such as 2026-11-21, in UTC; empty: all days together

    @property
    def prefix(self) -> str:
        """How the settings name it: total, day, project, project_day."""
        if not self.project:
            return "day" if self.day else "total"
        return "project_day" if self.day else "project"

    @property
    def title(self) -> str:
        """How people are told of it."""
        whose = f"project {self.project}" if self.project else "this installation"
        return f"{whose} on {self.day} (UTC)" if self.day else whose


@dataclass(frozen=True, kw_only=True)
class Bound:
    """An account and the most that may be booked in it."""

    account: Account
    ceiling: Ceiling


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """The most that something may come to is kept from now on, under a number of the plan's."""

    number: int
    amount: Amount


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What was set aside under `number` has come to `amount`; harmless when it was settled."""

    number: int
    amount: Amount | None = None  # None: to all of it


@dataclass(frozen=True, kw_only=True)
class Charged:
    """Something of known size is used up now."""

    amount: Amount
    is_due: bool = False  # it has happened: no limit refuses it


Move = SetAside | Settled | Charged


def is_refusable(move: Move) -> bool:
    """Whether a limit can be in the way of it; what has happened is booked in any case."""
    return isinstance(move, SetAside) or (isinstance(move, Charged) and not move.is_due)


@dataclass(frozen=True, kw_only=True)
class Booking:
    """Moves of one plan that are booked together, or not at all."""

    project: str
    day: str
    moves: tuple[Move, ...]
    bounds: tuple[Bound, ...] = ()

    @property
    def accounts(self) -> tuple[Account, ...]:
        """Where it is booked."""
        return accounts(self.project, self.day)


def accounts(project: str, day: str) -> tuple[Account, ...]:
    """Return all accounts that something of `project` on `day` counts in."""
    own = (Account(project=project), Account(project=project, day=day)) if project else ()
    return (Account(), Account(day=day), *own)


def day_of(at: float) -> str:
    """Return the day, in UTC, of a time in seconds since the epoch."""
    return dt.datetime.fromtimestamp(at, dt.UTC).date().isoformat()


def require_room(bounds: Sequence[Bound], tallies: Mapping[Account, Tally], wanted: Amount) -> None:
    """Raise LimitReached naming the first limit of `bounds` that `wanted` would pass."""
    for bound in bounds:
        tally = tallies.get(bound.account, Tally())
        for measure in shortages(bound.ceiling, tally.taken, wanted):
            raise refusal(bound, tally, wanted, measure)


def refusal(bound: Bound, tally: Tally, wanted: Amount, measure: str) -> LimitReached:
    """Return the error that says which limit of whom is in the way, and how to raise it."""
    name, size = UNITS[measure]
    limit, spent, reserved, more = (
        getattr(part, measure) / size
        for part in (bound.ceiling, tally.spent, tally.reserved, wanted)
    )
    key = f"budget.{bound.account.prefix}_{KEYS[measure]}"
    return LimitReached(
        f"the budget of {limit:,.10g} {name} for {bound.account.title} has no room:"
        f" {spent:,.10g} used, {reserved:,.10g} set aside for what is under way,"
        f" and this may take {more:,.10g}",
        limit_name=key,
        hint=f"raise `{key}` where it is set (`agents config show --origin`); it counts at once,"
        " and `agents plan resume` goes on; nothing is lost",
        details={
            "setting": key,
            "measure": KEYS[measure],
            "scope": bound.account.title,
            "limit": limit,
            "spent": spent,
            "reserved": reserved,
            "wanted": more,
        },
    )


__all__ = [
    "KEYS",
    "UNITS",
    "Account",
    "Booking",
    "Bound",
    "Charged",
    "Move",
    "SetAside",
    "Settled",
    "accounts",
    "day_of",
    "is_refusable",
    "refusal",
    "require_room",
]
