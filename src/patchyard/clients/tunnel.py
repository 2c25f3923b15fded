"""A CONNECT to an allowed host: bytes both ways, once the TLS name is the host's."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from patchyard.clients.client_hello import NoHello, read_hello, server_name
from patchyard.clients.dialling import Dialler
from patchyard.clients.gateway_server import WRITE_TIMEOUT_S, Refused
from patchyard.clients.replies import Reply
from patchyard.clients.traffic_log import Trial
from patchyard.domain.addresses import Misnamed, host_of, literal
from patchyard.domain.network import HostRule

PIECE = 64 * 1024
HELLO_TIMEOUT_S = 30.0
IDLE_S = 600.0  # with nothing either way
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
UNRECOGNISED_NAME = b"\x15\x03\x01\x00\x02\x02\x70"  # a fatal alert, RFC 6066, 3

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def tunnel(
    rule: HostRule, trial: Trial, asking: tuple[asyncio.StreamReader, Reply], dialler: Dialler
) -> None:
    """Carry a connection until both sides are done. Raises Refused."""
    reader, reply = asking
    inside = (reader, reply.writer)
    outside = await dialler.connect(rule)
    try:
        trial.status = HTTPStatus.OK.value
        await reply.put(ESTABLISHED)
        first = b"" if rule.is_plain else await _hello(rule, inside)
        trial.sent(len(first))
        outside[1].write(first)
        await _relay(trial, inside, outside)
    finally:
        outside[1].close()
        with suppress(OSError):
            await outside[1].wait_closed()


async def _hello(rule: HostRule, inside: Ends) -> bytes:
    """Return the bytes of a ClientHello that asks for the rule's host. Raises Refused."""
    try:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            raw, message = await read_hello(inside[0])
        _require_name(rule, server_name(message))
    except (NoHello, TimeoutError) as error:
        said = str(error) or "it said nothing"
        raise Refused(
            HTTPStatus.FORBIDDEN, f"only TLS passes to {rule.place} this way, and {said}"
        ) from error
    except Refused:
        inside[1].write(UNRECOGNISED_NAME)
        raise
    return raw


def _require_name(rule: HostRule, name: str | None) -> None:
    if name is None and literal(rule.host) is not None:
        return
    try:
        is_same = name is not None and host_of(name) == rule.host
    except Misnamed:
        is_same = False
    if not is_same:
        raise Refused(
            HTTPStatus.FORBIDDEN,
            f"a tunnel to {rule.place} may not ask for {(name or 'no name')[:100]!r} by TLS",
        )


class _Quiet:
    """When something last went either way."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.mark()

    def mark(self) -> None:
        self._last = self._loop.time()

    @property
    def left_s(self) -> float:
        return self._last + IDLE_S - self._loop.time()


async def _relay(trial: Trial, inside: Ends, outside: Ends) -> None:
    quiet = _Quiet()
    ways = [
        asyncio.create_task(_copy(inside[0], outside[1], trial.sent, quiet)),
        asyncio.create_task(_copy(outside[0], inside[1], trial.came, quiet)),
    ]
    try:
        await asyncio.gather(*ways)
    except TimeoutError as error:
        raise Refused(
            HTTPStatus.GATEWAY_TIMEOUT, f"nothing went either way for {IDLE_S:g} s"
        ) from error
    except OSError:
        return  # one side is gone: that is how most tunnels end
    finally:
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)


async def _copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    count: Callable[[int], None],
    quiet: _Quiet,
) -> None:
    while True:
        try:
            async with asyncio.timeout(max(quiet.left_s, 0.0)):
                piece = await reader.read(PIECE)
        except TimeoutError:
            if quiet.left_s > 0:
                continue  # the other way is in use
            raise
        quiet.mark()
        if not piece:
            break
        count(len(piece))
        writer.write(piece)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


__all__ = [
    "ESTABLISHED",
    "HELLO_TIMEOUT_S",
    "IDLE_S",
    "PIECE",
    "UNRECOGNISED_NAME",
    "Ends",
    "tunnel",
]
