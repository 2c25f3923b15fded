"""Connecting to hosts that a rule names: resolved once, and to the address that was checked.

A name whose answer changes between the check and the connection gains nothing: there is no second
question.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import TypeVar

from patchyard.clients.gateway_server import Refused
from patchyard.domain.addresses import Address, Misnamed, Nearness, literal, nearness, plain
from patchyard.domain.network import HostRule

RESOLVE_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 10.0
ADDRESSES_TIMEOUT_S = 15.0  # no further address of a name is begun with after that

Resolve = Callable[[str], Awaitable[Sequence[Address]]]
AnyAddress = TypeVar("AnyAddress")


async def resolved(host: str) -> Sequence[Address]:
    """Return what this machine's resolver says of a name; nothing where it knows none."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    said = dict.fromkeys(str(entry[4][0]) for entry in found)
    return [ipaddress.ip_address(text.partition("%")[0]) for text in said]


class Dialler:
    """Finds and opens the way to a rule's host."""

    def __init__(self, resolve: Resolve = resolved) -> None:
        self._resolve = resolve

    async def addresses(self, rule: HostRule) -> Sequence[str]:
        """Return the addresses to connect to, best first. Raises Refused."""
        own = literal(rule.host)
        found = [own] if own is not None else await self._asked(rule.host)
        fitting = [address for address in found if rule.leads_to(nearness_here(address))]
        if fitting:
            return list(dict.fromkeys(str(plain(address)) for address in fitting))
        if not found:
            raise Refused(HTTPStatus.BAD_GATEWAY, f"nobody knows the host {rule.host}")
        kinds = {nearness_here(address) for address in found}
        raise Refused(HTTPStatus.FORBIDDEN, _too_near(rule, kinds))

    async def _asked(self, host: str) -> Sequence[Address]:
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                return await self._resolve(host)
        except TimeoutError as error:
            raise Refused(
                HTTPStatus.GATEWAY_TIMEOUT, f"nobody says in time where {host} is"
            ) from error

    async def connect(self, rule: HostRule) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to a rule's host. Raises Refused."""
        status, words = HTTPStatus.BAD_GATEWAY, "it takes no connection"
        for address in while_there_is_time(await self.addresses(rule)):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(address, rule.port)
            except TimeoutError:
                status, words = HTTPStatus.GATEWAY_TIMEOUT, "no connection in time"
            except OSError:
                status, words = HTTPStatus.BAD_GATEWAY, "it takes no connection"
        raise Refused(status, f"{rule.place} cannot be reached: {words}")


def while_there_is_time(addresses: Sequence[AnyAddress]) -> Iterator[AnyAddress]:
    """Yield addresses to try, until `ADDRESSES_TIMEOUT_S` is over: a name may have hundreds."""
    until = asyncio.get_running_loop().time() + ADDRESSES_TIMEOUT_S
    for address in addresses:
        yield address
        if asyncio.get_running_loop().time() >= until:
            return


def nearness_here(address: Address) -> Nearness:
    """Return how near an address is; a public one of this machine's own is as near as loopback.

    What only listens behind a firewall could be reached by it from here.
    """
    try:
        found, address = nearness(address), plain(address)
    except Misnamed:
        return Nearness.NONE
    is_here = found == Nearness.PUBLIC and is_own(str(address))
    return Nearness.LOOPBACK if is_here else found


def is_own(address: str) -> bool:
    """Whether an address is one of this machine's: only such a one can be bound.

    Where the kernel lets any be bound (ip_nonlocal_bind, ip(7)), nobody can say.
    """
    nobodys = "2001:db8::1" if ":" in address else "192.0.2.1"  # RFC 3849, RFC 5737
    return _binds(address) and not _binds(nobodys)


def _binds(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as trying, suppress(OSError):
        trying.bind((address, 0))
        return True
    return False


def _too_near(rule: HostRule, kinds: set[Nearness]) -> str:
    said = ", ".join(sorted(kinds))
    if kinds <= {Nearness.PRIVATE, Nearness.LOOPBACK}:
        return f"{rule.host} leads to a {said} address; it has to be named as {rule.host}={said}"
    return f"{rule.host} leads to a {said} address; only that address itself can be named"


__all__ = [
    "ADDRESSES_TIMEOUT_S",
    "CONNECT_TIMEOUT_S",
    "RESOLVE_TIMEOUT_S",
    "AnyAddress",
    "Dialler",
    "Resolve",
    "is_own",
    "nearness_here",
    "resolved",
    "while_there_is_time",
]
