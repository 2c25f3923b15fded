"""The npm registry as data: names, metadata documents, their tarballs. No I/O."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from patchyard.toolbox.wire import loaded

SHORT_TYPE = "application/vnd.npm.install-v1+json"
ACCEPT_SHORT = f"{SHORT_TYPE}; q=1.0, application/json; q=0.8"
ACCEPT_FULL = "application/json"
_PART = r"[A-Za-z0-9~_-][A-Za-z0-9~._-]*"
NAME = re.compile(rf"(?:@{_PART}/)?{_PART}")
TARBALL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._+~-]*\.(?:tgz|tar\.gz)")


@dataclass(frozen=True, kw_only=True)
class Tarball:
    """The one file of one version."""

    url: str = field(repr=False)
    hashes: Mapping[str, str] = field(default_factory=dict)  # algorithm to hex digest


class Unreadable(ValueError):
    """A document that is no package metadata."""


def scope_of(name: str) -> str | None:
    """Return the scope of a name with its @, or None."""
    return name.partition("/")[0] if name.startswith("@") else None


def read_document(body: bytes) -> tuple[dict[str, Any], dict[str, Tarball]]:
    """Return a package's document and its tarballs by file name. Raises Unreadable."""
    try:
        document = loaded(body)
        versions = dict(document["versions"])
        found = {}
        for version in versions.values():
            dist = version["dist"]
            filename = tarball_name(str(dist["tarball"]))
            found[filename] = Tarball(url=str(dist["tarball"]), hashes=_hashes(dist))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable("no metadata of a package") from error
    return document, found


def tarball_name(url: str) -> str:
    """Return the file name that ends an address."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def write_document(document: Mapping[str, Any], *, folder: str) -> bytes:
    """Return the document with each tarball linked below `folder`, an address without its slash."""
    versions = {}
    for number, version in document["versions"].items():
        dist = dict(version["dist"])
        dist["tarball"] = f"{folder}/{tarball_name(str(dist['tarball']))}"
        versions[number] = {**version, "dist": dist}
    return json.dumps({**document, "versions": versions}).encode()


def _hashes(dist: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for part in str(dist.get("integrity") or "").split():
        algorithm, _, encoded = part.partition("-")
        try:
            found[algorithm] = base64.b64decode(encoded, validate=True).hex()
        except binascii.Error:
            continue
    if dist.get("shasum"):
        found.setdefault("sha1", str(dist["shasum"]))
    return found


__all__ = [
    "ACCEPT_FULL",
    "ACCEPT_SHORT",
    "NAME",
    "SHORT_TYPE",
    "TARBALL",
    "Tarball",
    "Unreadable",
    "read_document",
    "scope_of",
    "tarball_name",
    "write_document",
]
