"""Fetching from package indexes on behalf of an environment: the only part that knows secrets.

Redirects are followed here. An address that no configured index names must be a public one, unless
a configured index lies in a private network too, and the very address that was checked is the one
that is asked; credentials go to the configured origins alone.
"""

import asyncio
import base64
import netrc
import os
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from patchyard.clients.closures import telling_ends, whole
from patchyard.clients.dialling import nearness_here, resolved, while_there_is_time
from patchyard.clients.http_trouble import FAILURES
from patchyard.domain.addresses import Address, Nearness, plain, shown

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 120.0  # between two pieces
ANSWER_TIMEOUT_S = READ_TIMEOUT_S + 2 * CONNECT_TIMEOUT_S  # from a request to the answer's head
PAGE_TIMEOUT_S = 120.0  # a whole page
PAGE_BYTES = 64 * 1024 * 1024
REDIRECTS = 5
SILENCE_S = 30.0  # how long a host that could not be reached is not asked again
PORTS = {"http": 80, "https": 443}


class UpstreamFailed(Exception):
    """An index could not be asked; the message names no address."""

    def __init__(self, message: str, *, is_away: bool = False) -> None:
        super().__init__(message)
        self.is_away = is_away  # nobody answered at all


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Who one is at the configured origins, taken out of their addresses."""

    origins: frozenset[str] = frozenset()  # "scheme://host:port", the configured ones
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    # headers: "host:port/path/" to the value of an Authorization header

    def header(self, url: str) -> str | None:
        """Return the Authorization header for `url`, of the longest path that fits."""
        if origin(url) not in self.origins:
            return None
        place = _place(url)
        fitting = [prefix for prefix in self.headers if place.startswith(prefix)]
        return self.headers[max(fitting, key=len)] if fitting else None


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """How the other side is known."""

    authorities: str | None = None  # a file
    client: str | None = None  # a file with key and certificate
    unchecked_hosts: tuple[str, ...] = ()
    is_strict: bool = True


@dataclass(frozen=True, kw_only=True)
class Page:
    """A small document."""

    status: int
    content_type: str = ""
    body: bytes = field(default=b"", repr=False)
    url: str = field(default="", repr=False)  # where it came from, after redirects
    etag: str | None = None


def origin(url: str) -> str:
    """Return scheme, host and port of an address, always with the port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or PORTS.get(parts.scheme, 0)}"


