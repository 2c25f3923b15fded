"""Events as rows of the journal; what is too large for a row lies in blobs beside it."""

import gc
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from patchyard.contracts.journal import Journal, NewEvent, StoredEvent
from patchyard.domain.codec import in_full
from patchyard.domain.errors import JournalBroken
from patchyard.domain.events import EVENT_BYTES, Body
from patchyard.domain.meanings import FORMAT, restored
from patchyard.engine.packing import PackedBody, data_of, record_of, value_of

INLINE_BYTES = 2048  # a Body larger than this becomes a blob

WHOLE = "$body"  # key of an event too large for a row: all of it lies in that blob


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The events of one kind of stream."""

    types: Mapping[str, Any]  # record by name
    schema: int  # newest version of their shapes that is known here


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles while many records are made that all stay: it takes a tenth of the time.

    What was made counts as old from then on, as if the collector had gone over it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation
        if was_on:
            gc.enable()


def to_row(event: Any, vocabulary: Vocabulary, at: float, bodies: dict[str, bytes]) -> NewEvent:
    """Return `event` as it is appended; what does not fit its row is added to `bodies`."""
    large = {
        field.name: _stored(value, bodies)
        for field in fields(event)
        if isinstance(value := getattr(event, field.name), Body)
        and (isinstance(value, PackedBody) or (value.digest is None and value.value is not None))
    }
    is_packed = any(isinstance(getattr(event, name), PackedBody) for name in large)
    body = in_full(replace(event, **large) if large else event)
    data = json.dumps(body, separators=(",", ":")).encode()
    if len(data) > EVENT_BYTES:
        body = {WHOLE: _kept(data, bodies)}
    schema = vocabulary.schema if is_packed else FORMAT  # older versions read what is not packed
    return NewEvent(type=type(event).__name__, schema=schema, at=at, body=body)


async def from_rows(
    rows: Iterable[StoredEvent], vocabulary: Vocabulary, journal: Journal
) -> list[tuple[int, float, Any]]:
    """Return the records of stored events, each with its version and time, as `from_row` does."""
    found = []
    for each in rows:
        record = None if WHOLE in each.body else vocabulary.types.get(each.type)
        if record is None or each.schema > vocabulary.schema:
            event = await from_row(each, vocabulary, journal)
        else:  # most are, and a journal has many of them
            event = restored(record, each.body, each.schema)
        found.append((each.version, each.at, event))
    return found


async def from_row(stored: StoredEvent, vocabulary: Vocabulary, journal: Journal) -> Any:
    """Return the record of a stored event. Raises JournalBroken when it is of no known kind."""
    record = vocabulary.types.get(stored.type)
    if record is None or stored.schema > vocabulary.schema:
        raise JournalBroken(
            f"event {stored.version} of {stored.stream} is of an unknown kind"
            f" ({stored.type}, schema {stored.schema})",
            hint="it was written by a newer Patchyard; upgrade",
        )
    body = stored.body
    if WHOLE in body:
        body = json.loads(await journal.body(str(body[WHOLE])))
    return restored(record, body, stored.schema)


def body_of(value: Any) -> Body:
    """Wrap a JSON value (records allowed) for an event."""
    return Body(value=in_full(value))


async def read_body(journal: Journal, body: Body) -> Any:
    """Return the JSON value of `body`."""
    data = await data_of(journal, body)
    return body.value if data is None else value_of(data)


async def read_record(journal: Journal, body: Body, record: type[T]) -> T:
    """Return the record that `body` holds; of a packed one no more than that is made.

    Raises JournalBroken where it does not fit.
    """
    data = await data_of(journal, body)
    return restored(record, body.value) if data is None else record_of(record, data)


def _stored(body: Body, bodies: dict[str, bytes]) -> Body:
    if isinstance(body, PackedBody):
        return Body(digest=_kept(body.data, bodies), size=body.size)
    data = json.dumps(body.value, separators=(",", ":")).encode()
    if len(data) <= INLINE_BYTES:
        return replace(body, size=len(data))
    return Body(digest=_kept(data, bodies), size=len(data))


def _kept(data: bytes, bodies: dict[str, bytes]) -> str:
    digest = hashlib.sha256(data).hexdigest()
    bodies[digest] = data
    return digest


__all__ = [
    "INLINE_BYTES",
    "WHOLE",
    "Vocabulary",
    "body_of",
    "from_row",
    "from_rows",
    "read_body",
    "read_record",
    "to_row",
    "uncollected",
]
