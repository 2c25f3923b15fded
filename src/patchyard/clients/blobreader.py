"""Reads many blobs of a store through one git cat-file."""

import subprocess
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Self, cast

from patchyard.clients.git import Git
from patchyard.clients.treewriter import CHUNK_BYTES
from patchyard.domain.errors import WorkFailed


class BlobReader:
    """A running cat-file; a context manager. One blob is read at a time, to its end."""

    def __init__(self, git: Git) -> None:
        """Start it; `git` looks at the store."""
        self._process = subprocess.Popen(
            git.command(["cat-file", "--batch"]),
            stdin=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for us
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=git.home,
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
        """Yield the content of a blob in pieces. Raises WorkFailed when it is not there."""
        left = self._begin(blob)
        while left:
            piece = self._out.read(min(CHUNK_BYTES, left))
            if not piece:
                raise WorkFailed(f"git cat-file ended inside {blob}")
            left -= len(piece)
            yield piece
        self._out.read(1)

    def content(self, blob: str) -> bytes:
        """Return the content of a blob. Raises WorkFailed when it is not there."""
        return b"".join(self.chunks(blob))

    def _begin(self, blob: str) -> int:
        try:
            self._in.write(f"{blob}\n".encode())
            self._in.flush()
        except BrokenPipeError:
            raise WorkFailed(f"git cat-file ended before {blob}") from None
        head = self._out.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            raise WorkFailed(
                f"our store has no blob {blob}", hint="it was deleted there; begin the task anew"
            )
        return int(head[2])


__all__ = ["BlobReader"]
