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


def faults(entries: Sequence[Entry], *, head: str = "") -> tuple[str, ...]:
    """Return what is wrong with a whole stream, a sentence each; nothing when it is intact.

    `head` is a hash that was noted earlier, or its first digits: an event must still carry it.
    """
    found = []
    previous, number = "", 0
    for entry in entries:
        number += 1
        if entry.version != number:
            found.append(f"event {number} is missing")
            number = entry.version
        if not entry.hash:
            found.append(f"event {number} carries no hash: it was written before there were any")
        elif entry.hash != hash_of(previous, entry):
            found.append(f"event {number} ({entry.type}) is not as it was written")
        previous = entry.hash
    if head and not any(entry.hash.startswith(head.lower()) for entry in entries):
        found.append(
            f"no event carries the hash {head[:SHORTEST_HEAD]}…: the events after it are cut off,"
            " or all were written anew"
        )
    return tuple(found)


__all__ = ["SHORTEST_HEAD", "Entry", "chained", "faults", "hash_of"]
