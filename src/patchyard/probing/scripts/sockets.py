"""Sockets of the machine: by path, by abstract name, and those that services are known by."""

from __future__ import annotations

import socket

from .kit import done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

WAIT_S = 3.0


def by_path(given: Given) -> None:
    """Speak to a socket by its path."""
    speak(given["sockets"]["path"], given)


def abstract(given: Given) -> None:
    """Speak to a socket by its abstract name."""
    speak("\0" + given["sockets"]["abstract"], given)


def datagram(given: Given) -> None:
    """Send to a socket that takes single messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        peer.settimeout(WAIT_S)
        peer.connect("\0" + given["sockets"]["datagram"])
        peer.send(given["token"].encode())


def service(given: Given) -> None:
    """Speak to a service."""
    speak(given["sockets"][given["options"]["service"]], given)


def known_service(given: Given) -> None:
    """As `service`; then look whether a real one can be reached, and say nothing to it."""
    try:
        service(given)
    except OSError as error:
        print("refused: %s" % error, flush=True)
    for path in given["options"]["places"]:
        with socket.socket(socket.AF_UNIX) as peer:
            try:
                peer.connect(path)
            except OSError:
                continue
            done(given, path)


def speak(address: str, given: Given) -> None:
    """Connect, say our token and wait for the answer."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(WAIT_S)
        peer.connect(address)
        peer.sendall(given["token"].encode())
        peer.shutdown(socket.SHUT_WR)
        peer.recv(16)


__all__ = ["WAIT_S", "abstract", "by_path", "datagram", "known_service", "service", "speak"]
