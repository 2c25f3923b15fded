"""What goes wrong on the way to a service, and the library's many exceptions told apart."""

import re
import socket
import ssl
from enum import StrEnum

import httpx2


def shown(url: str) -> str:
    """Return an address without what may be secret in it: user, query and fragment."""
    return re.sub(r"(?<=://).*@", "", url).partition("?")[0].partition("#")[0]


class Trouble(StrEnum):
    """What went wrong on the way."""

    REFUSED = "refused"  # nobody listens there
    DNS = "dns"  # no such host
    TLS = "tls"
    PROXY = "proxy"  # the proxy does not let it through, or cannot be used
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
        sent_on_to: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s
        self.sent_on_to = sent_on_to  # a redirect's address, which is never followed


# What the library raises of a request or of its answer; TLS's own errors come through as they are.
FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError)
# What a connection that ends leaves behind, and a wait for one: no word about certificates.
_ENDED = (
    *(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError, ssl.SSLSyscallError),
    *(ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLZeroReturnError),
)
_CUT = (Trouble.CUT, "the connection ended in the middle")
# The first that fits an error or one of its causes, with the words for it.
_KINDS: tuple[tuple[tuple[type[BaseException], ...], Trouble, str], ...] = (
    ((httpx2.ProxyError,), Trouble.PROXY, "the way is not open"),
    ((httpx2.ConnectTimeout, httpx2.PoolTimeout), Trouble.TIMEOUT, "no connection in time"),
    ((httpx2.TimeoutException,), Trouble.TIMEOUT, "no answer in time"),
    ((socket.gaierror,), Trouble.DNS, "the host is not known"),
    ((ssl.SSLError,), Trouble.TLS, "no secure connection"),
    ((httpx2.ConnectError,), Trouble.REFUSED, "nothing answers there"),
    ((httpx2.InvalidURL, httpx2.UnsupportedProtocol), Trouble.DNS, "that is no address"),
    ((httpx2.DecodingError,), Trouble.GARBLED, "the answer could not be decoded"),
)


def kind_of(error: Exception) -> tuple[Trouble, str]:
    """Return what went wrong, and in words.

    TLS is at fault where a connection was refused while it was made. Later, whatever its library
    says, what came was cut or damaged on the way.
    """
    causes = _chain(error)
    is_new = isinstance(error, httpx2.ConnectError)
    passing = _ENDED if is_new else (*_ENDED, ssl.SSLError)
    roots = [cause for cause in causes if not isinstance(cause, passing)]
    is_cut = len(roots) < len(causes)
    for kinds, trouble, words in _KINDS:
        found = next((root for root in roots if isinstance(root, kinds)), None)
        if found is not None and not (trouble is Trouble.REFUSED and is_cut):
            return trouble, f"{words}{_detail(found)}"
    return _CUT


def _detail(error: BaseException) -> str:
    """Return what more is known: why a certificate is not trusted, a proxy's status."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f": {error.verify_message}"
    if isinstance(error, httpx2.ProxyError) and str(error)[:3].isdigit():
        return f": it answered {str(error)[:3]}"
    return ""


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


__all__ = ["FAILURES", "HttpTrouble", "Trouble", "kind_of", "shown"]
