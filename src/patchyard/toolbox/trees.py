"""A tree of files that another one is kept equal to: what changed in it, by descriptors alone.

Both sides use it: a toolbox for the replica it works in, the engine for the tree at home. No link
is ever followed; devices, FIFOs, sockets and setuid bits never travel.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import zlib
from typing import Generator, Iterator, NamedTuple

from .footing import PASSING, STAGED, Footing, Path, as_path, raw_of
from .holes import Naming, is_zeros, parts, read_whole, zeros_at
from .wire import loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Tuple, TypeVar

    from .holes import Part

    Listed = Iterator[Tuple[bytes, os.stat_result]]
    Word = TypeVar("Word", int, str)
    Stack = List[Tuple[Path, int, Listed]]  # folders that lie in one another, each open

FILE, FOLDER, LINK = "f", "d", "l"
MODE = 0o777
SETS_ID = 0o6000
ATTRIBUTES = "its attributes "  # begins what is said of a file that has extended ones
OWN_ATTRIBUTES = ("trusted.overlay.", "user.overlay.", "security.selinux", "system.posix_acl_")
MAX_DEPTH = 200
MAX_PATH_BYTES = 4000
TICK_NS = 20_000_000  # two changes within it may bear one time
COARSE_NS = 2_000_000_000  # likewise where a file system counts whole seconds
MANY = 50_000  # records of a tree that are packed while it rests
MOST_WORDS = 1000  # that are held once
PACKED_ROWS = 500  # that are unpacked at once
STEP_S = 0.02  # that a server is silent during a look; a large file takes longer
LATEST_NS = 2**63 - 1  # in the year 2262, and as long before 1970: what is beyond travels as that
OURS = "its name begins like those of files that are not whole yet"
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Entry(NamedTuple):
    """What one path holds, as both sides speak of it."""

    kind: str  # FILE, FOLDER or LINK
    mode: int  # permissions; 0 of a link
    mtime: int  # nanoseconds; 0 of what is no file
    size: int  # bytes; 0 of what is no file
    mark: str  # a file's digest, a link's target


class Record(NamedTuple):
    """An entry with how it looked here, so that an unchanged one is not read again."""

    entry: Entry
    mode: int  # with the kind
    ctime: int
    ino: int
    seen: int  # when it was looked at, nanoseconds
    attributes: str = ""  # names of a file's extended ones, which never travel

    def is_as(self, status: os.stat_result) -> bool:
        """Whether nothing can have changed since it was looked at."""
        if self.mode != status.st_mode:
            return False
        if stat.S_ISDIR(self.mode):
            return True
        tick = TICK_NS if status.st_ctime_ns % 1_000_000_000 else COARSE_NS
        return (
            self.ctime == status.st_ctime_ns < self.seen - tick
            and self.ino == status.st_ino
            and (self.entry.kind == LINK or self.entry.size == status.st_size)
        )


class _Agreed:
    """The records of a tree by path. Those of 140,000 files take 65 MB, packed 5 MB."""

    def __init__(self) -> None:
        """Hold none."""
        self._records: dict[Path, Record] = {}
        self._packed: list[bytes] = []

    def records(self) -> dict[Path, Record]:
        """Return the records, unpacked."""
        if self._packed:
            packed, self._packed = self._packed, []
            unpacker = zlib.decompressobj()
            rest, mark = b"", ""
            for piece in packed:
                *lines, rest = (rest + unpacker.decompress(piece)).split(b"\n")
                for line in lines:
                    for path, entry, *more in loaded(line):
                        mark = mark if mark == entry[-1] else entry[-1]
                        entry[-1] = mark
                        self._records[path] = Record(Entry(*entry), *more)
        return self._records

    @property
    def is_large(self) -> bool:
        """Whether more than MANY records are not packed."""
        return len(self._records) > MANY

    def pack(self) -> None:
        """Pack the records where there are more than MANY."""
        records = self._records
        if not self.is_large:
            return
        packer, rows = zlib.compressobj(1), []
        while records:
            path, record = records.popitem()
            rows.append([path, *record])
            if len(rows) == PACKED_ROWS or not records:
                text = json.dumps(rows, separators=(",", ":"))
                self._packed.append(packer.compress(text.encode("ascii") + b"\n"))
                rows = []
        self._packed.append(packer.flush())


class Look:
    """What a look came to."""

    def __init__(self) -> None:
        self.changed: dict[Path, Record] = {}
        self.gone: list[Path] = []
        self.left_out: list[tuple[Path, str]] = []  # and why


def digest_of() -> Naming:
    """Return what file contents are named by; of holes it takes in how long they are."""
    return Naming(lambda: hashlib.blake2b(digest_size=20))


def record_of(entry: Entry, status: os.stat_result) -> Record:
    """Return the record of what has just been looked at or made."""
    ino, ctime = status.st_ino, status.st_ctime_ns
    return Record(entry, status.st_mode, ctime, ino, time.time_ns())


class Tree(Footing):
    """One side. `agreed` is what both sides held when they were last found or made equal."""

    def __init__(self, root: str) -> None:
        """Open the root. Raises OSError when it is no folder."""
        super().__init__(root)
        self._agreed = _Agreed()
        self._words: dict[Any, Any] = {}

    @property
    def agreed(self) -> dict[Path, Record]:
        """The records by path, to read and to change; unpacked where they rest."""
        return self._agreed.records()

    @property
    def is_large(self) -> bool:
        """Whether its records are many, and not packed."""
        return self._agreed.is_large

    def rest(self) -> None:
        """Hold the records of a large tree packed until they are asked for."""
        self._agreed.pack()

    def look(self) -> Look:
        """Return how the tree differs from `agreed`."""
        found = Look()
        for _ in self._looking(found):
            continue
        return found

    def looking(self) -> Generator[float, None, Look]:
        """Look in steps, each as long as a server can be silent."""
        found = Look()
        yield from self._looking(found)
        return found

    def _looking(self, found: Look) -> Iterator[float]:
        present: set[Path] = set()
        unseen: list[Path] = []
        try:
            due = time.monotonic() + STEP_S
            for _ in self._walk(found, present, unseen):
                if time.monotonic() >= due:
                    yield 0.0
                    due = time.monotonic() + STEP_S
        finally:
            self.give_back()
        below = tuple(path + "/" for path in unseen)
        found.gone = [
            path
            for path in self.agreed
            if path not in present and not (below and path.startswith(below))
        ]

    def _walk(self, found: Look, present: set[Path], unseen: list[Path]) -> Iterator[None]:
        """Go through the tree; no more folders are open than lie above one another."""
        stack: Stack = []
        try:
            why = self._enter("", os.dup(self.root), stack)
            if why:
                found.left_out.append(("", why))
                unseen.append("")
            while stack:
                folder, at, listed = stack[-1]
                for name, status in listed:
                    yield
                    path = folder + "/" + as_path(name) if folder else as_path(name)
                    present.add(path)
                    is_folder = stat.S_ISDIR(status.st_mode)
                    why = self._take(at, name, path, status, found)
                    if is_folder and not why:
                        why = self._descend(at, name, path, stack)
                    if why:
                        found.left_out.append((path, why))
                        if is_folder:
                            unseen.append(path)
                    elif is_folder:
                        break
                else:
                    os.close(at)
                    stack.pop()
        finally:
            for _, at, _ in stack:
                os.close(at)

    def _descend(self, at: int, name: bytes, path: Path, stack: Stack) -> str:
        """Go on in a folder; return why not."""
        if path.count("/") >= MAX_DEPTH:
            return "too deep"
        try:
            return self._enter(path, self.opened(at, name, LIST), stack)
        except OSError as error:
            return "unreadable: %s" % error.strerror

    def _enter(self, path: Path, at: int, stack: Stack) -> str:
        """Go on in an open folder; return why not, and close it then."""
        try:
            stack.append((path, at, iter(self.names(at))))
        except OSError as error:
            os.close(at)
            return "unreadable: %s" % error.strerror
        return ""

    def _take(self, at: int, name: bytes, path: Path, status: os.stat_result, found: Look) -> str:
        """Take one entry in; return why it stays where it is, wholly or in part."""
        why = _unsayable(name, path)
        if why:
            return why
        before = self.agreed.get(path)
        if before is not None and before.is_as(status):
            return _unfit(status, before.attributes)
        try:
            now = self._recorded(at, name, status)
        except FileNotFoundError:
            return ""  # the next look will see what became of it
        except OSError as error:
            return "unreadable: %s" % error.strerror
        if now is None:
            return KINDS.get(stat.S_IFMT(status.st_mode), "of an unknown kind")
        if before is not None and before.entry == now.entry:
            self.agreed[path] = now
        else:
            found.changed[path] = now
        return _unfit(status, now.attributes)

    def _recorded(self, at: int, name: bytes, status: os.stat_result) -> Record | None:
        """Return the record of an entry, None of what never travels."""
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            return record_of(Entry(FOLDER, self._once(mode & MODE), 0, 0, ""), status)
        if stat.S_ISLNK(mode):
            target = as_path(os.readlink(name, dir_fd=at))
            return record_of(Entry(LINK, 0, 0, 0, target), status)
        if not stat.S_ISREG(mode):
            return None
        descriptor = self.opened(at, name, READ)
        try:
            begun = os.fstat(descriptor)
            if not stat.S_ISREG(begun.st_mode):
                raise FileNotFoundError
            digest, size = digest_of(), 0
            for part in parts(descriptor, begun.st_size):  # no more: it may grow without end
                digest.take(part)
                size += part if isinstance(part, int) else len(part)
            attributes = _attributes(descriptor)
        finally:
            os.close(descriptor)
        mtime = max(-LATEST_NS, min(begun.st_mtime_ns, LATEST_NS))
        mark = self._once(digest.hexdigest())
        entry = Entry(FILE, self._once(mode & MODE), mtime, size, mark)
        record = record_of(entry, begun)
        # with the mode of the look, whatever was lent meanwhile
        return record._replace(mode=self._once(mode), attributes=attributes)

    def _once(self, word: Word) -> Word:
        """Return the word as it was said before: modes and digests that many share, held once."""
        if len(self._words) >= MOST_WORDS:
            self._words.clear()
        known: Word = self._words.setdefault(word, word)
        return known

    def read(self, path: Path, offset: int, length: int) -> Part:
        """Return a piece of a file, shorter at its end.

        Where all of it is a hole, how many zeros there are from `offset` to the next data, or to
        the end of the file; where it is data that is nothing but zeros, how many those are. Raises
        OSError.
        """
        try:
            parent, name = self.parent(path)
            descriptor = self.opened(parent, name, READ)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise FileNotFoundError
                wanted = min(length, status.st_size - offset)
                zeros = zeros_at(descriptor, offset, status.st_size) if wanted > 0 else 0
                if zeros and zeros >= wanted:
                    return zeros
                data = read_whole(descriptor, length, offset)
                return len(data) if data and is_zeros(data) else data
            finally:
                os.close(descriptor)
        finally:
            self.give_back()

    def agree(self, look: Look, *, without: set[Path]) -> None:
        """Take what a look found for agreed, but for what the other side did not get."""
        for path in look.gone:
            if path not in without:
                self.agreed.pop(path, None)
        for path, record in look.changed.items():
            if path not in without:
                self.agreed[path] = record


def _unsayable(name: bytes, path: Path) -> str:
    """Return why what is called so never travels."""
    if name.startswith(STAGED):
        return OURS
    return "its path is too long" if len(raw_of(path)) > MAX_PATH_BYTES else ""


def _unfit(status: os.stat_result, attributes: str) -> str:
    """Return what of an entry does not travel with the rest."""
    sets_id = status.st_mode & SETS_ID and stat.S_ISREG(status.st_mode)
    parts = ["its setuid bit"] if sets_id else []
    return " and ".join([*parts, ATTRIBUTES + attributes] if attributes else parts)


def _attributes(descriptor: int) -> str:
    """Return the names of a file's extended attributes, but for those that systems set."""
    try:
        names = os.listxattr(descriptor)
    except OSError:  # a file system without them
        return ""
    return ", ".join(sorted(name for name in names if not name.startswith(OWN_ATTRIBUTES)))[:200]


__all__ = [
    "ATTRIBUTES",
    "FILE",
    "FOLDER",
    "LATEST_NS",
    "LINK",
    "LIST",
    "MAX_DEPTH",
    "MAX_PATH_BYTES",
    "MODE",
    "OURS",
    "PASSING",
    "READ",
    "TICK_NS",
    "Entry",
    "Look",
    "Record",
    "Tree",
    "digest_of",
    "record_of",
]
