"""Writes a tree into a store of ours as changes to another tree, through one git fast-import.

Contents arrive as bytes or descriptors, never as paths; no filter, index or work tree takes part.
"""

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn, Self, cast

from patchyard.clients.git import Git, failure
from patchyard.clients.locks import locked
from patchyard.clients.sparse_files import pieces
from patchyard.domain.errors import WorkFailed

SHA1_HEX = 40


class ChangedMeanwhile(WorkFailed):
    """A file shrank while it was read; try again."""

    code = "changed_meanwhile"
    retryable = True


def hash_blob(size: int, chunks: Iterable[bytes], *, like: str) -> str:
    """Return the id git gives a blob of these bytes, in the hash that the id `like` has."""
    digest = hashlib.new("sha1" if len(like) == SHA1_HEX else "sha256", usedforsecurity=False)
    digest.update(b"blob %d\0" % size)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def chunks_of(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield exactly `size` bytes from the start of a file. Raises WorkFailed when it shrank."""
    return whole_chunks(pieces(descriptor, until=size), size)


def whole_chunks(content: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield what has to be `size` bytes in all. Raises WorkFailed where it is fewer."""
    left = size
    for piece in content:
        left -= len(piece)
        yield piece
    if left:
        raise ChangedMeanwhile


def quote(path: str) -> bytes:
    """Return a path as fast-import reads it."""
    raw = os.fsencode(path)
    raw = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + raw + b'"'


class TreeWriter:
    """One tree being written. Leave it by `finish`, or by the context manager on failure."""

    def __init__(self, git: Git, tree: str) -> None:
        """Begin with `tree`; `git` looks at the store."""
        self._tree = tree
        self._git_dir = git.git_dir
        self._err: IO[bytes] = os.fdopen(os.memfd_create("fast-import"), "w+b")
        self._process = subprocess.Popen(
            git.streaming().command(["fast-import", "--quiet", "--done", "--date-format=raw"]),
            stdin=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for us
            stdout=subprocess.PIPE,
            stderr=self._err,
            cwd=git.home,
            env=git.environment(),
            umask=0o022,
        )
        self._in = cast("IO[bytes]", self._process.stdin)  # both were asked for
        self._out = cast("IO[bytes]", self._process.stdout)
        self._ref = f"refs/patchyard/{os.getpid()}-{id(self):x}-{os.urandom(4).hex()}"
        self._send(
            f"commit {self._ref}\ncommitter p <p@localhost> 0 +0000\ndata 0\n"
            f"M 040000 {tree} \n".encode()
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process if it still runs and close what is open."""
        begun = []
        if self._process.poll() is None:
            begun = self._packs_begun()
            self._process.kill()
        self._process.wait()
        for place in begun:
            place.unlink(missing_ok=True)
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        self._out.close()
        self._err.close()

    def _packs_begun(self) -> list[Path]:
        """Return the packs without a name that git has open: killed over one it leaves it."""
        found = []
        for link in Path("/proc", str(self._process.pid), "fd").glob("*"):
            with contextlib.suppress(OSError):
                place = link.readlink()
                if place.name.startswith("tmp_pack_") and place.parent.name == "pack":
                    found.append(place)
        return found

    def delete(self, path: str) -> None:
        """Take a file or a whole folder out. Deletions come before what is put."""
        self._send(b"D " + quote(path) + b"\n")

    def link(self, path: str, mode: str, object_id: str) -> None:
        """Put an object that the store already has (or a submodule's commit) at `path`."""
        self._send(f"M {mode} {object_id} ".encode() + quote(path) + b"\n")

    def put(self, path: str, mode: str, size: int, chunks: Iterable[bytes]) -> str:
        """Put bytes at `path` and return their id, computed by us."""
        self._send(f"M {mode} inline ".encode() + quote(path) + b"\ndata %d\n" % size)
        return hash_blob(size, self._passed(chunks, b"\n"), like=self._tree)

    def finish(self) -> str:
        """End and return the tree's id. Raises WorkFailed when git did not take everything."""
        self._send(b'ls ""\n')
        with self._naming():
            self._send(f"reset {self._ref}\nfrom {'0' * len(self._tree)}\n\ndone\n".encode())
            try:
                self._in.close()
            except BrokenPipeError:
                self._fail()
            answer = self._out.read().split()
            if self._process.wait() != 0 or not answer:
                self._fail()
        if answer[0] == b"missing":
            return empty_tree(like=self._tree)
        return answer[2].decode("ascii")

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Let git give its pack a name while nobody else does.

        For that moment it marks the name with a file, and refuses one that is marked: by somebody
        who wrote the same objects just now, or by one who was killed over it.
        """
        if self._git_dir is None:
            yield
            return
        with locked(self._git_dir / "naming.lock"):
            for left in (self._git_dir / "objects" / "pack").glob("*.keep"):
                left.unlink(missing_ok=True)  # a protection from repacking, which we never do
            yield

    def _passed(self, chunks: Iterable[bytes], last: bytes) -> Iterator[bytes]:
        for chunk in chunks:
            self._send(chunk)
            yield chunk
        self._send(last)

    def _send(self, data: bytes) -> None:
        try:
            self._in.write(data)
        except BrokenPipeError:
            self._fail()

    def _fail(self) -> NoReturn:
        code = self._process.wait()
        if self._git_dir is not None:
            (self._git_dir / f"fast_import_crash_{self._process.pid}").unlink(missing_ok=True)
        self._err.seek(0)
        raise failure(["fast-import"], code, self._err.read().decode("utf-8", "replace"))


def empty_tree(*, like: str) -> str:
    """Return the id of the tree without entries."""
    kind = "sha1" if len(like) == SHA1_HEX else "sha256"
    return hashlib.new(kind, b"tree 0\0", usedforsecurity=False).hexdigest()


__all__ = [
    "SHA1_HEX",
    "ChangedMeanwhile",
    "TreeWriter",
    "chunks_of",
    "empty_tree",
    "hash_blob",
    "quote",
    "whole_chunks",
]
