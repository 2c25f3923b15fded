"""`codebase_search`: pieces of files ranked by the words they share with a query.

The index lies in memory and is renewed file by file, by size and modification time. SQLite's FTS5
ranks; where it is missing, words are counted.
"""

from __future__ import annotations

import os
import re
import time

from . import arguments
from .answers import Refusal, success
from .walking import Unread, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any, Generator

    from .room import Room
    from .walking import Found

PIECE_LINES = 40
MAX_RESULTS = 10
MAX_FILE_BYTES = 512 * 1024
MAX_BYTES = 64 * 1024 * 1024
MAX_CONTENT_CHARS = 4000
MAX_TERMS = 32
DEADLINE_S = 20.0
STEP_S = 0.01
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
IDENTIFIER = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, lower case; those of camelCase names too."""
    found: list[str] = []
    for name in IDENTIFIER.findall(text):
        found.append(name.lower())
        parts = WORD.findall(name)
        if len(parts) > 1:
            found.extend(part.lower() for part in parts)
    return found


class FullText:
    """Pieces in an FTS5 table. Raises sqlite3.OperationalError where FTS5 is missing."""

    def __init__(self) -> None:
        import sqlite3  # noqa: PLC0415 - slow to import, may be missing

        self._database: sqlite3.Connection = sqlite3.connect(":memory:")
        self._database.execute(
            "CREATE VIRTUAL TABLE piece USING fts5(path UNINDEXED, first UNINDEXED,"
            " last UNINDEXED, content UNINDEXED, words, tokenize='porter unicode61')"
        )

    def add(self, path: str, first: int, last: int, content: str) -> int:
        """Add a piece and return its number."""
        words = " ".join([*words_of(path), *words_of(content)])
        kept = content.encode("utf-8", "surrogateescape")
        name = path.encode("utf-8", "surrogateescape")
        row = (name, first, last, kept, words.encode("utf-8", "replace").decode())
        cursor = self._database.execute("INSERT INTO piece VALUES (?, ?, ?, ?, ?)", row)
        return cursor.lastrowid or 0

    def remove(self, number: int) -> None:
        """Remove a piece."""
        self._database.execute("DELETE FROM piece WHERE rowid = ?", (number,))

    def find(self, terms: list[str]) -> list[tuple[str, int, int, str, float]]:
        """Return the best pieces, best first, scored from above 0."""
        wanted = " OR ".join('"%s"' % term for term in terms)
        rows = self._database.execute(
            "SELECT path, first, last, content, -bm25(piece) FROM piece WHERE piece MATCH ?"
            " ORDER BY bm25(piece), path, first LIMIT ?",
            (wanted, MAX_RESULTS),
        )
        return [
            (_text(path), first, last, _text(content), score)
            for path, first, last, content, score in rows
        ]

    def close(self) -> None:
        """Release the memory."""
        self._database.close()


class Counted:
    """Pieces in a dictionary, scored by how many of the terms they hold, and how often."""

    def __init__(self) -> None:
        self._pieces: dict[int, tuple[str, int, int, str, list[str]]] = {}
        self._last = 0

    def add(self, path: str, first: int, last: int, content: str) -> int:
        """Add a piece and return its number."""
        self._last += 1
        words = [*words_of(path), *words_of(content)]
        self._pieces[self._last] = (path, first, last, content, words)
        return self._last

    def remove(self, number: int) -> None:
        """Remove a piece."""
        del self._pieces[number]

    def find(self, terms: list[str]) -> list[tuple[str, int, int, str, float]]:
        """Return the best pieces, best first, scored from above 0."""
        scored = []
        for path, first, last, content, words in self._pieces.values():
            counts = [words.count(term) for term in set(terms)]
            score = sum(count / (count + 1.0) for count in counts)
            if score:
                scored.append((path, first, last, content, score))
        scored.sort(key=lambda row: (-row[4], row[0], row[1]))
        return scored[:MAX_RESULTS]

    def close(self) -> None:
        """Release the memory."""
        self._pieces.clear()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class Index:
    """What is known of the workspace's files."""

    def __init__(self, store: FullText | Counted) -> None:
        self._store = store
        self._files: dict[str, tuple[tuple[int, int], list[int], int]] = {}
        self._bytes = 0
        self.is_partial = False
        self.unreadable = 0  # folders and files, at the last look

    def renew(self, top: int) -> Generator[float, None, None]:
        """Read what is new or changed, forget what is gone; past a bound nothing is added."""
        deadline = time.monotonic() + DEADLINE_S
        step_end = time.monotonic() + STEP_S
        seen: set[str] = set()
        self.is_partial = False
        unread = Unread()
        for found in walk(top, "", unread=unread):
            seen.add(found.path)
            self._take(found)
            self.unreadable = unread.count
            now = time.monotonic()
            if now > deadline:
                self.is_partial = True
                return
            if now > step_end:
                yield 0.0
                step_end = time.monotonic() + STEP_S
        self.unreadable = unread.count
        for path in set(self._files) - seen:
            self._remove(path)

    def _take(self, found: Found) -> None:
        try:
            status = found.entry.stat(follow_symlinks=False)
        except OSError:
            return
        stamp = (status.st_size, status.st_mtime_ns)
        known = self._files.get(found.path)
        if known is not None and known[0] == stamp:
            return
        if known is not None:
            self._remove(found.path)
        if self._bytes > MAX_BYTES:
            self.is_partial = True
            return
        before = found.unread.count
        content = found.read(MAX_FILE_BYTES)
        if found.unread.count > before:
            return  # looked at again next time: nothing of a file tells when it was opened to us
        numbers: list[int] = []
        size = 0
        if content is not None and b"\0" not in content:
            numbers, size = self._add(found.path, _text(content)), len(content)
        self._files[found.path] = (stamp, numbers, size)
        self._bytes += size

    def _add(self, path: str, content: str) -> list[int]:
        lines = content.split("\n")
        numbers = []
        for start in range(0, len(lines), PIECE_LINES):
            piece = lines[start : start + PIECE_LINES]
            text = "\n".join(piece)[:MAX_CONTENT_CHARS]
            if text.strip():
                last = start + len(piece)
                numbers.append(self._store.add(path, start + 1, last, text))
        return numbers

    def _remove(self, path: str) -> None:
        _, numbers, size = self._files.pop(path)
        self._bytes -= size
        for number in numbers:
            self._store.remove(number)

    def find(self, terms: list[str]) -> list[dict[str, Any]]:
        """Return the best pieces as result rows; relevance is 1 for the first."""
        rows = self._store.find(terms)
        best = max((row[4] for row in rows), default=1.0) or 1.0
        return [
            {
                "id": "%s:%d" % (path, first),
                "path": path,
                "line_start": first,
                "line_end": last,
                "content": content,
                "relevance": round(score / best, 4),
            }
            for path, first, last, content, score in rows
        ]

    def close(self) -> None:
        """Release the memory."""
        self._store.close()


