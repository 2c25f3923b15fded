"""What was read of trees for the map, kept beside the store that holds their contents.

One file a tree, and one with its words, which only the making of another tree's needs. Whatever is
damaged, of another version or half there counts as not there. They go with the store.
"""

import contextlib
import json
import os
import threading
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchyard.domain.analysis import Context
from patchyard.domain.codec import in_full
from patchyard.domain.definitions import counted_of, text_of
from patchyard.domain.meanings import restored
from patchyard.domain.repository_map import SymbolTable
from patchyard.toolbox.wire import loaded

VERSION = 2  # of the rules and of these files
KEPT = 4  # trees of one repository
KEPT_BYTES = 200 * 1024 * 1024  # of them all
INDEX, WORDS, NEW = ".map", ".words", ".new-"
STALE_S = 3600.0  # after which nobody writes at a file any more
READ, UNREAD, BEYOND, OTHER = "r", "u", "b", "-"
"""A file that is in the map; that cannot be read; there was no room for; without rules."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """All that is known of one tree. Its plain files stand in three columns, in the tree's order.

    `states` has a character for each.
    """

    context: Context
    paths: Sequence[str]
    blobs: Sequence[str]
    states: str
    texts: Mapping[str, str] = field(default_factory=dict)  # of guides and owners, by path
    table: SymbolTable = field(default_factory=SymbolTable)

    @property
    def left_out(self) -> int:
        """Files with rules for their language that could not be read."""
        return self.states.count(UNREAD) + self.states.count(BEYOND)

    def of_state(self, state: str) -> Sequence[tuple[str, str]]:
        """Return path and blob of the files in that state."""
        columns = zip(self.paths, self.blobs, self.states, strict=True)
        return [(path, blob) for path, blob, own in columns if own == state]


class MapStore:
    """The folder of one repository's maps."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, made when something is first kept."""
        self._folder = folder

    def load(self, tree: str) -> Known | None:
        """Return what is known of a tree; None: nothing that can be used."""
        body = self._read(tree, INDEX)
        if body is None:
            return None
        head, names, blobs, states, rows = body  # its sum is right: it is as it was written
        facts = loaded(head)
        known = Known(
            context=restored(Context, facts["context"]),
            paths=names.decode("utf-8", "surrogateescape").split("\0")[:-1],
            blobs=blobs.decode().split(),
            states=states.decode(),
            texts=facts["texts"],
        )
        read = [path for path, _ in known.of_state(READ)]
        return replace(known, table=SymbolTable(rows=rows, paths=read))

    def words(self, tree: str) -> dict[str, Counter[bytes]] | None:
        """Return the words of a tree's files by language; None where they are not known."""
        body = self._read(tree, WORDS)
        if body is None:
            return None
        found: dict[str, Counter[bytes]] = {}
        for part in body:
            language, _, text = part.partition(b"\n")
            found[language.decode()] = counted_of(text)
        return found

    def others(self, tree: str) -> Sequence[str]:
        """Return the other trees that something is kept of, the one used last first."""
        found = sorted(self._listed(), key=lambda each: -each[0])
        return [place.stem for _, place in found if place.suffix == INDEX and place.stem != tree]

    def keep(self, tree: str, known: Known, words: Mapping[str, Counter[bytes]]) -> None:
        """Keep what was found of a tree, and let go of what was not used for longest."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        facts = {"context": in_full(known.context), "texts": dict(known.texts)}
        names = "".join(f"{path}\0" for path in known.paths)
        parts = [
            json.dumps(facts).encode(),
            os.fsencode(names),
            " ".join(known.blobs).encode(),
            known.states.encode(),
            known.table.rows,
        ]
        counts = [b"%s\n%s" % (name.encode(), text_of(own)) for name, own in words.items()]
        self._write(tree, WORDS, counts)
        self._write(tree, INDEX, parts)
        self._let_go()

    def used(self, tree: str) -> None:
        """Note that a tree's files were of use."""
        with contextlib.suppress(OSError):
            os.utime(self._folder / f"{tree}{INDEX}")

    def _let_go(self) -> None:
        """Delete all but the trees that were used last, as far as there is room for them."""
        sizes: dict[str, int] = {}
        ages: dict[str, float] = {}
        for used, place in self._listed():
            with contextlib.suppress(FileNotFoundError):  # another process lets go as well
                sizes[place.stem] = sizes.get(place.stem, 0) + place.stat().st_size
                ages[place.stem] = max(used, ages.get(place.stem, 0.0))
        room = KEPT_BYTES
        for number, tree in enumerate(sorted(ages, key=lambda each: -ages[each])):
            room -= sizes[tree]
            if number >= KEPT or (number and room < 0):
                for end in (INDEX, WORDS):
                    (self._folder / f"{tree}{end}").unlink(missing_ok=True)

    def _listed(self) -> list[tuple[float, Path]]:
        """Return our files with when they were used; what a killed process left goes."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for place in self._folder.iterdir():
                used = place.stat().st_mtime
                if NEW not in place.name:
                    found.append((used, place))
                elif time.time() - used > STALE_S:
                    place.unlink(missing_ok=True)
        return found

    def _read(self, tree: str, end: str) -> list[bytes] | None:
        """Return the parts of a file, None where it is not whole."""
        try:
            data = (self._folder / f"{tree}{end}").read_bytes()
        except OSError:
            return None
        head, _, rest = data.partition(b"\n")
        words = head.split()
        if words[:2] != [b"patchyard-map", b"%d" % VERSION] or words[2:3] != [_sum(rest)]:
            return None
        parts, at = [], 0
        for length in map(int, words[3:]):
            parts.append(rest[at : at + length])
            at += length
        return parts

    def _write(self, tree: str, end: str, parts: Sequence[bytes]) -> None:
        """Write a file so that a reader sees all of it or none; a power cut may damage it."""
        rest = b"".join(parts)
        lengths = " ".join(str(len(part)) for part in parts)
        head = b"patchyard-map %d %s %s\n" % (VERSION, _sum(rest), lengths.encode())
        made = self._folder / f"{tree}{end}{NEW}{os.getpid()}-{threading.get_native_id()}"
        try:
            made.write_bytes(head + rest)
            made.replace(self._folder / f"{tree}{end}")
        finally:
            made.unlink(missing_ok=True)


def _sum(data: bytes) -> bytes:
    """Return what shows damage; against malice the home's own rights stand."""
    return b"%08x" % zlib.crc32(data)


__all__ = ["BEYOND", "INDEX", "KEPT", "OTHER", "READ", "UNREAD", "WORDS", "Known", "MapStore"]
