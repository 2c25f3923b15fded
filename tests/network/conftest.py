"""Hosts with a certificate of the tests' own."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from models.certificates import served_as
from network.hosts import Host, hosting


@dataclass(frozen=True)
class Authority:
    """A certificate for `localhost` that signs itself."""

    file: Path
    server: ssl.SSLContext

    @property
    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.file))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    file, context = served_as("localhost", tmp_path_factory.mktemp("certificate"))
    return Authority(file, context)


@pytest.fixture
def secure(authority: Authority) -> Iterator[Host]:
    """A host that speaks TLS as `localhost`."""
    with hosting(authority.server) as host:
        yield host


@pytest.fixture
def plain() -> Iterator[Host]:
    """A host that speaks HTTP without TLS."""
    with hosting() as host:
        yield host
