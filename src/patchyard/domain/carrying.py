"""What one environment may carry through the network gateways, and what it has carried. Pure."""

from dataclasses import dataclass

from patchyard.domain.limit_hits import Hit


@dataclass(frozen=True, kw_only=True)
class NetworkBounds:
    """The limits `network` and `connections` of one environment; None: not bounded."""

    network_bytes: int | None = None  # both ways, of all environments of the plan in that place
    connections: int | None = None  # at once
    used_bytes: int = 0  # of `network_bytes`, before


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What passed since somebody last asked."""

    network_bytes: int = 0
    connections: int = 0  # the most at once
    hit: Hit | None = None  # the last limit that refused or cut something


__all__ = ["Carried", "NetworkBounds"]
