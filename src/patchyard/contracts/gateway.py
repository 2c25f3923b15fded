"""The seam to the network: named gateways of the engine that an environment may reach."""

import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Passed:
    """One request that came through a gateway."""

    gateway: str  # pypi or npm; empty for what was refused before
    name: str  # project, package or file
    status: int  # 0: refused without an answer of its own
    sent: int  # bytes of the body
    failure: str = ""  # why it could not be answered


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Gateways while they serve."""

    variables: Mapping[str, str]  # what to set inside, so that pip and npm find them
    passed: list[Passed] = field(default_factory=list)  # grows while they serve, bounded


class Gateways(Protocol):
    """Servers of ours that stand between an environment and the world."""

    def serve_indexes(
        self, listener: socket.socket, *, port: int
    ) -> AbstractAsyncContextManager[Opened]:
        """Serve the package indexes on `listener`, which lies inside the environment at `port`.

        Yields the variables that point pip and npm there, and what passes. Upstreams are those of
        the user's own pip and npm configuration. Closes `listener` at the end.
        """
        ...


__all__ = ["Gateways", "Opened", "Passed"]
