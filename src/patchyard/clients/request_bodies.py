"""The body of a request, read strictly: exactly as long as was said, or in well-formed chunks."""

import asyncio
import re
from collections.abc import AsyncIterator
from http import HTTPStatus

from patchyard.clients.gateway_server import Refused
from patchyard.clients.proxy_head import Head

PIECE = 64 * 1024
READ_TIMEOUT_S = 120.0  # between two pieces
SIZE_LINE = re.compile(rb"([0-9a-fA-F]{1,12})(?:;[\x20-\x7e]{0,200})?\r\n")


async def body_of(head: Head, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the pieces of a body. Raises Refused, IncompleteReadError, TimeoutError."""
    if head.length is not None:
        async for piece in _exactly(reader, head.length):
            yield piece
        return
    while size := await _size(reader):
        async for piece in _exactly(reader, size):
            yield piece
        if await _read(reader, 2) != b"\r\n":
            raise Refused(HTTPStatus.BAD_REQUEST, "a chunk that does not end where it says")
    if await _read(reader, 2) != b"\r\n":
        raise Refused(HTTPStatus.BAD_REQUEST, "trailers do not pass this gateway")


async def _exactly(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length:
        piece = await _read(reader, min(length, PIECE), is_whole=False)
        length -= len(piece)
        yield piece


async def _size(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(READ_TIMEOUT_S):
        line = await reader.readuntil(b"\r\n")
    match = SIZE_LINE.fullmatch(line)
    if match is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "a chunk without a size")
    return int(match[1], 16)


async def _read(reader: asyncio.StreamReader, length: int, *, is_whole: bool = True) -> bytes:
    async with asyncio.timeout(READ_TIMEOUT_S):
        if is_whole:
            return await reader.readexactly(length)
        piece = await reader.read(length)
    if not piece:
        raise asyncio.IncompleteReadError(b"", length)
    return piece


__all__ = ["PIECE", "READ_TIMEOUT_S", "SIZE_LINE", "body_of"]
