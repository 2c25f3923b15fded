"""Whether an answer that only the end of its connection ends came to that end.

By TLS the other side says that it closes; a connection that ends without that word was cut.
Without TLS nothing tells the two apart.
"""

import ssl
from collections.abc import AsyncIterator

import httpx2

FRAMES = frozenset({"content-length", "transfer-encoding"})  # that say where an answer ends


def telling_ends(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let a context tell a connection that was cut from one that was closed; return it."""
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


async def whole(response: httpx2.Response, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of an answer's body.

    Raises httpx2.RemoteProtocolError after the last of one that is not complete: without a length
    and without chunks it has to end with TLS's word (RFC 9112, 9.8).
    """
    async for piece in pieces:
        yield piece
    if not FRAMES.isdisjoint(response.headers):
        return
    stream = response.extensions.get("network_stream")
    tls = stream.get_extra_info("ssl_object") if stream is not None else None
    if tls is not None and not _is_closed(tls):
        raise httpx2.RemoteProtocolError("the connection was cut")


def _is_closed(tls: ssl.SSLObject) -> bool:
    """Whether the other side said that it closes; asked once all that it sent was read."""
    try:
        return tls.read(1) == b""
    except ssl.SSLZeroReturnError:
        return True
    except ssl.SSLError:
        return False


__all__ = ["FRAMES", "telling_ends", "whole"]
