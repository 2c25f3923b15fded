"""Reads many blobs of a store through one git cat-file."""

import itertools
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from patchyard.clients.deaths import FREE_MEMORY, death
from patchyard.clients.git import Git
from patchyard.clients.sparse_files import CHUNK_BYTES
from patchyard.domain.errors import PatchyardError, Unavailable, WorkFailed

AHEAD = 64  # blobs that are asked for at once: their names fit a pipe that nobody empties


def batched(items: Iterable[str], size: int) -> Iterator[Sequence[str]]:
    """Yield them in pieces of `size`."""
    rest = iter(items)
    while piece := list(itertools.islice(rest, size)):
        yield piece


class BlobReader:
    """A running cat-file; a context manager. One blob is read at a time, to its end."""

    def __init__(self, git: Git, *, cwd: Path | None = None) -> None:
        """Start it; `git` looks at the store, which without a `git_dir` is that of `cwd`."""
        self._process = subprocess.Popen(
            git.streaming().command(["cat-file", "--batch"]),
            stdin=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for us
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd or git.home,
            env=git.environment(),
        )
        self._in = cast("IO[bytes]", self._process.stdin)  # both were asked for
        self._out = cast("IO[bytes]", self._process.stdout)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def chunks(self, blob: str) -> Iterator[bytes]:
        """Yield the content of a blob in pieces. Raises WorkFailed when it is not there.

        Raises Unavailable where git was killed.
        """
        yield from self._rest(self._begin(blob), blob)

    def sized(self, blob: str) -> tuple[int, Iterator[bytes]]:
        """Return the bytes of a blob and its content in pieces, which have to be taken.

        Raises WorkFailed when it is not there.
        """
        size = self._begin(blob)
        return size, self._rest(size, blob)

    def content(self, blob: str) -> bytes:
        """Return the content of a blob. Raises WorkFailed when it is not there."""
        return b"".join(self.chunks(blob))

    def contents(self, blobs: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield blobs with their contents, in their order; several are asked for ahead.

        Raises WorkFailed when one is not there. All of them have to be taken.
        """
        for some in batched(blobs, AHEAD):
            self._ask(some)
            for blob in some:
                size = self._head(blob)
                content = self._out.read(size)
                if len(content) != size or not self._out.read(1):
                    raise self._ended(f"inside {blob}")
                yield blob, content

    def ahead(self, blobs: Iterable[str]) -> Iterator[Iterator[bytes]]:
        """Yield for each blob its content in pieces; several are asked for ahead.

        Raises WorkFailed when one is not there. Each content has to be taken before the next.
        """
        for some in batched(blobs, AHEAD):
            self._ask(some)
            for blob in some:
                yield self._rest(self._head(blob), blob)

    def _begin(self, blob: str) -> int:
        self._ask([blob])
        return self._head(blob)

    def _rest(self, left: int, blob: str) -> Iterator[bytes]:
        while left:
            piece = self._out.read(min(CHUNK_BYTES, left))
            if not piece:
                raise self._ended(f"inside {blob}")
            left -= len(piece)
            yield piece
        self._out.read(1)

    def _ask(self, blobs: Sequence[str]) -> None:
        try:
            self._in.write("".join(f"{blob}\n" for blob in blobs).encode())
            self._in.flush()
        except BrokenPipeError:
            raise self._ended(f"before {blobs[0]}") from None

    def _ended(self, where: str) -> PatchyardError:
        """Return the error for a git that ended too early: Unavailable where it was killed."""
        code = self._process.wait()
        if words := death(code):
            return Unavailable(f"git cat-file {words} {where}", hint=FREE_MEMORY)
        return WorkFailed(f"git cat-file ended {where}")

    def _head(self, blob: str) -> int:
        head = self._out.readline().split()
        if not head:
            raise self._ended(f"before {blob}")
        if len(head) != 3 or head[1] != b"blob":
            raise WorkFailed(
                f"our store has no blob {blob}", hint="it was deleted there; begin the task anew"
            )
        return int(head[2])


__all__ = ["AHEAD", "BlobReader", "batched"]
