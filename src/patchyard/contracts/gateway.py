"""The seam to the network: named gateways of the engine that an environment may reach."""

import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from patchyard.domain.carrying import Carried, NetworkBounds
from patchyard.domain.network import NetworkGrant
from patchyard.domain.traffic import Attempt, Traffic


@dataclass(frozen=True, kw_only=True)
class Passed:
    """One request that came through a gateway."""

    gateway: str  # pypi or npm; empty for what was refused before
    name: str  # project, package or file
    status: int  # 0: refused without an answer of its own
    sent: int  # bytes of the body
    failure: str = ""  # why it could not be answered


class Counting(Protocol):
    """What counts the bytes and connections of one environment."""

    def read(self) -> Carried:
        """Return what passed since this was last called."""
        ...


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Gateways while they serve one environment."""

    variables: Mapping[str, str]  # what to set inside, so that tools find them; no secret
    counting: Counting
    passed: list[Passed] = field(default_factory=list)  # grows while they serve, bounded


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What was tried since the last time that somebody asked."""

    attempts: Sequence[Attempt] = ()
    traffic: Sequence[Traffic] = ()
    missed: int = 0  # attempts that are in `traffic` and not in `attempts`


class Network(Protocol):
    """What one plan was granted, for all its environments."""

    def serve(
        self, listener: socket.socket, *, port: int, bounds: NetworkBounds
    ) -> AbstractAsyncContextManager[Opened]:
        """Serve the grant on `listener`, which lies inside an environment at `port`.

        Yields the variables that point tools inside there. Closes `listener` at the end, and what
        is open then. Beyond `bounds`, connections are refused and transfers cut.
        """
        ...

    def begin_call(self) -> None:
        """Count the bytes of a call from here on."""
        ...

    def tried(self) -> Tried:
        """Return what was tried since this was last called."""
        ...


class Gateways(Protocol):
    """Servers of ours that stand between an environment and the world."""

    def serve_indexes(
        self, listener: socket.socket, *, port: int, bounds: NetworkBounds
    ) -> AbstractAsyncContextManager[Opened]:
        """Serve the package indexes on `listener`, which lies inside the environment at `port`.

        Yields the variables that point pip and npm there, and what passes. Upstreams are those of
        the user's own pip and npm configuration. Closes `listener` at the end.
        """
        ...

    def granted(self, grant: NetworkGrant, *, spent: int) -> AbstractAsyncContextManager[Network]:
        """Open what a plan was granted; `spent` bytes of it are used up already.

        Raises UsageError where the variable of a secret is not set.
        """
        ...


__all__ = ["Counting", "Gateways", "Network", "Opened", "Passed", "Tried"]
