"""Requests that the gateway reads and asks anew outside: TLS, the address and secrets are its own.

Redirects are handed back, so that a secret goes nowhere but to the host that it is for.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from types import TracebackType
from typing import Self

import httpx2

from patchyard.clients.closures import telling_ends, whole
from patchyard.clients.dialling import CONNECT_TIMEOUT_S, Dialler, while_there_is_time
from patchyard.clients.gateway_server import Refused
from patchyard.clients.http_trouble import FAILURES, Trouble, kind_of
from patchyard.clients.keeping_secrets import authorization
from patchyard.clients.masking import Masking
from patchyard.clients.proxy_head import Head, Target
from patchyard.clients.replies import Reply
from patchyard.clients.request_bodies import body_of
from patchyard.clients.traffic_log import Trial
from patchyard.clients.unpacking import CODINGS, Packed, codings
from patchyard.domain.addresses import literal
from patchyard.domain.errors import UsageError
from patchyard.domain.network import HostRule
from patchyard.domain.permits import Permit

READ_TIMEOUT_S = 300.0  # for an answer, and between two pieces of it
ANSWER_TIMEOUT_S = READ_TIMEOUT_S + 2 * CONNECT_TIMEOUT_S  # from the request to the answer's head
WORDS_CHARS = 300  # of why a host cannot be reached, which names what its certificate says
HOP = frozenset({
    "connection", "expect", "keep-alive", "proxy-authenticate", "proxy-authorization",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
OWN = frozenset({"authorization", "content-length", "host"})  # a client's are never passed on
OTHERWISE = re.compile(
    r"forwarded|front-end-https|proxy|request-uri|via|x-forwarded.*|.*override.*"
    r"|x-host|x-(?:http-)?method|x-(?:.*-)?(?:original|rewrite)-.*"
    r"|(?:.*-)?(?:client|connecting|originating|real|remote)-(?:addr|address|host|ip|user)"
)
"""Headers that name another method, path, host or client than the request itself does.

Hosts and frameworks that read them take them for the word of a proxy of their own, and there is
none that an agent could speak for.
"""
PARTS = frozenset({"accept-encoding", "if-range", "range", "request-range", "x-range"})
"""By which a client can have a secret sent back so that it is not recognised: cut, or packed."""
ANSWERS = frozenset({"alt-svc", "content-length", "strict-transport-security"})
EMPTY = frozenset({204, 304})


@dataclass(frozen=True, kw_only=True)
class Asking:
    """One request as it goes out."""

    head: Head
    target: Target  # path and query as they go out
    permit: Permit
    body: AsyncIterator[bytes] = field(repr=False)


class Forwarder:
    """Asks hosts on behalf of environments. To be closed."""

    def __init__(self, dialler: Dialler, environ: Mapping[str, str]) -> None:
        self._dialler = dialler
        self._environ = environ
        # No connection is used twice: one belongs to an address, and so to several hosts.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._transport = httpx2.AsyncHTTPTransport(verify=_trusted(environ), limits=limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.aclose()

    async def forward(
        self,
        head: Head,
        target: Target,
        permit: Permit,
        trial: Trial,
        ends: tuple[asyncio.StreamReader, Reply],
    ) -> None:
        """Ask, and hand back the answer. Raises Refused."""
        reader, reply = ends
        if head.header("expect").lower() == "100-continue":
            reply.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        asking = Asking(
            head=head, target=target, permit=permit, body=_counted(body_of(head, reader), trial)
        )
        header, hidden = "", tuple[str, ...]()
        if permit.secret is not None:
            header, hidden = authorization(permit.secret, self._environ)
        response = await self._asked(asking, header, trial)
        try:
            trial.status = response.status_code
            await _hand_back(response, asking, trial, reply, Masking(hidden))
        except FAILURES as error:  # its message may hold what the host said
            said = f"the answer broke off: {type(error).__name__}"
            raise Refused(HTTPStatus.BAD_GATEWAY, said) from error
        finally:
            await response.aclose()

    async def _asked(self, asking: Asking, header: str, trial: Trial) -> httpx2.Response:
        """Return the answer of the first address that takes a connection. Raises Refused."""
        rule = asking.permit.rule
        unreached: Exception | None = None
        addresses = await self._dialler.addresses(rule)
        trial.sent(asking.head.size)
        for address in while_there_is_time(addresses):
            try:
                return await self._answer(asking, address, header)
            except (TimeoutError, httpx2.ReadTimeout) as error:
                raise Refused(
                    HTTPStatus.GATEWAY_TIMEOUT, f"{rule.place} did not begin its answer in time"
                ) from error
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                unreached = error
            except FAILURES as error:
                raise Refused(
                    HTTPStatus.BAD_GATEWAY, f"{rule.place} answered badly: {type(error).__name__}"
                ) from error
        raise _unreached(rule, unreached) from unreached

    async def _answer(self, asking: Asking, address: str, header: str) -> httpx2.Response:
        """Return the beginning of an answer. Raises TimeoutError where none is begun in time.

        A host that sends nothing but interim answers is never silent, so that no other limit holds.
        """
        async with asyncio.timeout(ANSWER_TIMEOUT_S) as waiting:
            body = _rescheduling(asking.body, waiting)
            request = _request(replace(asking, body=body), address, header)
            return await self._transport.handle_async_request(request)


def _unreached(rule: HostRule, error: Exception | None) -> Refused:
    """Return what is said of a host that took no connection, or none by TLS."""
    kind, words = kind_of(error) if error is not None else (Trouble.REFUSED, "")
    if kind is Trouble.REFUSED:
        words = "it takes no connection"
    is_late = kind is Trouble.TIMEOUT
    status = HTTPStatus.GATEWAY_TIMEOUT if is_late else HTTPStatus.BAD_GATEWAY
    how = "" if rule.is_plain else " by TLS"
    return Refused(status, f"{rule.place} cannot be reached{how}: {words}"[:WORDS_CHARS])


async def _rescheduling(
    body: AsyncIterator[bytes], waiting: asyncio.Timeout
) -> AsyncIterator[bytes]:
    """Yield the pieces of a body; the time for the answer begins after each of them."""
    async for piece in body:
        yield piece
        waiting.reschedule(asyncio.get_running_loop().time() + ANSWER_TIMEOUT_S)


def _trusted(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return whose certificates are trusted: the system's, or those that variables name.

    Raises UsageError for a file of them that cannot be read.
    """
    file, folder = environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None
    try:
        return telling_ends(ssl.create_default_context(cafile=file, capath=folder))
    except OSError as error:
        raise UsageError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be used: {error}",
            hint="name a file of certificates in PEM form, or unset the variable",
        ) from error


