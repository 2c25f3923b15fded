"""Counts what one environment carries through its gateways, and refuses what is too much."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from patchyard.clients.gateway_server import Refused
from patchyard.domain.carrying import Carried, NetworkBounds
from patchyard.domain.limit_hits import Hit, sentence


class LimitHit(Refused):
    """Nothing more passes, because of a limit."""

    def __init__(self, status: HTTPStatus, hit: Hit) -> None:
        super().__init__(status, sentence(hit))
        self.hit = hit


class Tally:
    """`contracts.gateway.Counting` of one environment."""

    def __init__(self, bounds: NetworkBounds) -> None:
        self._bounds = bounds
        self._bytes = bounds.used_bytes
        self._told_bytes = bounds.used_bytes
        self._open = 0
        self._most = 0
        self._hit: Hit | None = None

    def count(self, count: int) -> None:
        """Count bytes before they are handed on. Raises LimitHit when it is enough."""
        self._bytes += count
        self.require_room()

    def require_room(self) -> None:
        """Raise LimitHit when the environment has had enough."""
        most = self._bounds.network_bytes
        if most is not None and self._bytes > most:
            raise self._refused(HTTPStatus.FORBIDDEN, "network", self._bytes, most)

    @contextmanager
    def connection(self) -> Iterator[LimitHit | None]:
        """Count a connection while it lasts; yield why it must be turned away, if it must."""
        most = self._bounds.connections
        if most is not None and self._open >= most:
            yield self._refused(HTTPStatus.SERVICE_UNAVAILABLE, "connections", self._open, most)
            return
        self._open += 1
        self._most = max(self._most, self._open)
        try:
            yield None
        finally:
            self._open -= 1

    def note(self, hit: Hit) -> None:
        """Remember a limit that was hit, for who asks next."""
        self._hit = hit

    def _refused(self, status: HTTPStatus, limit: str, used: int, allowed: int) -> LimitHit:
        hit = Hit(limit=limit, used=used, allowed=allowed, seen_by="gateway")
        self.note(hit)
        return LimitHit(status, hit)

    def read(self) -> Carried:
        """Return what passed since this was last called."""
        passed = self._bytes - self._told_bytes
        carried = Carried(network_bytes=passed, connections=self._most, hit=self._hit)
        self._told_bytes, self._most, self._hit = self._bytes, self._open, None
        return carried


__all__ = ["LimitHit", "Tally"]
