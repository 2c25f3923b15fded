"""A thin HTTP client for talking to services: JSON, and answers read line by line.

Knows no service. Its one exception says what kind of trouble it was; whoever asked translates it.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

import httpx2

from patchyard.clients.waits import Waits

LINE_BYTES = 16 * 1024 * 1024
BODY_BYTES = 64 * 1024 * 1024
ERROR_CHARS = 2_000
DRAIN_S = 0.5
AUTHORISING = ("authorization", "x-api-key")


class Trouble(StrEnum):
    """What went wrong on the way."""

    REFUSED = "refused"  # nobody listens there
    DNS = "dns"  # no such host
    TLS = "tls"
    TIMEOUT = "timeout"  # no connection, or no first byte in time
    IDLE = "idle"  # an answer began and then nothing came
    CUT = "cut"  # the connection ended in the middle
    STATUS = "status"  # an answer that is no success
    GARBLED = "garbled"  # a success that could not be read


class HttpTrouble(Exception):
    """A request did not come to a good answer. Holds no header and so no key."""

    def __init__(
        self,
        kind: Trouble,
        message: str,
        *,
        status: int | None = None,
        body: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A successful answer whose body is being read."""

    is_json: bool  # one JSON document rather than a stream of lines
    lines: AsyncIterator[bytes] = field(repr=False)


class HttpClient:
    """Requests to one base address. Proxies of the environment are used only when asked for."""

    def __init__(
        self, base_url: str, *, waits: Waits | None = None, has_proxies: bool = False
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._waits = waits or Waits()
        timeout = httpx2.Timeout(
            self._waits.first_byte_s, connect=self._waits.connect_s, pool=self._waits.connect_s
        )
        self._client = httpx2.AsyncClient(timeout=timeout, trust_env=has_proxies)

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
            whole = b"\n".join([line async for line in answer.lines])
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
        request = self._client.build_request(
            "GET" if body is None else "POST",
            f"{self.base_url}{path}",
            content=body,
            headers={"content-type": "application/json", **(headers or {})},
        )
        try:
            response = await self._client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._translated(error, request) from error
        kind = response.headers.get("content-type", "")
        try:
            if not response.is_success:
                raise await self._refusal(response)
            async with aclosing(self._lines(response)) as lines:
                yield Answer(is_json="application/json" in kind, lines=lines)
                await self._drain(lines)
        finally:
            await response.aclose()

    async def _drain(self, lines: AsyncIterator[bytes]) -> None:
        """Read the little that may follow an answer, so that the connection can be used again."""
        with suppress(TimeoutError, HttpTrouble):
            async with asyncio.timeout(DRAIN_S):
                async for _ in lines:
                    pass

    async def _lines(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        pending = b""
        total = 0
        async with aclosing(self._pieces(response)) as pieces:
            async for piece in pieces:
                total += len(piece)
                if total > BODY_BYTES or len(pending) > LINE_BYTES:
                    raise HttpTrouble(Trouble.GARBLED, f"{self.base_url} sent more than is read")
                *lines, pending = (pending + piece).split(b"\n")
                for line in lines:
                    yield line
        if pending:
            yield pending

    async def _pieces(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        async with aclosing(response.aiter_bytes()) as stream:
            while True:
                try:
                    async with asyncio.timeout(self._waits.idle_s):
                        piece = await anext(stream, None)
                except TimeoutError as error:
                    raise HttpTrouble(
                        Trouble.IDLE,
                        f"{self.base_url} began to answer and then sent nothing for "
                        f"{self._waits.idle_s:g} s",
                    ) from error
                except httpx2.HTTPError as error:
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
                    if len(body) > ERROR_CHARS:
                        break
        text = _without_keys(body.decode("utf-8", "replace"), response.request)[:ERROR_CHARS]
        return HttpTrouble(
            Trouble.STATUS,
            f"{self.base_url} answered {response.status_code}",
            status=response.status_code,
            body=text,
            retry_after_s=_seconds(response.headers.get("retry-after")),
        )

    def _translated(
        self, error: httpx2.HTTPError | httpx2.InvalidURL, request: httpx2.Request
    ) -> HttpTrouble:
        for name in AUTHORISING:
            request.headers.pop(name, None)
        kind, words = _kind(error)
        return HttpTrouble(kind, f"{self.base_url}: {words}")


def parsed(body: bytes) -> Any:
    """Return a body's JSON. Raises HttpTrouble."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        shown = body[:200].decode("utf-8", "replace")
        raise HttpTrouble(Trouble.GARBLED, "the answer is no JSON", body=shown) from error


# The first that fits an error or one of its causes, with the words for it.
_KINDS: tuple[tuple[tuple[type[BaseException], ...], Trouble, str], ...] = (
    ((httpx2.ConnectTimeout, httpx2.PoolTimeout), Trouble.TIMEOUT, "no connection in time"),
    ((httpx2.TimeoutException,), Trouble.TIMEOUT, "no answer in time"),
    ((socket.gaierror,), Trouble.DNS, "the host is not known"),
    ((ssl.SSLError,), Trouble.TLS, "no secure connection"),
    ((httpx2.ConnectError,), Trouble.REFUSED, "nobody answers there"),
    ((httpx2.InvalidURL, httpx2.UnsupportedProtocol), Trouble.DNS, "that is no address"),
    ((httpx2.DecodingError,), Trouble.GARBLED, "the answer could not be decoded"),
)


def _kind(error: Exception) -> tuple[Trouble, str]:
    roots = _chain(error)
    for kinds, trouble, words in _KINDS:
        if any(isinstance(root, kinds) for root in roots):
            return trouble, words
    return Trouble.CUT, "the connection ended in the middle"


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    open_: list[BaseException | None] = [error]
    while open_ and len(found) < 40:
        one = open_.pop()
        if one is None or one in found:
            continue
        found.append(one)
        open_ += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            open_ += one.exceptions
    return found


def _without_keys(text: str, request: httpx2.Request) -> str:
    """Take out a key that a service repeats in its answer."""
    for name in AUTHORISING:
        key = request.headers.get(name, "").removeprefix("Bearer ")
        text = text.replace(key, "[hidden]") if key else text
    return text


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < 86_400 else None


__all__ = ["Answer", "HttpClient", "HttpTrouble", "Trouble", "Waits", "parsed"]
