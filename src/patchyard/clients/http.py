"""A thin HTTP client for talking to services: JSON, and answers read line by line.

Knows no service. Its one exception says what kind of trouble it was; whoever asked translates it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin

import httpx2

from patchyard.clients.connecting import connected
from patchyard.clients.http_trouble import FAILURES, HttpTrouble, Trouble, kind_of, shown
from patchyard.clients.waits import Waits
from patchyard.toolbox.wire import MOST_PARTS, has_many_parts, loaded

LINE_BYTES = 16 * 1024 * 1024  # of a line, and of one JSON document, which may have several
BODY_BYTES = 64 * 1024 * 1024  # of all lines of one answer
ERROR_CHARS = 2_000
DRAIN_S = 0.5
LONGEST_RETRY_S = 86_400  # what a service asks to wait beyond that is no answer
AUTHORISING = ("authorization", "x-api-key")
PORTS = {"http": 80, "https": 443}
LAST_PORT = 65_535
TOO_MUCH = "an answer is longer than is read"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A successful answer whose body is being read."""

    is_json: bool  # one JSON document rather than a stream of lines
    lines: AsyncIterator[bytes] = field(repr=False)

    async def whole(self) -> bytes:
        """Return the whole body, LINE_BYTES at most. Raises HttpTrouble."""
        lines: list[bytes] = []
        held = 0
        async for line in self.lines:
            held += len(line) + 1
            if held > LINE_BYTES:
                raise HttpTrouble(Trouble.GARBLED, TOO_MUCH)
            lines.append(line)
        return b"\n".join(lines)


@dataclass(kw_only=True)
class _Way:
    """Where a request connects to: another place than its address where a proxy is used."""

    place: str = ""  # host and port

    async def note(self, step: str, facts: Mapping[str, Any]) -> None:
        """Take in a step of the library's own account."""
        if step == "connection.connect_tcp.started":
            self.place = f"{facts['host']}:{facts['port']}"


