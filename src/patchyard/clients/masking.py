"""Takes a secret out of what a host sends back: hygiene for answers that echo a request."""

from collections.abc import Sequence

LEAST_BYTES = 6  # shorter ones stand in too much that is not them


class Masking:
    """Replaces secrets in a stream of pieces by as many asterisks."""

    def __init__(self, secrets: Sequence[str]) -> None:
        told = {secret.encode() for secret in secrets if len(secret) >= LEAST_BYTES}
        self._secrets = sorted(told, key=len, reverse=True)
        self._kept = max(map(len, self._secrets), default=1) - 1
        self._held = b""

    def masked(self, data: bytes) -> bytes:
        """Return data that is there as a whole without the secrets."""
        for secret in self._secrets:
            data = data.replace(secret, b"*" * len(secret))
        return data

    def feed(self, piece: bytes) -> bytes:
        """Return what can be passed on; the rest could be the beginning of a secret."""
        held = self.masked(self._held + piece)
        cut = max(0, len(held) - self._kept)
        self._held = held[cut:]
        return held[:cut]

    def rest(self) -> bytes:
        """Return what was held back, at the end."""
        held, self._held = self._held, b""
        return held


__all__ = ["LEAST_BYTES", "Masking"]
