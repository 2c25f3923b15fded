"""What settings say of the network and of secrets, each None where nothing is said."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from patchyard.domain.addresses import Misnamed
from patchyard.domain.faults import Fault, Place, check_keys, kind_of
from patchyard.domain.network import GATEWAY, rule_of, secret_of
from patchyard.domain.sizes import bytes_of
from patchyard.domain.texts import texts_of

KEYS = ("allow_hosts", "max_call_bytes", "max_connections", "max_plan_bytes", "planning")


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """One place's say; None is "not said"."""

    allow_hosts: tuple[str, ...] | None = None
    planning: bool | None = None
    max_connections: int | None = None
    max_call_bytes: int | None = None
    max_plan_bytes: int | None = None


def network_of(value: Any, place: Place) -> NetworkSettings:
    """Return what a mapping says. Raises Fault with the place."""
    body = check_keys(value, place, KEYS)
    hosts = texts_of(body, "allow_hosts", place) if "allow_hosts" in body else None
    planning = body.get("planning")
    if planning is not None and not isinstance(planning, bool):
        raise Fault((*place, "planning"), f"must be true or false, not {kind_of(planning)}")
    connections = body.get("max_connections")
    if connections is not None and (type(connections) is not int or connections < 1):
        raise Fault((*place, "max_connections"), "must be a whole number, 1 or more")
    sizes = {
        key: bytes_of(body[key], (*place, key))
        for key in KEYS
        if key.endswith("_bytes") and key in body
    }
    for number, text in enumerate(hosts or ()):
        _checked(rule_of, text, (*place, "allow_hosts", number))
    return NetworkSettings(
        allow_hosts=hosts, planning=planning, max_connections=connections, **sizes
    )


def secrets_of(value: Any, place: Place) -> tuple[str, ...]:
    """Return the secrets that a list says. Raises Fault with the place."""
    said = texts_of({"secrets": value}, "secrets") or ()
    for number, text in enumerate(said):
        _checked(secret_of, text, (*place, number))
    return said


def _checked(parse: Callable[[str], object], text: str, place: Place) -> None:
    if GATEWAY.fullmatch(text) and parse is rule_of:
        return
    try:
        parse(text)
    except Misnamed as error:
        raise Fault(place, str(error)) from error


__all__ = ["KEYS", "NetworkSettings", "network_of", "secrets_of"]
