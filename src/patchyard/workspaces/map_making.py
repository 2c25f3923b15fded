"""Makes what is known of a tree: all of it anew, or what another tree had not."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git
from patchyard.domain.definitions import FILE_BYTES, language_at
from patchyard.domain.errors import WorkFailed
from patchyard.domain.repository_context import OWNERS, OWNERS_BYTES, context_of
from patchyard.domain.repository_map import MappedFile, files_of, is_mapped, table_of
from patchyard.workspaces.map_shares import Read, Wanted, key_of, read_all
from patchyard.workspaces.map_store import BEYOND, OTHER, READ, UNREAD, Known, MapStore

FILES = 50_000  # that are read for a map
BYTES = 768 * 1024 * 1024  # likewise
SMALL_BYTES = 256 * 1024  # of a file that is read for what it says of the repository
GUIDES_READ = 4
GUIDES_CHARS = 8000  # of all guides together, as they are shown
CHANGED = 0.3  # of the files, up to which a tree is made out of another


class Listed(NamedTuple):
    """One plain file of a tree."""

    blob: str
    size: int


def glanced_at(git: Git, tree: str) -> Known:
    """Return what is known of a tree without its map."""
    with BlobReader(git) as reader:  # which starts while the tree is listed
        return _plain(reader, _listed(git, tree))


def _plain(reader: BlobReader, files: Mapping[str, Listed]) -> Known:
    texts = _Texts(reader, files)
    context = context_of({path: each.size for path, each in files.items()}, texts.read)
    return Known(
        context=context,
        paths=list(files),
        blobs=[each.blob for each in files.values()],
        states=OTHER * len(files),
        texts=_kept_texts(context.guides, texts),
    )


def _listed(git: Git, tree: str) -> dict[str, Listed]:
    """Return the plain files of a tree by path: no links, no repositories of others."""
    out = git.run("ls-tree", "-r", "-z", "-l", "--full-tree", tree)
    found = {}
    for part in out.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        head, _, path = part.partition("\t")
        mode, _, blob, size = head.split()
        if mode.startswith("100"):
            found[path] = Listed(blob, int(size))
    return found


class _Texts:
    """Small files of a tree, read when asked for."""

    def __init__(self, reader: BlobReader, files: Mapping[str, Listed]) -> None:
        self._reader, self._files = reader, files
        self._read: dict[str, str] = {}

    def read(self, path: str) -> str | None:
        """Return a file's text; None where there is none, or it is too large."""
        found = self._files.get(path)
        if found is None or found.size > SMALL_BYTES:
            return None
        if path not in self._read:
            self._read[path] = self._reader.content(found.blob).decode("utf-8", "replace")
        return self._read[path]


def _kept_texts(guides: Sequence[str], texts: _Texts) -> Mapping[str, str]:
    """Return the texts that later tasks in the same tree ask for again."""
    kept = {}
    for path in guides[:GUIDES_READ]:
        kept[path] = (texts.read(path) or "")[: 2 * GUIDES_CHARS]
    for path in OWNERS:
        if (text := texts.read(path)) is not None:
            kept[path] = text[:OWNERS_BYTES]
    return kept


@dataclass(frozen=True, kw_only=True)
class _Source:
    """The files of a tree that are read for its map, by what names their contents."""

    git: Git
    reader: BlobReader
    keys: Mapping[str, str]  # by path
    gone: threading.Event

    def read(self, wanted: Mapping[str, int]) -> Read:
        """Read contents; each counts for as many files as it says, or is taken away from them."""
        asked = [(key.partition(":"), files) for key, files in wanted.items() if files]
        made = [Wanted(blob=blob, language=language, files=n) for (language, _, blob), n in asked]
        return read_all(self.git, self.reader, made, self.gone)

    def alone(self) -> "_Source":
        """Return the same with a reader of its own, which may fail."""
        return replace(self, reader=BlobReader(self.git))


def looked_at(git: Git, tree: str, kept: MapStore, gone: threading.Event) -> Known:
    """Read a tree, out of another one where that is known and not very different; keep it.

    Raises WorkFailed once `gone` is set.
    """
    with BlobReader(git) as reader:  # which starts while the tree is listed
        listed = _listed(git, tree)
        plain = _plain(reader, listed)
        mapped = [path for path in listed if is_mapped(path)]
        source = _Source(git=git, reader=reader, keys=_readable(mapped, listed), gone=gone)
        found = _out_of_another(source, kept, tree) or source.read(Counter(source.keys.values()))
    files = [
        MappedFile(path=path, rows=found.rows[key])
        for path, key in source.keys.items()
        if key in found.rows
    ]
    states = dict.fromkeys(listed, OTHER) | dict.fromkeys(mapped, BEYOND)
    states |= dict.fromkeys(source.keys, UNREAD)
    states |= dict.fromkeys((each.path for each in files), READ)
    table = table_of(files, found.words)
    known = replace(plain, states="".join(states.values()), table=table)
    kept.keep(tree, known, found.words)
    return known


def _readable(mapped: Sequence[str], files: Mapping[str, Listed]) -> Mapping[str, str]:
    """Return the files that are read, with what names their contents: as many as there is room."""
    keys: dict[str, str] = {}
    room = BYTES
    for path in mapped:
        each = files[path]
        if each.size <= min(FILE_BYTES, room) and len(keys) < FILES:
            room -= each.size
            keys[path] = key_of(language_at(path), each.blob)
    return keys


def _out_of_another(source: _Source, kept: MapStore, tree: str) -> Read | None:
    """Return what another tree's files and the differing ones come to; None where none is near."""
    for other in kept.others(tree)[:1]:
        old, words = kept.load(other), kept.words(other)
        if old is None or words is None:
            return None
        wanted, before = Counter(source.keys.values()), _counted(old, READ)
        unread = _counted(old, UNREAD)
        wanted.subtract(before)
        different = {key: n for key, n in wanted.items() if n and key not in unread}
        if sum(map(abs, different.values())) > CHANGED * len(source.keys):
            return None
        own = source.alone()
        try:
            with own.reader:
                changed = own.read(different)
        except WorkFailed:
            if source.gone.is_set():
                raise
            return None  # what the other one held is in the store no longer
        rows = {**_rows(old), **changed.rows}
        return Read(rows=rows, words=_summed(words, changed.words))
    return None


def _rows(known: Known) -> dict[str, str]:
    blobs = dict(known.of_state(READ))
    return {
        key_of(language_at(each.path), blobs[each.path]): each.rows
        for each in files_of(known.table)
    }


def _counted(known: Known, state: str) -> Counter[str]:
    """Return the contents of the files in that state, and how many hold each."""
    return Counter(key_of(language_at(path), blob) for path, blob in known.of_state(state))


def _summed(
    words: dict[str, Counter[bytes]], changes: Mapping[str, Mapping[bytes, int]]
) -> dict[str, Counter[bytes]]:
    for language, counted in changes.items():
        own = words.setdefault(language, Counter())
        for word, number in counted.items():
            own[word] += number
            if not own[word]:
                del own[word]
    return words


__all__ = ["BYTES", "CHANGED", "FILES", "GUIDES_CHARS", "Listed", "glanced_at", "looked_at"]
