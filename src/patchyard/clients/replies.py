"""The way back to who asked a gateway, and whether an answer has begun."""

import asyncio
from dataclasses import dataclass

from patchyard.clients.connection_ends import WRITE_TIMEOUT_S, reset
from patchyard.clients.gateway_server import Refused

REASON_CHARS = 160


@dataclass(kw_only=True)
class Reply:
    """One answer, begun once."""

    writer: asyncio.StreamWriter
    is_old: bool = False  # HTTP/1.0: no chunks
    is_begun: bool = False
    is_open_ended: bool = False  # only the end of the connection says where the answer ends

    async def put(self, data: bytes) -> None:
        """Send bytes; the other side has its time to take them."""
        self.is_begun = True
        self.writer.write(data)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await self.writer.drain()

    async def refuse(self, refused: Refused) -> None:
        """Say why nothing passes; break an answer off that has begun."""
        if self.is_begun:
            self.break_off()
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

    def break_off(self) -> None:
        """Reset the connection where its plain end would make what has come look whole."""
        if self.is_begun and self.is_open_ended:
            reset(self.writer)


__all__ = ["REASON_CHARS", "Reply"]