def _place(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or PORTS.get(parts.scheme, 0)
    return f"{parts.hostname}:{port}{parts.path}"


def separated(
    urls: Sequence[str],
    *,
    authority: Mapping[str, str] | None = None,
    netrc_file: Path | None = None,
) -> tuple[list[str], Credentials]:
    """Return the addresses without their credentials, and these by place.

    `authority` has further headers by "host/path/"; a netrc file serves origins without any.
    """
    plain, headers = [], {}
    web = [url for url in urls if urlsplit(url).scheme in PORTS]
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in PORTS:
            plain.append(url)
            continue
        bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        plain.append(bare)
        root = f"{parts.hostname}:{parts.port or PORTS[parts.scheme]}/"
        if parts.username is not None:
            headers[root] = basic(unquote(parts.username), unquote(parts.password or ""))
        elif (known := _from_netrc(netrc_file, parts.hostname or "")) is not None:
            headers.setdefault(root, known)
    for place, header in (authority or {}).items():
        host, _, path = place.partition("/")
        ports = {urlsplit(url).port or PORTS[urlsplit(url).scheme] for url in web}
        for port in [""] if ":" in host else [f":{port}" for port in sorted(ports)]:
            headers[f"{host}{port}/{path}"] = header
    return plain, Credentials(origins=frozenset(map(origin, web)), headers=headers)


def basic(user: str, password: str) -> str:
    """Return the header of basic authentication."""
    return "Basic " + base64.b64encode(os.fsencode(f"{user}:{password}")).decode()


def _from_netrc(file: Path | None, host: str) -> str | None:
    if file is None:
        return None
    try:
        entry = netrc.netrc(str(file)).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return None if entry is None else basic(entry[0], entry[2] or "")


class Upstream:
    """HTTP to one family of indexes."""

    def __init__(self, credentials: Credentials, certificates: Certificates) -> None:
        self._credentials = credentials
        self._unchecked = certificates.unchecked_hosts
        timeout = httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        contexts = {True: _context(certificates), False: _unchecked_context()}
        self._clients = {
            is_checked: httpx2.AsyncClient(timeout=timeout, verify=context)
            for is_checked, context in contexts.items()
        }
        # To addresses that were checked. No connection is used twice: it was opened for one name.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._pinned = {
            is_checked: httpx2.AsyncClient(
                timeout=timeout, verify=context, limits=limits, trust_env=False
            )
            for is_checked, context in contexts.items()
        }
        self._has_private: bool | None = None  # not asked yet
        self._silent: dict[str, float] = {}  # origin to when it may be asked again

    async def close(self) -> None:
        """Close all connections."""
        for client in (*self._clients.values(), *self._pinned.values()):
            await client.aclose()

    async def page(self, url: str, *, accept: str, etag: str | None = None) -> Page:
        """Return a document of limited size, whatever its status. Raises UpstreamFailed."""
        headers = {"accept": accept}
        if etag:
            headers["if-none-match"] = etag
        try:
            async with asyncio.timeout(PAGE_TIMEOUT_S), self.ask("GET", url, headers) as response:
                body = b""
                async for piece in whole(response, response.aiter_bytes()):
                    body += piece
                    if len(body) > PAGE_BYTES:
                        raise UpstreamFailed(f"an index page is larger than {PAGE_BYTES} bytes")
                return Page(
                    status=response.status_code,
                    content_type=response.headers.get("content-type", ""),
                    body=body,
                    url=str(response.url),
                    etag=response.headers.get("etag"),
                )
        except TimeoutError as error:
            raise UpstreamFailed("the index did not answer in time", is_away=True) from error
        except FAILURES as error:
            raise UpstreamFailed(f"the index answered badly: {type(error).__name__}") from error

    @asynccontextmanager
    async def ask(
        self, method: str, url: str, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx2.Response]:
        """Give the answer to be read, redirects followed. Raises UpstreamFailed."""
        for _ in range(REDIRECTS + 1):
            response = await self._begun(method, url, headers)
            try:
                if not response.has_redirect_location:
                    yield response
                    return
                url = _led(url, response.headers["location"])
            finally:
                await response.aclose()
        raise UpstreamFailed(f"the index redirected more than {REDIRECTS} times")

    async def _begun(self, method: str, url: str, headers: Mapping[str, str]) -> httpx2.Response:
        """Return an answer whose head has come: one that drips is never silent."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S) as waiting:
                return await self._send(method, url, headers)
        except TimeoutError as error:
            if not waiting.expired():
                raise
            raise UpstreamFailed("the index did not answer in time", is_away=True) from error

    async def _send(self, method: str, url: str, headers: Mapping[str, str]) -> httpx2.Response:
        url = _led(url, "")
        place = origin(url)
        addresses = await self._permit(url, place)
        if self._silent.get(place, 0.0) > time.monotonic():
            raise UpstreamFailed("the index could not be reached a moment ago", is_away=True)
        authority = self._credentials.header(url)
        added = {"authorization": authority} if authority else {}
        unchecked = {urlsplit(url).hostname, urlsplit(url).netloc} & set(self._unchecked)
        client = self._clients[not unchecked]
        try:
            request = client.build_request(method, url, headers={**headers, **added})
            if addresses:
                return await _asked_there(self._pinned[not unchecked], request, addresses)
            return await client.send(request, stream=True, follow_redirects=False)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self._silent[place] = time.monotonic() + SILENCE_S
            raise UpstreamFailed("the index cannot be reached", is_away=True) from error
        except httpx2.TimeoutException as error:
            raise UpstreamFailed("the index did not answer in time", is_away=True) from error
        except FAILURES as error:
            raise UpstreamFailed(f"the index cannot be asked: {type(error).__name__}") from error

    async def _permit(self, url: str, place: str) -> Sequence[Address]:
        """Refuse what leads into a private network, unless a configured index lies there.

        Returns the addresses to ask; none where the name is for a proxy, or the user's own.
        """
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise UpstreamFailed("an index links to what is no web address")
        if place in self._credentials.origins:
            return ()
        addresses = await _addresses(parts.hostname)
        for address in addresses:
            near = nearness_here(address)
            if near == Nearness.PRIVATE and not await self._is_inside():
                raise UpstreamFailed("an index links into a private network")
            if near not in {Nearness.PRIVATE, Nearness.PUBLIC}:
                raise UpstreamFailed("an index links to this machine or to its neighbours")
        if _is_for_proxy(parts.scheme, parts.hostname):
            return ()
        if not addresses:
            raise UpstreamFailed("the index cannot be reached", is_away=True)
        return addresses

    async def _is_inside(self) -> bool:
        """Whether a configured index lies in a private network itself: then its files may too."""
        if self._has_private is None:
            hosts = [urlsplit(one).hostname or "" for one in self._credentials.origins]
            found = [address for host in hosts for address in await _addresses(host)]
            self._has_private = Nearness.PRIVATE in map(nearness_here, found)
        return self._has_private


def _led(url: str, further: str) -> str:
    """Where an address leads, itself where there is nothing further. Raises UpstreamFailed."""
    try:
        led = urljoin(url, further)
        _ = urlsplit(led).port
    except ValueError as error:
        raise UpstreamFailed("an index links to what is no web address") from error
    return led


async def _addresses(host: str) -> Sequence[Address]:
    """What a name stands for; nothing where only a proxy knows names."""
    return [plain(address) for address in await resolved(host)]


def _is_for_proxy(scheme: str, host: str) -> bool:
    """Whether the machine's own settings send requests for a host to a proxy, which resolves it."""
    proxies = getproxies()
    return bool(proxies.get(scheme) or proxies.get("all")) and not proxy_bypass(host)