def open_store() -> FullText | Counted:
    """Return FTS5's store where there is one, else the counting one."""
    try:
        import sqlite3  # noqa: PLC0415 - slow to import, may be missing
    except ImportError:
        return Counted()
    try:
        return FullText()
    except sqlite3.OperationalError:
        return Counted()


def codebase_search(room: Room, args: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
    """Return the pieces of files that fit the query's words best."""
    query = arguments.text(args, "query")
    terms = list(dict.fromkeys(words_of(query)))[:MAX_TERMS]
    if not terms:
        raise Refusal("VALIDATION_ERROR", "`query` holds no word")
    if room.index is None:
        room.index = Index(open_store())
    index = room.index
    with room.workspace.locate(".") as place:
        top = place.open_folder()
    try:
        yield from index.renew(top)
    finally:
        os.close(top)
    results = index.find(terms)
    return success(
        "%d pieces" % len(results),
        results=results,
        search_terms=terms,
        query=query,
        truncated=index.is_partial,
        unreadable=index.unreadable,
    )


__all__ = [
    "DEADLINE_S",
    "IDENTIFIER",
    "MAX_BYTES",
    "MAX_CONTENT_CHARS",
    "MAX_FILE_BYTES",
    "MAX_RESULTS",
    "MAX_TERMS",
    "PIECE_LINES",
    "STEP_S",
    "WORD",
    "Counted",
    "FullText",
    "Index",
    "codebase_search",
    "open_store",
    "words_of",
]
