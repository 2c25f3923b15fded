"""Opens the HTTP library's client: through which proxy, and whose certificates are trusted."""

import ssl
from contextlib import suppress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from patchyard.clients.http_trouble import HttpTrouble, Trouble
from patchyard.clients.waits import Waits

UNUSABLE = "the proxy that the environment names cannot be used"


def connected(base_url: str, waits: Waits, *, has_proxies: bool) -> httpx2.AsyncClient:
    """Return a client for one address; the environment's proxies count with `has_proxies`.

    Raises HttpTrouble where a proxy or a file of certificates cannot be used.
    """
    timeout = httpx2.Timeout(waits.first_byte_s, connect=waits.connect_s, pool=waits.connect_s)
    trusted = _trusted(base_url)
    with suppress(ValueError, httpx2.InvalidURL):  # no causes: their words may hold a password
        try:
            return httpx2.AsyncClient(timeout=timeout, trust_env=has_proxies, verify=trusted)
        except ImportError:  # a proxy speaks SOCKS; it may not be the one that counts here
            own = _own_proxy(base_url)
        if own is not None:
            return httpx2.AsyncClient(
                timeout=timeout, trust_env=False, verify=trusted, proxy=own or None
            )
        raise HttpTrouble(Trouble.PROXY, f"{UNUSABLE}: SOCKS is not spoken")
    raise HttpTrouble(Trouble.PROXY, f"{UNUSABLE}: it is no address")


def _own_proxy(base_url: str) -> str | None:
    """Return the proxy of the address's own scheme, empty for none, None where it speaks SOCKS."""
    place = urlsplit(base_url)
    if proxy_bypass(place.netloc):
        return ""
    proxies = getproxies()
    own = proxies.get(place.scheme) or proxies.get("all", "")
    if own.startswith("socks"):
        return None
    return own if "://" in own or not own else f"http://{own}"


def _trusted(base_url: str) -> ssl.SSLContext:
    """Return whose certificates are trusted; for an address without TLS nobody's, which is quick.

    Raises HttpTrouble.
    """
    if not base_url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        raise HttpTrouble(
            Trouble.TLS, f"the file that SSL_CERT_FILE names cannot be used: {error}"
        ) from error


__all__ = ["connected"]
