"""A CONNECT to an allowed host: bytes both ways, once the TLS name is the host's."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from patchyard.clients.client_hello import NoHello, read_hello, server_name
from patchyard.clients.connection_ends import WRITE_TIMEOUT_S, finish, reset
from patchyard.clients.dialling import Dialler
from patchyard.clients.gateway_server import Refused
from patchyard.clients.leaving import LEFT_S, Left
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
    """Carry a connection until both sides are done.

    A side that breaks off is told to the other one by a reset. Raises Refused, also for a host that
    breaks off, and Left.
    """
    reader, reply = asking
    inside = (reader, reply.writer)
    outside = await dialler.connect(rule)
    try:
        trial.status = HTTPStatus.OK.value
        await reply.put(ESTABLISHED)
        first = b"" if rule.is_plain else await _hello(rule, inside)
        reply.is_open_ended = True
        trial.sent(len(first))
        outside[1].write(first)
        await _carried(rule, trial, inside, outside)
    finally:
        await finish(outside[1])


async def _carried(rule: HostRule, trial: Trial, inside: Ends, outside: Ends) -> None:
    try:
        is_whole = await _relay(trial, inside, outside)
    except _Broken as broken:
        if broken.is_of_host:
            raise Refused(HTTPStatus.BAD_GATEWAY, f"{rule.place} {broken}") from broken
        if broken.is_late:
            trial.reason = f"the program inside {broken}"
        reset(inside[1])  # a program that breaks off has what it wanted
    else:
        if is_whole:
            await finish(outside[1])
    finally:
        reset(outside[1])


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


class _Broken(Exception):
    """One side is gone before it said that it is done."""

    def __init__(self, said: str, *, is_of_host: bool, is_late: bool) -> None:
        super().__init__(said)
        self.is_of_host = is_of_host
        self.is_late = is_late  # it is there, and takes nothing


class _Quiet:
    """For how long nothing may go either way; it is less once one side has said all it will."""

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._loop = asyncio.get_running_loop()
        self._scope = scope
        self.is_host_done = self.is_program_done = False
        self.mark()

    def mark(self) -> None:
        """Begin to wait anew."""
        if not self._scope.expired():
            limit_s = LEFT_S if self.is_host_done or self.is_program_done else IDLE_S
            self._scope.reschedule(self._loop.time() + limit_s)

    def end(self, *, is_host: bool) -> None:
        """Note that a side is done."""
        self.is_host_done |= is_host
        self.is_program_done |= not is_host
        self.mark()


async def _relay(trial: Trial, inside: Ends, outside: Ends) -> bool:
    """Copy both ways; return whether both sides came to their end.

    It is False where the host did, and the program has been silent since. Raises Refused, _Broken,
    and Left where the program is done and the host is silent.
    """
    ways: list[asyncio.Task[None]] = []
    try:
        async with asyncio.timeout(None) as scope:
            quiet = _Quiet(scope)
            there = _Way(*(inside[0], outside[1]), count=trial.sent, is_from_host=False)
            back = _Way(*(outside[0], inside[1]), count=trial.came, is_from_host=True)
            ways += [asyncio.create_task(_copy(way, quiet)) for way in (there, back)]
            await asyncio.gather(*ways)
    except TimeoutError as error:
        if quiet.is_program_done:
            raise Left from error
        if quiet.is_host_done:
            return False
        raise Refused(
            HTTPStatus.GATEWAY_TIMEOUT, f"nothing went either way for {IDLE_S:g} s"
        ) from error
    finally:
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)
    return True


@dataclass(frozen=True)
class _Way:
    """One of the two ways of a tunnel."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    count: Callable[[int], None] = field(kw_only=True)
    is_from_host: bool = field(kw_only=True)


async def _copy(way: _Way, quiet: _Quiet) -> None:
    """Copy one way until its end, and pass that on once all before it was taken."""
    piece = await _read(way)
    while piece:
        quiet.mark()
        way.count(len(piece))
        way.writer.write(piece)
        await _taken(way)
        quiet.mark()
        piece = await _read(way)
    way.writer.transport.set_write_buffer_limits(0)
    await _taken(way)
    with suppress(OSError):  # the other side has broken off, which the other way tells
        way.writer.write_eof()
    quiet.end(is_host=way.is_from_host)


async def _read(way: _Way) -> bytes:
    try:
        return await way.reader.read(PIECE)
    except OSError as error:
        raise _broken(error, is_of_host=way.is_from_host) from error


async def _taken(way: _Way) -> None:
    """Wait until the other side has taken what was written."""
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_S) as waiting:
            await way.writer.drain()
    except OSError as error:
        is_late = waiting.expired()
        raise _broken(error, is_of_host=not way.is_from_host, is_late=is_late) from error


def _broken(error: OSError, *, is_of_host: bool, is_late: bool = False) -> _Broken:
    said = f"took nothing for {WRITE_TIMEOUT_S:g} s" if is_late else "broke the connection off"
    said += "" if is_late else f" ({type(error).__name__})"
    return _Broken(said, is_of_host=is_of_host, is_late=is_late)


__all__ = [
    "ESTABLISHED",
    "HELLO_TIMEOUT_S",
    "IDLE_S",
    "PIECE",
    "UNRECOGNISED_NAME",
    "Ends",
    "tunnel",
]