async def _counted(body: AsyncIterator[bytes], trial: Trial) -> AsyncIterator[bytes]:
    async for piece in body:
        trial.sent(len(piece))
        yield piece


def _request(asking: Asking, address: str, header: str) -> httpx2.Request:
    """Return the request to one address that was checked; the host's name is for TLS and `Host`."""
    rule, head = asking.permit.rule, asking.head
    said = ",".join(value for name, value in head.headers if name == "connection")
    named = {part.strip().lower().replace("_", "-") for part in said.split(",")}
    left_out = HOP | OWN | named | (PARTS if header else frozenset())
    usual = 80 if rule.is_plain else 443
    headers = [("host", rule.place if rule.port != usual else rule.place.rpartition(":")[0])]
    headers += [each for each in head.headers if _passes(each[0], left_out)]
    if header:
        headers += [("authorization", header), ("accept-encoding", "identity")]
    if head.length:
        headers.append(("content-length", str(head.length)))
    times = {"connect": CONNECT_TIMEOUT_S, "read": READ_TIMEOUT_S, "write": READ_TIMEOUT_S}
    extensions: dict[str, object] = {"timeout": times, "target": asking.target.path.encode("ascii")}
    if literal(rule.host) is None:
        extensions["sni_hostname"] = rule.host
    place = f"[{address}]" if ":" in address else address
    return httpx2.Request(
        head.method,
        f"{'http' if rule.is_plain else 'https'}://{place}:{rule.port}/",
        headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in headers],
        content=asking.body if head.length != 0 else None,
        extensions=extensions,
    )


def _passes(name: str, left_out: frozenset[str]) -> bool:
    """Whether a header goes out, as servers behind CGI or WSGI read it.

    To them `_` is `-` (RFC 3875, 4.1.18).
    """
    spoken = name.replace("_", "-")
    return spoken not in left_out and OTHERWISE.fullmatch(spoken) is None


