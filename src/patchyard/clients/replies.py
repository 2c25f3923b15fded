"""The way back to who asked a gateway, and whether an answer has begun."""

import asyncio
from dataclasses import dataclass

from patchyard.clients.gateway_server import WRITE_TIMEOUT_S, Refused

REASON_CHARS = 160


@dataclass(kw_only=True)
class Reply:
    """One answer, begun once."""

    writer: asyncio.StreamWriter
    is_old: bool = False  # HTTP/1.0: no chunks
    is_begun: bool = False

    async def put(self, data: bytes) -> None:
        """Send bytes; the other side has its time to take them."""
        self.is_begun = True
        self.writer.write(data)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await self.writer.drain()

    async def refuse(self, refused: Refused) -> None:
        """Say why nothing passes, where no answer has begun."""
        if self.is_begun:
            return
        said = "".join(one if " " <= one <= "~" else "?" for one in str(refused))
        body = f"{said}\n".encode()
        lines = (
            f"HTTP/1.1 {refused.status.value} {said[:REASON_CHARS]}",  # all that many tools show
            "content-type: text/plain",
            f"content-length: {len(body)}",
            "connection: close",
        )
        await self.put("\r\n".join([*lines, "", ""]).encode("ascii") + body)


__all__ = ["REASON_CHARS", "Reply"]
