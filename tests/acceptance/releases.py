"""Published releases for the acceptance tests: fetched through our own gateways, unpacked."""

import asyncio
import hashlib
import io
import json
import os
import socket
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from ruamel.yaml import YAML

from patchyard.clients.gateways import IndexGateways
from patchyard.clients.pypi import JSON_TYPE
from patchyard.domain.carrying import NetworkBounds

__all__ = ["PACKAGES", "Release", "fetch", "fetch_all", "packages", "unpack"]

PACKAGES = Path(__file__).with_name("packages.yaml")


@dataclass(frozen=True, kw_only=True)
class Release:
    """A package at the release with the bug, and all that the test does with it."""

    name: str
    index: str  # pypi or npm
    before: str
    after: str
    package: str  # the folder that has to come out as in the later release
    tests: tuple[str, ...]  # what the base takes from the later release
    setup: tuple[str, ...]
    validate: str
    fails: tuple[str, ...]  # said by the proof on the base
    task: str
    conversation: tuple[Any, ...]
    version_file: str = ""  # where the version number may differ
    least_files: int = 1
    beside: tuple[str, ...] = ()  # packages that the base holds, for places without setup
    look: str = ""  # the command that runs the tests with them
    glance: str = ""  # one that needs none of them and next to no time


def packages() -> list[Release]:
    """The packages of the list."""
    rows = YAML(typ="safe", pure=True).load(PACKAGES.read_text(encoding="utf-8"))
    return [_release_of(row) for row in rows]


def _release_of(row: Mapping[str, Any]) -> Release:
    settled: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
    return Release(**settled)


async def fetch(release: Release, folder: Path) -> tuple[Path, Path]:
    """Fetch both releases into `folder`; the paths of their trees."""
    wanted = [(release.name, release.before), (release.name, release.after)]
    before, after = await fetch_all(release.index, wanted, folder)
    return before, after


async def fetch_all(index: str, wanted: Iterable[tuple[str, str]], folder: Path) -> list[Path]:
    """Fetch packages of one index by name and version; the paths of their trees."""
    gateways = IndexGateways(os.environ)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        root = f"http://127.0.0.1:{port}/{index}"
        async with gateways.serve_indexes(listener.dup(), port=port, bounds=NetworkBounds()):
            return [
                await asyncio.to_thread(_fetched, root, index, name, version, folder)
                for name, version in wanted
            ]


def _fetched(root: str, index: str, name: str, version: str, folder: Path) -> Path:
    archive = _sdist if index == "pypi" else _tarball
    target = folder / name / version
    unpack(archive(root, name, version), target)
    return target


def _sdist(root: str, name: str, version: str) -> bytes:
    page = json.loads(_get(f"{root}/simple/{name}/", {"accept": JSON_TYPE}))
    found = [f for f in page["files"] if f["filename"].lower() == f"{name}-{version}.tar.gz"]
    data = _get(found[0]["url"], {})
    assert hashlib.sha256(data).hexdigest() == found[0]["hashes"]["sha256"]
    return data


def _tarball(root: str, name: str, version: str) -> bytes:
    document = json.loads(_get(f"{root}/{name}", {"accept": "application/json"}))
    return _get(document["versions"][version]["dist"]["tarball"], {})


def _get(url: str, headers: Mapping[str, str]) -> bytes:
    answer = httpx2.get(url, headers=dict(headers), timeout=60, trust_env=False)
    return answer.raise_for_status().content


def unpack(data: bytes, target: Path) -> None:
    """Unpack an archive that has all in one folder, without that folder."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [m for m in archive.getmembers() if m.isfile()]
        for member in members:
            member.name = member.name.partition("/")[2]
        # Debian 12 has Python 3.11.2, whose tarfile knows no filters
        filters: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        named = [member for member in members if member.name]
        archive.extractall(target, members=named, **filters)  # noqa: S202 - files alone, by hash