async def _hand_back(
    response: httpx2.Response, asking: Asking, trial: Trial, reply: Reply, masking: Masking
) -> None:
    """Send the answer on, without secrets where one was added to the request. Raises Refused."""
    is_empty = asking.head.method == "HEAD" or response.status_code in EMPTY
    packed = None
    if asking.permit.secret is not None:
        _require_whole(response)
        packed = _packed(response)
    is_of_chunks = "transfer-encoding" in response.headers  # then a length means nothing
    is_longer = is_of_chunks or packed is not None
    length = None if is_longer else response.headers.get("content-length")
    is_chunked = not is_empty and length is None and not reply.is_old
    phrase = response.extensions.get("reason_phrase", b"").decode("latin-1")
    lines = [f"HTTP/1.1 {response.status_code} {phrase}"]
    lines += [f"{name}: {value}" for name, value in _headers(response, asking)]
    lines += [f"content-length: {length}"] if length is not None else []
    lines += ["transfer-encoding: chunked"] if is_chunked else []
    head = "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")
    reply.is_open_ended = not (is_empty or is_chunked) and length is None
    trial.came(len(head))
    await reply.put(masking.masked(head))
    if is_empty:
        return
    async for piece in _unpacked(response, packed):
        trial.came(len(piece))
        await _put(reply, masking.feed(piece), is_chunked=is_chunked)
    await _put(reply, masking.rest(), is_chunked=is_chunked)
    if is_chunked:
        await reply.put(b"0\r\n\r\n")


def _require_whole(response: httpx2.Response) -> None:
    """Raise Refused for a part: none was asked for, and a secret could be cut in two."""
    kind = response.headers.get("content-type", "").strip().lower()
    is_part = response.status_code == HTTPStatus.PARTIAL_CONTENT
    if is_part or "content-range" in response.headers or kind.startswith("multipart/byteranges"):
        raise Refused(
            HTTPStatus.BAD_GATEWAY,
            "the answer is a part, which is not passed on where a secret is added to the request",
        )


def _packed(response: httpx2.Response) -> Packed | None:
    """Return what unpacks an answer; None where it is not packed. Raises Refused."""
    named = codings(response.headers.get("content-encoding", ""))
    if not named:
        return None
    if len(named) > 1 or named[0] not in CODINGS:
        raise Refused(
            HTTPStatus.BAD_GATEWAY,
            "the answer is packed although none was asked for, and in a way that this gateway"
            f" cannot unpack to take out a secret; it can {', '.join(sorted(CODINGS))}",
        )
    return Packed()


async def _unpacked(response: httpx2.Response, packed: Packed | None) -> AsyncIterator[bytes]:
    async for piece in whole(response, response.aiter_raw()):
        for told in packed.unpacked(piece) if packed else (piece,):
            yield told
    if packed:
        packed.require_end()


async def _put(reply: Reply, piece: bytes, *, is_chunked: bool) -> None:
    if piece:
        await reply.put(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" if is_chunked else piece)


def _headers(response: httpx2.Response, asking: Asking) -> Sequence[tuple[str, str]]:
    named = {part.strip().lower() for part in response.headers.get("connection", "").split(",")}
    if asking.permit.secret is not None:
        # What a host gives for the secret would stand for it; there are no ranges; it is unpacked.
        named |= {"set-cookie", "accept-ranges", "content-encoding"}
    found = []
    for raw_name, raw_value in response.headers.raw:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in HOP | ANSWERS | named:
            continue
        if name in {"location", "content-location"}:
            value = led_back(value, asking)
        found.append((name, value))
    return found


def led_back(location: str, asking: Asking) -> str:
    """Return where an answer leads, by the way that was taken where it is the same host."""
    rule = asking.permit.rule
    scheme = "http" if rule.is_plain else "https"
    usual = ":80" if rule.is_plain else ":443"
    for origin in (f"{scheme}://{rule.place}", f"{scheme}://{rule.place.removesuffix(usual)}"):
        rest = location.removeprefix(origin)
        if location.startswith(origin) and (not rest or rest[0] in "/?#"):
            return f"{asking.target.prefix}{rest}"
    is_path = location.startswith("/") and not location.startswith("//")
    is_direct = asking.target.prefix.startswith("/")
    return f"{asking.target.prefix}{location}" if is_path and is_direct else location


__all__ = [
    "ANSWERS",
    "ANSWER_TIMEOUT_S",
    "EMPTY",
    "HOP",
    "OTHERWISE",
    "OWN",
    "PARTS",
    "READ_TIMEOUT_S",
    "WORDS_CHARS",
    "Asking",
    "Forwarder",
    "led_back",
]
