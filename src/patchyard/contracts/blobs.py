"""The seam to content-addressed bodies that are too large for an event."""

from typing import Protocol


class Blobs(Protocol):
    """Bytes by the SHA-256 of their content. Written before the event that names them."""

    async def put(self, data: bytes) -> str:
        """Store `data` durably and return its hex digest. Storing the same twice is harmless."""
        ...

    async def get(self, digest: str) -> bytes:
        """Return the bytes. Raises JournalBroken when they are missing or do not match."""
        ...


__all__ = ["Blobs"]
