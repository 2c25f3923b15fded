"""The protocol between engine and toolbox: frames of JSON over one stream, and the names in them.

The lowest layer of all: it knows neither what an operation does nor where a peer lives. Each frame
is a 4-byte big-endian length and a JSON object in ASCII; bytes that are not UTF-8 travel as lone
surrogates (`surrogateescape`), so that paths and output survive exactly.

Engine to toolbox, by `do`: `hello`, `call` (call_id, op, args, is_listening), `attach` (call_id,
is_listening), `cancel` (call_id), `forget` (call_ids), `listen`, `set_variables` (variables: of
commands, by what started it, before the first call), `end`. Toolbox to engine, by
`say`: `hello` (protocol, pid, python, shell, calls, walls), `output` (call_id, stream, text),
`result` (call_id, result), `unknown` (call_id), `listening` (port; the socket travels as ancillary
data on the same frame), `error` (message). Output is streamed unless `is_listening` is false; the
result holds it either way.

A `call` whose call_id the toolbox already knows is an `attach`: it is never run a second time.
"""

from __future__ import annotations

import json
import re
import struct

TYPE_CHECKING = False  # typing's own would cost its import, 2 ms of each start
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 2  # 1 until 0.6: zeros of replicas travelled as bytes
DEEPEST = 100  # levels of what others write; what is honest has a tenth of them
TOO_DEEP = "nested too deep"
HEADER = struct.Struct(">I")
MAX_FRAME_BYTES = 32 * 1024 * 1024
MOST_PARTS = 500_000
"""Texts, commas and brackets in a frame: each value in it takes up to 200 bytes once it is read, so
that without a bound the longest frame takes 1 GB and seconds. An honest one has half of them."""

