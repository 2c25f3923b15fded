"""The seam to the network: named gateways of the engine that an environment may reach."""

import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Gateways(Protocol):
    """Servers of ours that stand between an environment and the world."""

    def serve_indexes(
        self, listener: socket.socket, *, port: int
    ) -> AbstractAsyncContextManager[Mapping[str, str]]:
        """Serve the package indexes on `listener`, which lies inside the environment at `port`.

        Yields the variables that point pip and npm there. Upstreams are those of the user's own
        pip and npm configuration. Closes `listener` at the end.
        """
        ...


__all__ = ["Gateways"]
