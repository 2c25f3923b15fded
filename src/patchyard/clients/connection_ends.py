"""How a gateway's connection ends: once all was taken, or by a reset, which looks like no end."""

import asyncio
import socket
import struct
from contextlib import suppress

WRITE_TIMEOUT_S = 300.0  # for a piece to be taken
RESET = struct.pack("ii", 1, 0)  # SO_LINGER without a time (socket(7)): a close is a reset


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by a reset, which the other side cannot take for its end. Idempotent."""
    taken: socket.socket | None = writer.get_extra_info("socket")
    if taken is None or taken.fileno() < 0:
        return  # it is closed
    with suppress(OSError):
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def finish(writer: asyncio.StreamWriter) -> None:
    """End a connection once the other side has taken what was written.

    One that does not take it in `WRITE_TIMEOUT_S` is reset, and so is one whose wait is cancelled:
    a connection that waits to be closed would hold its descriptor for as long as the other side
    likes. Raises nothing of the connection's own.
    """
    writer.close()
    try:
        with suppress(OSError):  # a TimeoutError is one
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await writer.wait_closed()
    finally:
        reset(writer)


__all__ = ["RESET", "WRITE_TIMEOUT_S", "finish", "reset"]
