"""What was tried and carried through a plan's gateways. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from patchyard.domain.addresses import shown
from patchyard.domain.body import Body

PLACES = 100  # that one plan's totals name; further ones are counted together
PLACE_CHARS = 100


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try to reach something, allowed or not."""

    gateway: str  # connect, http, git, index; empty: it was no request
    verdict: str  # passed, refused, failed
    host: str = ""
    port: int = 0
    method: str = ""  # where it is spoken
    path: str = ""  # where it is spoken; without the query, which may hold anything
    status: int = 0  # of the answer; 0: none
    up: int = 0  # bytes of heads, bodies and tunnels, to the host
    down: int = 0
    reason: str = ""  # of what did not pass


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What went to and from one place."""

    place: str  # HOST:PORT, or a gateway's name; empty: all further ones together
    attempts: int = 0
    refused: int = 0  # or failed
    up: int = 0
    down: int = 0


@dataclass(frozen=True, kw_only=True)
class NetworkUsed:
    """What was tried through the gateways since the last event of this kind."""

    call_id: str  # settled then; empty: between calls
    traffic: tuple[Traffic, ...]
    attempts: Body = field(default_factory=Body)  # a list of Attempt
    missed: int = 0  # attempts that were counted and not kept one by one


def summed(first: Sequence[Traffic], second: Sequence[Traffic], most: int) -> tuple[Traffic, ...]:
    """Return both together, one entry a place; one without a name is all beyond `most`."""
    found: dict[str, Traffic] = {}
    for each in (*first, *second):
        place = each.place if each.place in found or len(found) < most else ""
        before = found.get(place, Traffic(place=place))
        found[place] = Traffic(
            place=place,
            attempts=before.attempts + each.attempts,
            refused=before.refused + each.refused,
            up=before.up + each.up,
            down=before.down + each.down,
        )
    return tuple(found.values())


def traffic_of(attempt: Attempt) -> Traffic:
    """Return what one attempt adds to the traffic of its place."""
    place = f"{shown(attempt.host)}:{attempt.port}" if attempt.host else attempt.gateway
    return Traffic(
        place=place[:PLACE_CHARS],
        attempts=1,
        refused=int(attempt.verdict != "passed"),
        up=attempt.up,
        down=attempt.down,
    )


def spent(traffic: Sequence[Traffic]) -> int:
    """Return the bytes of all places, both ways."""
    return sum(each.up + each.down for each in traffic)


__all__ = [
    "PLACES",
    "PLACE_CHARS",
    "Attempt",
    "NetworkUsed",
    "Traffic",
    "spent",
    "summed",
    "traffic_of",
]
