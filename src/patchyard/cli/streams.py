"""The standard streams of `agents mcp serve`: lines of bounded length, answers that are taken.

The protocol's library reads lines of any length, answers none that is no message of JSON-RPC, and
reads on while its answers are not taken.
"""

import contextlib
import fcntl
import json
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping

import anyio
from anyio import to_thread

from patchyard.domain.errors import Unavailable
from patchyard.toolbox.wire import has_many_parts, loaded

LONGEST_LINE = 4 * 1024 * 1024  # bytes
UNREAD_S = 300.0  # that an answer may wait until the client takes it
PIECE_BYTES = 64 * 1024
PARSE_ERROR, INVALID_REQUEST = -32700, -32600  # of JSON-RPC 2.0


class Answers:
    """What the client is told: one line at a time, each written whole."""

    def __init__(self, descriptor: int) -> None:
        """Write to an open file, which may block."""
        self._descriptor = descriptor
        self._turn = anyio.Lock()

    async def write(self, text: str) -> None:
        """Write `text`. Raises OSError, Unavailable where the client takes nothing for UNREAD_S."""
        content = text.encode("utf-8", "replace")
        async with self._turn:
            with anyio.move_on_after(UNREAD_S) as limit:
                await to_thread.run_sync(self._written, content, abandon_on_cancel=True)
        if limit.cancelled_caught:
            raise Unavailable(
                f"the MCP client has not read its answers for {UNREAD_S:.0f} s",
                hint="start it again; `agents plan list` shows the plans, which can be resumed",
            )

    async def flush(self) -> None:
        """Do nothing: what was written is written."""

    async def taken(self) -> None:
        """Wait until nothing is being written."""
        async with self._turn:
            pass

    def _written(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[os.write(self._descriptor, left) :]


class Requests:
    """The lines that a client sends; one that is no request is answered here and passed over."""

    def __init__(
        self, descriptor: int, answers: Answers, *, takes: Callable[[str], object] = str
    ) -> None:
        """Read an open file, which may block; `takes` raises ValueError for what is no message."""
        self._takes = takes
        self._descriptor = descriptor
        self._answers = answers
        self._read = bytearray()
        self._is_over = False

    def __aiter__(self) -> "Requests":
        """Return itself: there is one reader."""
        return self

    async def __anext__(self) -> str:
        """Return the next line that is a message. Nothing is read while an answer waits."""
        while True:
            await self._answers.taken()
            line = await self._line()
            text = line[: LONGEST_LINE + 1].decode("utf-8", "replace")
            wrong = _wrong(line, text, self._takes)
            if wrong is None:
                return text
            code, message, asked = wrong
            error = {"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": message}}
            await self._answers.write(f"{json.dumps(error)}\n")

    async def _line(self) -> bytes:
        """Return the next line, of one that is too long its beginning: more than LONGEST_LINE."""
        looked, beginning = 0, b""
        while True:
            end = self._read.find(b"\n", looked)
            if end >= 0 or (self._is_over and self._read):
                end = len(self._read) if end < 0 else end
                line = beginning or bytes(self._read[:end])
                del self._read[: end + 1]
                return line
            if self._is_over:
                raise StopAsyncIteration
            if len(self._read) > LONGEST_LINE:
                beginning = beginning or bytes(self._read)
                self._read.clear()
            looked = len(self._read)
            piece = await to_thread.run_sync(
                os.read, self._descriptor, PIECE_BYTES, abandon_on_cancel=True
            )
            self._is_over = not piece
            self._read += piece


def _wrong(
    line: bytes, text: str, takes: Callable[[str], object]
) -> tuple[int, str, int | str | None] | None:
    """Return JSON-RPC's code, words and id for a line that is no message, None for one."""
    if len(line) > LONGEST_LINE:
        return INVALID_REQUEST, f"a line may have {LONGEST_LINE} bytes", None
    if has_many_parts(line, text):
        return INVALID_REQUEST, "it has too many values", None
    try:
        value = loaded(text)
    except ValueError as error:
        return PARSE_ERROR, f"it is not JSON: {error}", None
    if not isinstance(value, dict):
        return INVALID_REQUEST, "it is no JSON object", None
    return _no_message(value, text, takes)


def _no_message(
    value: Mapping[str, object], text: str, takes: Callable[[str], object]
) -> tuple[int, str, int | str | None] | None:
    """Return the same for an object that is no message; the id is that of a request alone."""
    asked = value.get("id") if "method" in value else None
    said = isinstance(asked, int | str) and not isinstance(asked, bool)
    if "method" in value and "id" in value and not said:
        return INVALID_REQUEST, f"an id is a string or an integer, not {reprlib.repr(asked)}", None
    try:
        takes(text)
    except ValueError:
        why = "it is no message of JSON-RPC 2.0: an object as `params`, and no half of a surrogate"
        return INVALID_REQUEST, why, asked if isinstance(asked, int | str) else None
    return None


@contextlib.contextmanager
def taken_over() -> Iterator[tuple[int, int]]:
    """Yield descriptors of standard input and output; meanwhile no other code reaches these.

    Whatever reads standard input finds its end, and what is printed goes to standard error.
    """
    own = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1)]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield own[0], own[1]
    finally:
        for number, kept in enumerate(own):
            os.dup2(kept, number)
            os.close(kept)


__all__ = ["LONGEST_LINE", "UNREAD_S", "Answers", "Requests", "taken_over"]
