"""Hosts written in one way only, and what kind of address a name leads to. Pure."""

import ipaddress
import re
from enum import StrEnum

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # what resolvers read as a part of an IPv4 address
HOST_CHARS = 253
LAST_PORT = 65_535

# Where clouds hand out a machine's own credentials; several lie outside of 169.254.0.0/16.
METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
UNUSUAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "fec0::/10"))
)
"""Never public, whatever this Python's own lists say (RFC 6890, 7526, 9637, 3879)."""
TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class Nearness(StrEnum):
    """How near to this machine an address is."""

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    LINK = "link-local"  # neighbours, and the metadata services of clouds
    NONE = "unusable"  # nobody's: multicast, unspecified, reserved


class Misnamed(ValueError):
    """A host or a port that is not written as it must be; the text says why."""


def host_of(text: str) -> str:
    """Return a host in its one spelling: small letters, no dot at the end, plain addresses.

    Raises Misnamed for what others could read as another host.
    """
    if not text.isascii():
        raise Misnamed("write an international name in its ASCII form (xn--…)")
    name = text.lower()
    if name.startswith("[") and name.endswith("]"):
        return str(_address(name[1:-1], 6))
    name = name.removesuffix(".")
    labels = name.split(".")
    if NUMBER.fullmatch(labels[-1]):
        return str(_address(name, 4))
    if len(name) > HOST_CHARS or not all(map(LABEL.fullmatch, labels)):
        each = ": there are no wildcards, so name each host" if "*" in name else ""
        raise Misnamed(f"{text[:100]!r} is no host name{each}")
    return name


def _address(text: str, version: int) -> Address:
    try:
        return plain(ipaddress.IPv6Address(text) if version == 6 else ipaddress.IPv4Address(text))
    except ValueError as error:
        said = "four decimal numbers" if version == 4 else "[IPv6], without a zone"
        raise Misnamed(f"{text[:100]!r} is no address: write {said}") from error


def port_of(text: str, *, of: str = "") -> int:
    """Return a port number; `of` is what it stands in, to be named. Raises Misnamed."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= LAST_PORT):
        where = f"{of[:100]!r}: " if of else ""
        raise Misnamed(f"{where}{text[:20]!r} is no port")
    return int(text)


def parted(authority: str) -> tuple[str, int | None]:
    """Return host and port of `HOST[:PORT]`. Raises Misnamed, for a user before an `@` too."""
    match = re.fullmatch(r"(\[[^\[\]@]*\]|[^\[\]:@/?#\s]+)(?::(\d+))?", authority)
    if match is None:
        raise Misnamed(f"{authority[:100]!r} is not HOST[:PORT]")
    return host_of(match[1]), None if match[2] is None else port_of(match[2], of=authority)


def literal(host: str) -> Address | None:
    """Return the address that a host in its one spelling is; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def plain(address: Address) -> Address:
    """Return where an address leads: the IPv4 one where IPv6 only wraps or translates it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.scope_id is not None:
        raise Misnamed("an address with a zone is not taken")
    number = int(address)
    is_translated = any(address in network for network in TRANSLATED)
    is_compatible = 0xFFFF < number <= 0xFFFFFFFF  # ::a.b.c.d, but for ::1 and its likes
    if is_translated or is_compatible:
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def nearness(address: Address) -> Nearness:
    """Return how near an address is, whatever it is wrapped in."""
    address = plain(address)
    if address in METADATA or address.is_link_local:
        return Nearness.LINK
    if address.is_loopback:
        return Nearness.LOOPBACK
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        return Nearness.NONE
    if isinstance(address, ipaddress.IPv4Address) and address.packed[0] == 0:
        return Nearness.NONE  # Linux takes 0.0.0.0/8 for itself
    is_public = address.is_global and not any(address in network for network in UNUSUAL)
    return Nearness.PUBLIC if is_public else Nearness.PRIVATE


def shown(host: str) -> str:
    """Return a host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


__all__ = [
    "HOST_CHARS",
    "LABEL",
    "LAST_PORT",
    "METADATA",
    "NUMBER",
    "TRANSLATED",
    "UNUSUAL",
    "Address",
    "Misnamed",
    "Nearness",
    "host_of",
    "literal",
    "nearness",
    "parted",
    "plain",
    "port_of",
    "shown",
]
