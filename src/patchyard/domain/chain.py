"""The hash chain of a stream: each event's hash covers the one before it, so no edit is hidden."""

import hashlib
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import NamedTuple

SHORTEST_HEAD = 12  # hexadecimal digits that name a head for certain


class Entry(NamedTuple):
    """One event as it lies in the journal, to the letter; thousands are read at once."""

    stream: str
    version: int  # 1, 2, 3 ... within the stream
    type: str
    schema: int
    at: float  # seconds since the epoch
    text: str  # the body's JSON as it is stored
    hash: str = ""  # SHA-256 in hexadecimal; empty: written before events were chained


class Head(NamedTuple):
    """The last event of a stream, as it was noted beside the stream."""

    version: int
    hash: str


def hash_of(previous: str, entry: Entry) -> str:
    """Return the hash that `entry` must carry after the event whose hash is `previous`."""
    stream, version, kind, schema, at, text, _ = entry
    # The JSON of a list, written out: an encoder for each of thousands of events takes its time.
    whole = (
        f"[{_quoted(previous)},{_quoted(stream)},{version},"
        f"{_quoted(kind)},{schema},{float(at)!r},{_quoted(text)}]"
    )
    return hashlib.sha256(whole.encode("ascii")).hexdigest()


def chained(previous: str, entries: Sequence[Entry]) -> list[str]:
    """Return the hashes of `entries`, which follow the event whose hash is `previous`."""
    hashes = []
    for entry in entries:
        previous = hash_of(previous, entry)
        hashes.append(previous)
    return hashes


def faults(
    entries: Sequence[Entry], *, head: str = "", noted: Sequence[Head] = ()
) -> tuple[str, ...]:
    """Return what is wrong with a whole stream, a sentence each; nothing when it is intact.

    `head` is a hash that was noted earlier, or its first digits: an event must still carry it.
    `noted` are ends of the stream that the store kept elsewhere: it must reach each of them.
    A stream of a version that hashed nothing can only lack events.
    """
    is_old = is_unhashed(entries, noted)
    found = []
    previous, number = "", 0
    for entry in entries:
        number += 1
        if entry.version != number:
            found.append(f"event {number} is missing")
            number = entry.version
        if not entry.hash:
            found += [] if is_old else [f"event {number} ({entry.type}) has lost its hash"]
        elif entry.hash != hash_of(previous, entry):
            found.append(f"event {number} ({entry.type}) is not as it was written")
        previous = entry.hash
    if head and not any(entry.hash.startswith(head.lower()) for entry in entries):
        found.append(
            f"no event carries the hash {head[:SHORTEST_HEAD]}…: the events after it are cut off,"
            " or all were written anew"
        )
    return (*found, *_short_of(entries, noted))


def is_unhashed(entries: Sequence[Entry], noted: Sequence[Head] = ()) -> bool:
    """Whether a version that hashed nothing wrote the stream; the next append hashes all of it."""
    return bool(entries) and not noted and not any(entry.hash for entry in entries)


def _short_of(entries: Sequence[Entry], noted: Sequence[Head]) -> Sequence[str]:
    """Return what is wrong at the ends that were noted, those of the furthest alone."""
    furthest = max(noted, default=Head(version=0, hash=""))
    last = entries[-1].version if entries else 0
    if furthest.version > last:
        return [f"{numbered(last + 1, furthest.version)} lost"]
    hashes = {entry.version: entry.hash for entry in entries}
    return [
        f"event {version} is not the one that was noted as the last"
        for version, own in sorted(set(noted))
        if hashes.get(version, own) not in {"", own}
    ]


def numbered(first: int, last: int) -> str:
    """Return the words for events from the first number to the last, with their verb."""
    return f"event {last} is" if first == last else f"events {first} to {last} are"


__all__ = [
    "SHORTEST_HEAD",
    "Entry",
    "Head",
    "chained",
    "faults",
    "hash_of",
    "is_unhashed",
    "numbered",
]