class HttpClient:
    """Requests to one base address. Redirects are not followed: a key goes nowhere else.

    With `has_proxies` the variables HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY of the process
    decide. SSL_CERT_FILE and SSL_CERT_DIR name whose certificates are trusted. Raises HttpTrouble
    where one of them cannot be used.
    """

    def __init__(
        self, base_url: str, *, waits: Waits | None = None, has_proxies: bool = False
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._shown = shown(self.base_url)
        self._waits = waits or Waits()
        self._client = connected(self.base_url, self._waits, has_proxies=has_proxies)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def fetch(
        self,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the JSON of a GET, or of a POST when there is a body. Raises HttpTrouble."""
        async with self.ask(path, body=body, headers=headers) as answer:
            whole = await answer.whole()
        return parsed(whole)

    @asynccontextmanager
    async def ask(
        self,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Answer]:
        """Open a request and give its answer, to be read line by line. Raises HttpTrouble.

        Leaving the block early closes the connection, so that the service stops working.
        """
        try:
            async with asyncio.timeout(self._waits.whole_s) as scope:
                response = await self._sent(path, body, headers)
                try:
                    if not response.is_success:
                        raise await self._refusal(response)
                    kind = response.headers.get("content-type", "")
                    async with aclosing(self._lines(response)) as lines:
                        yield Answer(is_json="application/json" in kind, lines=lines)
                        await self._drain(lines)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise HttpTrouble(
                Trouble.TIMEOUT,
                f"{self._shown} did not come to the end of its answer within "
                f"{self._waits.whole_s:g} s",
            ) from error

    async def _sent(
        self, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> httpx2.Response:
        way = _Way()
        request = self._request(path, body, headers)
        request.extensions["trace"] = way.note
        try:
            return await self._client.send(request, stream=True)
        except FAILURES as error:
            raise self._translated(error, request, way) from error

    def _request(
        self, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> httpx2.Request:
        no_address = HttpTrouble(Trouble.DNS, f"{self._shown}: that is no address")
        try:
            request = self._client.build_request(
                "GET" if body is None else "POST",
                f"{self.base_url}{path}",
                content=body,
                headers={"content-type": "application/json", **(headers or {})},
            )
        except httpx2.InvalidURL as error:
            raise no_address from error
        if (request.url.port or 0) > LAST_PORT:
            raise no_address
        return request

    async def _drain(self, lines: AsyncIterator[bytes]) -> None:
        """Read the little that may follow an answer, so that the connection can be used again."""
        with suppress(TimeoutError, HttpTrouble):
            async with asyncio.timeout(DRAIN_S):
                async for _ in lines:
                    pass

    async def _lines(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        pending: list[bytes] = []  # of the line that has no end yet
        total = held = 0
        async with aclosing(self._pieces(response)) as pieces:
            async for piece in pieces:
                first, *more = piece.split(b"\n")
                pending.append(first)
                total, held = total + len(piece), held + len(first)
                if total > BODY_BYTES or held > LINE_BYTES:
                    raise HttpTrouble(Trouble.GARBLED, f"{self._shown} sent more than is read")
                if not more:
                    continue
                yield b"".join(pending)
                for line in more[:-1]:
                    yield line
                pending, held = [more[-1]], len(more[-1])
        if held:
            yield b"".join(pending)

    async def _pieces(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        async with aclosing(response.aiter_bytes()) as stream:
            while True:
                try:
                    async with asyncio.timeout(self._waits.idle_s):
                        piece = await anext(stream, None)
                except TimeoutError as error:
                    raise HttpTrouble(
                        Trouble.IDLE,
                        f"{self._shown} began to answer and then sent nothing for "
                        f"{self._waits.idle_s:g} s",
                    ) from error
                except FAILURES as error:
                    raise self._translated(error, response.request) from error
                if piece is None:
                    return
                yield piece

    async def _refusal(self, response: httpx2.Response) -> HttpTrouble:
        body = b""
        with suppress(HttpTrouble):
            async with aclosing(self._pieces(response)) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > 2 * ERROR_CHARS:  # a key that begins in time is there whole
                        break
        text = _without_keys(body.decode("utf-8", "replace"), response.request)[:ERROR_CHARS]
        return HttpTrouble(
            Trouble.STATUS,
            f"{self._shown} answered {response.status_code}",
            status=response.status_code,
            body=text,
            retry_after_s=_seconds(response.headers.get("retry-after", "")),
            sent_on_to=_led(response) if response.has_redirect_location else "",
        )

    def _translated(
        self,
        error: Exception,
        request: httpx2.Request,
        way: _Way | None = None,
    ) -> HttpTrouble:
        for name in AUTHORISING:
            request.headers.pop(name, None)
        kind, words = kind_of(error)
        asked = (
            f"{request.url.raw_host.decode()}:{request.url.port or PORTS.get(request.url.scheme)}"
        )
        if way is not None and way.place not in {"", asked}:
            words = f"{words} (by the proxy {way.place})"
            kind = Trouble.PROXY if kind in {Trouble.REFUSED, Trouble.DNS} else kind
        return HttpTrouble(kind, f"{self._shown}: {words}")


def parsed(body: bytes) -> Any:
    """Return a body's JSON. Raises HttpTrouble, also for more values than memory is given for."""
    try:
        if len(body) > MOST_PARTS and has_many_parts(body, body.decode()):
            raise HttpTrouble(Trouble.GARBLED, f"the answer has more than {MOST_PARTS:,} values")
        return loaded(body)
    except ValueError as error:
        shown = body[:ERROR_CHARS].decode("utf-8", "replace")
        raise HttpTrouble(Trouble.GARBLED, "the answer is no JSON", body=shown) from error


def _without_keys(text: str, request: httpx2.Request) -> str:
    """Take out a key that a service repeats in its answer."""
    for name in AUTHORISING:
        key = request.headers.get(name, "").removeprefix("Bearer ")
        text = text.replace(key, "[hidden]") if key else text
    return text


def _led(response: httpx2.Response) -> str:
    try:
        return shown(urljoin(str(response.url), response.headers["location"]))
    except ValueError:
        return "what is no address"


def _seconds(text: str) -> float | None:
    """Return the seconds of a Retry-After header, which are a number or a date (RFC 9110)."""
    try:
        value = float(text)
    except ValueError:
        try:
            value = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):  # a year, an hour or a zone that no date has
            return None
        value = float(round(max(value, 0.0)))
    return value if 0 <= value < LONGEST_RETRY_S else None


__all__ = [
    "LINE_BYTES",
    "TOO_MUCH",
    "Answer",
    "HttpClient",
    "HttpTrouble",
    "Trouble",
    "Waits",
    "parsed",
]