PART = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[,\[{]', re.DOTALL)
BEGINNINGS = b'",[{'
"""What parts begin with; texts may hold the same."""
PIECE_BYTES = 64 * 1024
"""Of a frame whose parts are counted: a copy of the whole would cost it new pages of memory."""
KEPT_BYTES = 2 * 1024 * 1024
"""Of a connection's room for frames: what it keeps for the next one, so that pages stay its own."""
ROOM_BYTES = 64 * 1024
"""Free at least where bytes are written into the room itself."""
SURROGATE = re.compile(r"\\u[dD]")  # as JSON writes one down
UNPAIRED = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Halves of a pair of surrogates that stand alone and are no byte of `surrogateescape` either: no
encoding has them, so that writing such a text down fails."""
REPLACEMENT = "\ufffd"


class WireError(Exception):
    """The peer sent something that is not a frame of this protocol; close the connection."""


def encode(message: dict[str, Any]) -> bytes:
    """Return `message` as one frame.

    Raises WireError when it would pass MAX_FRAME_BYTES, is nested too deep, or holds what JSON does
    not have: the peer would end the connection, with all that runs behind it.
    """
    try:
        body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")
    except RecursionError as error:
        raise WireError("a frame is nested too deep") from error
    except ValueError as error:
        raise WireError("a number is none (nan, inf)") from error
    except TypeError as error:
        raise WireError("a value is no text, number, list or object: %s" % error) from error
    if len(body) > MAX_FRAME_BYTES:
        raise WireError(
            "a frame of %d bytes is over the limit of %d" % (len(body), MAX_FRAME_BYTES)
        )
    return HEADER.pack(len(body)) + body


class TooDeep(ValueError):
    """JSON that is nested deeper than anything honest."""


def dumped(value: object, *, is_sorted: bool = False) -> str:
    """Return a value as JSON in ASCII, the names in order where asked. Raises TooDeep."""
    try:
        return json.dumps(value, sort_keys=is_sorted, separators=(",", ":"))
    except RecursionError as error:
        raise TooDeep(TOO_DEEP) from error


def loaded(text: str | bytes | bytearray, **how: Any) -> Any:
    """Return what another wrote as JSON; `how` is what `json.loads` takes.

    Raises ValueError for what is no JSON, and TooDeep for what is nested deeper than DEEPEST:
    written down again, or walked through, it would end in a RecursionError somewhere else.
    """
    try:
        value = json.loads(text, **how)
    except RecursionError as error:
        raise TooDeep(TOO_DEEP) from error
    if len(text) > 2 * DEEPEST and is_deeper(value, DEEPEST):
        raise TooDeep(TOO_DEEP)
    return value


def is_deeper(value: object, most: int) -> bool:
    """Whether lists and objects, as `json` reads them, are nested deeper than `most` levels."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


class Decoder:
    """Turns received bytes into messages, whatever the pieces they arrive in."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._end = 0  # of what came; behind it lies what earlier frames left

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Add `data` and return each message that is now whole. Raises WireError on garbage."""
        self._buffer[self._end : self._end + len(data)] = data
        return self.came(len(data))

    def room(self) -> memoryview:
        """Return where the next bytes may be written; to be released before they are told of."""
        if len(self._buffer) - self._end < ROOM_BYTES:
            more = min(len(self._buffer), KEPT_BYTES)  # twice as much, for a frame that is long
            self._buffer.extend(bytes(max(ROOM_BYTES, more)))
        return memoryview(self._buffer)[self._end :]

    def came(self, count: int) -> list[dict[str, Any]]:
        """Take `count` bytes that lie in the room; see `feed`."""
        self._end += count
        messages = []
        start = 0
        with memoryview(self._buffer) as view:
            while self._end - start >= HEADER.size:
                (length,) = HEADER.unpack_from(view, start)
                if length > MAX_FRAME_BYTES:
                    raise WireError("a frame of %d bytes was announced" % length)
                body = start + HEADER.size
                if self._end < body + length:
                    break
                start = body + length
                with view[body:start] as part:
                    messages.append(_parse(part))
        if start:
            self._drop(start)
        return messages

    def _drop(self, count: int) -> None:
        """Forget the first `count` bytes, and room beyond what is kept."""
        rest = self._end - count
        self._buffer[:rest] = self._buffer[count : self._end]
        self._end = rest
        if len(self._buffer) > KEPT_BYTES:
            del self._buffer[max(rest, KEPT_BYTES) :]


def _parse(body: memoryview) -> dict[str, Any]:
    try:
        text = str(body, "ascii")  # of bytes, json would guess the encoding
        if len(body) > MOST_PARTS:
            _require_few(body, text)
        message = _JSON.decode(text)
        if "\\" in text and SURROGATE.search(text):  # the first is known at a thirtieth of the time
            message = _paired(message)
    except (ValueError, RecursionError) as error:
        raise WireError("a frame holds no JSON") from error
    if not isinstance(message, dict):
        raise WireError("a frame holds no JSON object")
    return message


def _require_few(body: memoryview, text: str) -> None:
    """Raise WireError for a frame of more parts than there may be, without reading them all."""
    if has_many_parts(body, text):
        raise WireError("a frame of more than %d values came" % MOST_PARTS)


def has_many_parts(body: bytes | memoryview, text: str) -> bool:
    """Whether JSON, as bytes and as text, has more than MOST_PARTS; not all of them are read.

    A text without an end is one part: looked for again behind each of its quotes, it would take
    the square of its length.
    """
    most = len(body)  # of parts: what is left when bytes that begin none are taken away
    for start in range(0, len(body), PIECE_BYTES):
        most -= len(bytes(body[start : start + PIECE_BYTES]).translate(None, BEGINNINGS))
        if most <= MOST_PARTS:
            return False  # known at a tenth of the time or less: of most frames half are read
    return any(count >= MOST_PARTS for count, _ in enumerate(PART.finditer(text)))


def _finite(text: str) -> float:
    """Return a number; one that a float cannot hold is no number here. Raises ValueError."""
    number = float(text)
    if number - number != 0:
        raise ValueError("%s is no number" % text)
    return number


def _paired(value: Any) -> Any:
    """Return a value whose texts can all be written down."""
    if isinstance(value, str):
        return UNPAIRED.sub(REPLACEMENT, value)
    if isinstance(value, list):
        return [_paired(each) for each in value]
    if isinstance(value, dict):
        return {_paired(name): _paired(each) for name, each in value.items()}
    return value


_JSON = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)


__all__ = [
    "DEEPEST",
    "HEADER",
    "KEPT_BYTES",
    "MAX_FRAME_BYTES",
    "MOST_PARTS",
    "PART",
    "PIECE_BYTES",
    "PROTOCOL",
    "REPLACEMENT",
    "ROOM_BYTES",
    "TOO_DEEP",
    "UNPAIRED",
    "Decoder",
    "TooDeep",
    "WireError",
    "dumped",
    "encode",
    "has_many_parts",
    "is_deeper",
    "loaded",
]