async def _asked_there(
    client: httpx2.AsyncClient, request: httpx2.Request, addresses: Sequence[Address]
) -> httpx2.Response:
    """Ask the first of these addresses that takes a connection; the name is for TLS and `Host`."""
    failed: httpx2.TransportError | None = None
    for address in while_there_is_time(addresses):
        there = httpx2.Request(
            request.method,
            request.url.copy_with(host=shown(str(address))),
            headers=request.headers,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        try:
            response = await client.send(there, stream=True, follow_redirects=False)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failed = error
            continue
        response.request = request  # what it says is relative to the name
        return response
    raise failed or httpx2.ConnectError("it has no address", request=request)


def _context(certificates: Certificates) -> ssl.SSLContext:
    if not certificates.is_strict:
        return _unchecked_context()
    context = telling_ends(ssl.create_default_context(cafile=certificates.authorities))
    if certificates.client:
        context.load_cert_chain(certificates.client)
    return context


def _unchecked_context() -> ssl.SSLContext:
    """For hosts that the user's own settings call trusted."""
    context = telling_ends(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


__all__ = [
    "ANSWER_TIMEOUT_S",
    "CONNECT_TIMEOUT_S",
    "PAGE_BYTES",
    "PAGE_TIMEOUT_S",
    "PORTS",
    "READ_TIMEOUT_S",
    "REDIRECTS",
    "SILENCE_S",
    "Certificates",
    "Credentials",
    "Page",
    "Upstream",
    "UpstreamFailed",
    "basic",
    "origin",
    "separated",
]
