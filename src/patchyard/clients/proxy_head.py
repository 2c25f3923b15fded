"""The head of a request as a proxy must read it: in one way only, or not at all.

What two servers could read as two things is refused here: several lengths, folded lines, lone line
feeds, a `Host` that is another one than the target's.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import urlsplit

from patchyard.clients.gateway_server import HEAD_BYTES, Refused
from patchyard.domain.addresses import Misnamed, parted
from patchyard.domain.network import METHODS

HEADERS = 100
LINE = re.compile(r"([A-Z]{1,20}) ([\x21\x22\x24-\x7e]+) HTTP/1\.([01])")  # no fragment
HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)")
"""Blanks are stripped later: a pattern whose parts both take them tries all ways to share them."""
ONCE = frozenset({"authorization", "content-length", "expect", "host", "transfer-encoding"})
DIRECT = "/to/"  # http://GATEWAY/to/HOST[:PORT]/PATH, for what knows no proxy
LENGTH = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, kw_only=True)
class Head:
    """A request, without its body."""

    method: str
    target: str  # as it came
    headers: Sequence[tuple[str, str]] = field(repr=False)  # names in small letters, in order
    is_old: bool = False  # HTTP/1.0
    length: int | None = 0  # of the body; None: it comes in chunks
    size: int = 0  # of the head itself, in bytes

    def header(self, name: str) -> str:
        """Return the value of a header that comes once; empty when it does not."""
        return next((value for key, value in self.headers if key == name), "")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a request wants to reach."""

    host: str  # in its one spelling
    port: int | None  # None: not said
    path: str = ""  # with its query
    scheme: str = "http"
    prefix: str = ""  # what stood before the path, for answers that lead to the same host


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes of the next head. Raises Refused, IncompleteReadError at the end."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise Refused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head holds {HEAD_BYTES} bytes at most"
        ) from error


def parse(data: bytes) -> Head:
    """Return the request that a head holds. Raises Refused."""
    first, *lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    match = LINE.fullmatch(first)
    if match is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "no HTTP request")
    if len(lines) > HEADERS:
        raise _bad(f"more than {HEADERS} headers")
    headers = []
    for line in lines:
        found = HEADER.fullmatch(line)  # no folding, no space before the colon, no lone CR or LF
        if found is None:
            raise _bad("no HTTP header")
        headers.append((found[1].lower(), found[2].strip(" \t")))
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in ONCE):
        raise _bad("a header that may come once came twice")
    head = Head(
        method=match[1], target=match[2], headers=headers, is_old=match[3] == "0", size=len(data)
    )
    return replace(head, length=_length(head))


def _length(head: Head) -> int | None:
    said, coding = head.header("content-length"), head.header("transfer-encoding")
    names = {name for name, _ in head.headers}
    if "transfer-encoding" in names:
        if "content-length" in names or head.is_old or coding.lower() != "chunked":
            raise _bad("a body whose end is not clear")
        return None
    if "content-length" not in names:
        return 0
    if not LENGTH.fullmatch(said):
        raise _bad("a length that is no number")
    return int(said)


def tunnel_target(head: Head) -> Target:
    """Return where a CONNECT leads. Raises Refused."""
    if head.length != 0:
        raise _bad("a CONNECT has no body")
    host, port = _parted(head.target)
    if port is None:
        raise _bad("a CONNECT names HOST:PORT")
    said = head.header("host")
    if said and _parted(said) not in {(host, port), (host, None)}:
        raise _bad("`Host` is another one than the target")
    return Target(host=host, port=port, scheme="")


def web_target(head: Head, *, port: int) -> Target | None:
    """Return what a request wants by its absolute address or below `/to/`; None for our own paths.

    `port` is the gateway's own. Raises Refused.
    """
    if head.method not in METHODS:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{head.method} does not pass this gateway")
    if head.target.startswith("/"):
        _require_own_host(head, port)
        return _direct(head.target) if head.target.startswith(DIRECT) else None
    match = re.fullmatch(r"(https?)://([^/?#]+)([/?][^#]*)?", head.target)
    if match is None:
        raise _bad("no address that can be reached")
    host, said = _parted(match[2])
    own = head.header("host")
    usual = {"http": 80, "https": 443}[match[1]]
    if own and (_parted(own)[0], _parted(own)[1] or usual) != (host, said or usual):
        raise _bad("`Host` is another one than the target")
    path = match[3] or "/"
    return Target(
        host=host,
        port=said,
        path=path if path.startswith("/") else f"/{path}",
        scheme=match[1],
        prefix=f"{match[1]}://{match[2]}",
    )


def _direct(target: str) -> Target:
    authority, slash, rest = target.removeprefix(DIRECT).partition("/")
    if not slash:
        authority, mark, query = authority.partition("?")
        rest = mark + query
    host, port = _parted(authority)
    return Target(host=host, port=port, path=f"/{rest}", prefix=f"{DIRECT}{authority}")


def _require_own_host(head: Head, port: int) -> None:
    """Refuse a name that was made to lead here: a page's script could be asking."""
    if head.header("host") not in {f"127.0.0.1:{port}", f"localhost:{port}", ""}:
        raise _bad("`Host` is not this gateway")


def _parted(authority: str) -> tuple[str, int | None]:
    try:
        return parted(authority)
    except Misnamed as error:
        raise _bad(str(error)) from error


def _bad(message: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, message)


def shown_path(path: str) -> str:
    """Return a path without its query, which may hold anything."""
    return urlsplit(f"//h{path}").path


__all__ = [
    "DIRECT",
    "HEADER",
    "HEADERS",
    "LENGTH",
    "LINE",
    "ONCE",
    "Head",
    "Target",
    "parse",
    "read_head",
    "shown_path",
    "tunnel_target",
    "web_target",
]
