"""Long values of the journal, written and read piece by piece, and compressed.

A change set of 140,000 files is 50 MB of JSON, and several times that as Python values. A value
with a long part is therefore kept as `MARK` and a zlib stream of JSON lines: first the value with
its long parts empty, then for each of these its name and pieces of it, lists or objects of at most
`PIECE` entries. A part that lies in an object of the value has the name `object/part`. Only one
piece is held as JSON at a time. A value without a long part is plain JSON, as before.
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
INNER = "/"  # between an object of a value and a long part in it
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
    long = dict(_long_parts(whole))
    if not long:
        return Body(value=in_full(value))
    data = b"".join(_packed(whole, long))
    return PackedBody(digest=hashlib.sha256(data).hexdigest(), size=len(data), data=data)


def is_packed(data: bytes) -> bool:
    """Whether a stored body is packed."""
    return data.startswith(MARK)


def value_of(data: bytes) -> Any:
    """Return the whole JSON value of a stored body, packed or not."""
    if not is_packed(data):
        return json.loads(data)
    value: dict[str, Any] = {}
    before: dict[Any, Any] = {}
    for name, piece in parts_of(data):
        if not name:
            value = piece
            continue
        above, last = _held(value, name)
        if isinstance(piece, dict):
            above[last].update(piece)
        else:
            above[last].extend(_shared(each, before) for each in piece)
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
    first: dict[str, Any] | None = None
    long: dict[str, list[Any]] = {}
    before: dict[Any, Any] = {}
    kinds = _kinds(record)
    for name, piece in parts_of(data):
        if first is None:
            first = piece
            continue
        shared = [_shared(each, before) for each in piece]
        if name in kinds:
            long.setdefault(name, []).extend(_entries(kinds[name], shared))
        elif _is_inner(record, name):
            above, last = _held(first, name)
            above[last].extend(shared)
        else:
            raise JournalBroken(f"{record.__name__} has no long part {name}")
    if first is None:
        raise JournalBroken(f"a packed {record.__name__} of the journal is empty")
    parts: dict[str, Any] = {name: tuple(items) for name, items in long.items()}
    whole: T = dataclasses.replace(typing.cast("Any", restored(record, first)), **parts)
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


def _packed(whole: Mapping[str, Any], long: Mapping[str, Any]) -> Iterator[bytes]:
    yield MARK
    packer = zlib.compressobj(1)
    for line in _said(whole, long):
        yield packer.compress(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    yield packer.flush()


def _said(whole: Mapping[str, Any], long: Mapping[str, Any]) -> Iterator[Any]:
    empty = dict(whole)
    for name, part in long.items():
        above = name.partition(INNER)[0]
        if name not in whole:
            empty[above] = dict(empty[above])
        held, last = _held(empty, name)
        held[last] = {} if isinstance(part, Mapping) else []
    yield in_full(empty)
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


def _long_parts(whole: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the long parts of a value and of the objects in it, each with its name."""
    for name, part in whole.items():
        if _is_long(part):
            yield name, part
        elif isinstance(part, Mapping):
            for key, inner in part.items():
                if _is_long(inner) and f"{name}{INNER}{key}" not in whole:
                    yield f"{name}{INNER}{key}", inner


def _held(value: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """Return the object that holds the part `name` of a value, and its name there.

    Raises JournalBroken where there is none.
    """
    if name in value:
        return value, name
    above, _, last = name.partition(INNER)
    held = value.get(above)
    if not isinstance(held, dict) or last not in held:
        raise JournalBroken(f"a packed value of the journal has no part {name}")
    return held, last


def _is_inner(record: type, name: str) -> bool:
    """Whether the part lies in a field of the record that is an object of any values."""
    above, inner, _ = name.partition(INNER)
    return bool(inner) and typing.get_type_hints(record).get(above) == Mapping[str, Any]


def _entries(kind: type, piece: list[Any]) -> list[Any]:
    """Return the entries of a long part: text as it is, anything else as the record it is."""
    if kind is not str:
        return [restored(kind, each) for each in piece]
    if not all(type(each) is str for each in piece):
        raise JournalBroken("a packed value of the journal has no text where text belongs")
    return piece


def _is_long(part: Any) -> bool:
    is_many = isinstance(part, (Mapping, Sequence)) and not isinstance(part, (str, bytes))
    return is_many and len(part) > FEW


def _kinds(record: type) -> Mapping[str, type]:
    """Return the kinds of the parts that may be long: tuples of records or of text."""
    found: dict[str, type] = {}
    for name, hint in typing.get_type_hints(record).items():
        entry = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
        if entry is str or dataclasses.is_dataclass(entry):
            found[name] = typing.cast("type", entry)
    return found


def _shared(entry: Any, before: dict[Any, Any]) -> Any:
    """Let an entry share the words that it has in common with the one `before`: modes, ids."""
    if not isinstance(entry, (dict, list)):
        return entry
    for name, value in entry.items() if isinstance(entry, dict) else enumerate(entry):
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
