"""Long values of the journal, written and read piece by piece, and compressed.

A change set of 140,000 files is 50 MB of JSON, and several times that as Python values. A value
with a long part is therefore kept as `MARK` and a zlib stream of JSON lines: first the value with
its long parts empty, then for each of these its name and pieces of it, lists or objects of at most
`PIECE` entries. Only one piece is held as JSON at a time. A value without a long part is plain
JSON, as before.
"""

import dataclasses
import hashlib
import itertools
import json
import typing
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from patchyard.contracts.journal import Journal
from patchyard.domain.body import Body
from patchyard.domain.codec import in_full
from patchyard.domain.errors import JournalBroken
from patchyard.domain.meanings import restored

MARK = b"PATCHYARD-PACKED-1\n"  # begins a packed value; no JSON begins so
FEW = 300  # entries of a part that is not long
PIECE = 500  # entries that are JSON at a time
CHUNK_BYTES = 64 * 1024  # unpacked at a time

T = TypeVar("T")
Part = tuple[str, Any]  # a long part's name ("" for the value without them) and a piece of it


@dataclass(frozen=True, kw_only=True)
class PackedBody(Body):
    """A body that is packed and not yet written."""

    data: bytes = field(repr=False)


def packed_body(value: Any) -> Body:
    """Return a record or a mapping for an event, packed where a part of it is long."""
    whole = _fields(value)
    long = {name: part for name, part in whole.items() if _is_long(part)}
    if not long:
        return Body(value=in_full(value))
    rest = {name: part for name, part in whole.items() if name not in long}
    data = b"".join(_packed(rest, long))
    return PackedBody(digest=hashlib.sha256(data).hexdigest(), size=len(data), data=data)


def is_packed(data: bytes) -> bool:
    """Whether a stored body is packed."""
    return data.startswith(MARK)


def value_of(data: bytes) -> Any:
    """Return the whole JSON value of a stored body, packed or not."""
    if not is_packed(data):
        return json.loads(data)
    value: dict[str, Any] = {}
    for name, piece in parts_of(data):
        if not name:
            value = piece
        elif isinstance(piece, dict):
            value[name].update(piece)
        else:
            value[name].extend(piece)
    return value


def parts_of(data: bytes) -> Iterator[Part]:
    """Yield the value without its long parts, then these by pieces, each with its name.

    Raises JournalBroken where that does not fit.
    """
    name = ""
    try:
        for line in _lines(data):
            piece = json.loads(line)
            if isinstance(piece, str):
                name = piece
            else:
                yield name, piece
    except (ValueError, RecursionError, zlib.error) as error:
        raise JournalBroken(f"a packed value of the journal cannot be read: {error}") from error


def record_of(record: type[T], data: bytes) -> T:
    """Return the record that was packed, or kept as JSON. Raises JournalBroken where none fits."""
    if not is_packed(data):
        return restored(record, json.loads(data))
    made: T | None = None
    long: dict[str, list[Any]] = {}
    before: dict[str, Any] = {}
    for name, piece in parts_of(data):
        if made is None:
            made = restored(record, piece)
        elif name in (kinds := _kinds(record)):
            shared = [_shared(each, before) for each in piece]
            long.setdefault(name, []).extend(restored(kinds[name], each) for each in shared)
        else:
            raise JournalBroken(f"{record.__name__} has no long part {name}")
    if made is None:
        raise JournalBroken(f"a packed {record.__name__} of the journal is empty")
    parts: dict[str, Any] = {name: tuple(items) for name, items in long.items()}
    whole: T = dataclasses.replace(typing.cast("Any", made), **parts)
    return whole


async def parts_of_body(journal: Journal, body: Body) -> Iterator[Part]:
    """Return the parts of the value of `body`; one that is not packed is one part."""
    data = await data_of(journal, body)
    if data is not None and is_packed(data):
        return parts_of(data)
    return iter([("", body.value if data is None else json.loads(data))])


async def data_of(journal: Journal, body: Body) -> bytes | None:
    """Return what is stored of `body`, None where it is inline."""
    if isinstance(body, PackedBody):
        return body.data
    return None if body.digest is None else await journal.body(body.digest)


def _packed(rest: Mapping[str, Any], long: Mapping[str, Any]) -> Iterator[bytes]:
    yield MARK
    packer = zlib.compressobj(1)
    for line in _said(rest, long):
        yield packer.compress(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    yield packer.flush()


def _said(rest: Mapping[str, Any], long: Mapping[str, Any]) -> Iterator[Any]:
    empty: dict[str, Any] = {
        name: {} if isinstance(part, Mapping) else [] for name, part in long.items()
    }
    yield in_full({**rest, **empty})
    for name, part in long.items():
        yield name
        is_object = isinstance(part, Mapping)
        entries = iter(part.items() if is_object else part)
        while piece := list(itertools.islice(entries, PIECE)):
            yield in_full(dict(piece) if is_object else piece)


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines; of what they are packed from, a piece at a time is held."""
    unpacker = zlib.decompressobj()
    waiting, rest = data[len(MARK) :], b""
    while waiting or not unpacker.eof:
        piece = unpacker.decompress(waiting, CHUNK_BYTES)
        waiting = unpacker.unconsumed_tail
        if not piece and not waiting and not unpacker.eof:
            raise ValueError("it is cut off")
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if unpacker.eof:
            break
    if rest or unpacker.unused_data:
        raise ValueError("something follows its end")


def _fields(value: Any) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return value if isinstance(value, Mapping) else {}


def _is_long(part: Any) -> bool:
    is_many = isinstance(part, (Mapping, Sequence)) and not isinstance(part, (str, bytes))
    return is_many and len(part) > FEW


def _kinds(record: type) -> Mapping[str, type]:
    """Return the records of the parts that may be long: those that are tuples of records."""
    hints = typing.get_type_hints(record)
    return {
        name: typing.get_args(hint)[0]
        for name, hint in hints.items()
        if typing.get_origin(hint) is tuple and dataclasses.is_dataclass(typing.get_args(hint)[0])
    }


def _shared(entry: Any, before: dict[str, Any]) -> Any:
    """Let an entry share the words that it has in common with the one `before`: modes, ids."""
    for name, value in entry.items() if isinstance(entry, dict) else ():
        if name in before and value == before[name]:
            entry[name] = before[name]
        else:
            before[name] = value
    return entry


__all__ = [
    "FEW",
    "MARK",
    "PIECE",
    "PackedBody",
    "Part",
    "data_of",
    "is_packed",
    "packed_body",
    "parts_of",
    "parts_of_body",
    "record_of",
    "value_of",
]
