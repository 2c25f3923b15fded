"""What was once downloaded, kept by its content's hash, and index pages for when nobody answers."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from patchyard.toolbox.wire import loaded

KEPT_BY = ("sha512", "sha384", "sha256")  # hashes strong enough to be a name, best first
CHECKED = (*KEPT_BY, "sha1", "md5")  # hashes that a download is compared with
LIMIT_BYTES = 5 * 1024**3  # of all kept files; the longest unused go first
PIECE = 1024 * 1024


class Mismatch(Exception):
    """The content is not what its index said."""


@dataclass(frozen=True, kw_only=True)
class KeptPage:
    """An index page as it was last read."""

    content_type: str
    url: str
    etag: str | None
    body: bytes


class Receiving:
    """One file on its way in: hashed while it is written, kept only if it is what was said."""

    def __init__(self, place: Path, target: Path | None, hashes: Mapping[str, str]) -> None:
        self._place = place
        self._target = target
        self._wanted = {name: value.lower() for name, value in hashes.items() if name in CHECKED}
        self._made = {name: hashlib.new(name, usedforsecurity=False) for name in self._wanted}
        self._file = place.open("xb")

    def write(self, piece: bytes) -> None:
        """Add a piece."""
        self._file.write(piece)
        for made in self._made.values():
            made.update(piece)

    def finish(self) -> None:
        """Check the whole and keep it. Raises Mismatch."""
        self._file.close()
        for name, made in self._made.items():
            if made.hexdigest() != self._wanted[name]:
                raise Mismatch(f"its {name} is not the one that the index states")
        if self._target is not None:
            self._target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._place.replace(self._target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._place.unlink(missing_ok=True)


class Downloads:
    """A folder of kept files and pages. Safe for several processes: names are made at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, hashes: Mapping[str, str]) -> Path | None:
        """Return the kept file of that content, read and compared; a damaged one is dropped."""
        named = _name(hashes)
        if named is None:
            return None
        algorithm, digest = named
        path = self._path(algorithm, digest)
        try:
            with path.open("rb") as file:
                made = hashlib.file_digest(file, algorithm).hexdigest()
        except OSError:
            return None
        if made != digest:
            path.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return path

    def receive(self, hashes: Mapping[str, str]) -> Receiving:
        """Open a file to be received; without a strong hash it is checked and not kept."""
        named = _name(hashes)
        target = self._path(*named) if named else None
        return Receiving(self._incoming(), target, hashes)

    def _incoming(self) -> Path:
        folder = self._folder / "incoming"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder / secrets.token_hex(8)

    def page(self, key: str) -> KeptPage | None:
        """Return the page kept under `key`."""
        try:
            head, _, body = self._page(key).read_bytes().partition(b"\n")
            facts: dict[str, Any] = loaded(head)
            return KeptPage(
                content_type=facts["content_type"], url=facts["url"], etag=facts["etag"], body=body
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep_page(self, key: str, page: KeptPage) -> None:
        """Keep a page under `key`, in place of an older one."""
        facts = {"content_type": page.content_type, "url": page.url, "etag": page.etag}
        target = self._page(key)
        with Receiving(self._incoming(), target, {}) as receiving:
            receiving.write(json.dumps(facts).encode() + b"\n" + page.body)
            receiving.finish()

    def prune(self, *, limit_bytes: int = LIMIT_BYTES) -> int:
        """Drop the longest unused files above the limit; return the bytes that went."""
        found = sorted(self._files(), key=lambda entry: entry[0], reverse=True)
        total = gone = 0
        for _, size, path in found:
            total += size
            if total > limit_bytes:
                path.unlink(missing_ok=True)
                gone += size
        return gone

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._folder.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file():
                    found = path.stat()
                    yield found.st_mtime, found.st_size, path

    def _path(self, algorithm: str, digest: str) -> Path:
        return self._folder / algorithm / digest[:2] / digest

    def _page(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode()).hexdigest()
        return self._folder / "pages" / digest[:2] / digest


def _name(hashes: Mapping[str, str]) -> tuple[str, str] | None:
    for algorithm in KEPT_BY:
        digest = hashes.get(algorithm, "").lower()
        if len(digest) == hashlib.new(algorithm).digest_size * 2 and _is_hex(digest):
            return algorithm, digest
    return None


def _is_hex(text: str) -> bool:
    return all(letter in "0123456789abcdef" for letter in text)


__all__ = [
    "CHECKED",
    "KEPT_BY",
    "LIMIT_BYTES",
    "PIECE",
    "Downloads",
    "KeptPage",
    "Mismatch",
    "Receiving",
]
