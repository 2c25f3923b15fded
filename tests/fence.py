"""Keeps a test on this machine: its sockets reach loopback and local ones, nothing else."""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["WorldReachedError", "fence"]


class WorldReachedError(RuntimeError):
    """A test reached beyond loopback; mark it with the service that it needs."""


def _is_near(family: int, address: object) -> bool:
    if family not in {socket.AF_INET, socket.AF_INET6} or not isinstance(address, tuple):
        return True
    host = str(address[0])
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuses what leads away, until the monkeypatch is undone."""

    def guarded(method: str) -> Callable[..., Any]:
        real = getattr(socket.socket, method)

        def reach(self: socket.socket, *arguments: Any) -> Any:
            if not _is_near(self.family, arguments[-1]):
                raise WorldReachedError(f"{method} to {arguments[-1]}")
            return real(self, *arguments)

        return reach

    for method in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, method, guarded(method))
