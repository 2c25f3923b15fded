"""What lies in a workspace: one entry a path, and what changes from one look to the next."""

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from patchyard.domain.errors import JournalBroken

BELOW = "/"  # at the end of a path that is gone: all below it too
ORIGIN = "@"  # begins `held` of what is a copy of ours: the number of the origin follows
LEFT_OUT = "~"  # `held` of what was not kept: a bulk folder's content, a file's beyond all bounds


class Entry(NamedTuple):
    """One file, link, folder or whiteout as it lay there."""

    mode: int  # kind and permissions, as st_mode
    size: int = 0
    mtime: int = 0  # ns
    ctime: int = 0  # ns; 0: it changed too lately to be told by its times
    ino: int = 0
    held: str = ""  # a file's content by name or origin, a link's target
    link: str = ""  # the same for all names of one file; empty when it has one name
    attributes: tuple[tuple[str, str], ...] = ()  # extended ones; bytes as Latin-1

    @property
    def is_folder(self) -> bool:
        """Whether others may lie below it."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it has content."""
        return stat.S_ISREG(self.mode)

    def is_alike(self, other: "Entry") -> bool:
        """Whether a restore would make the same of both."""
        return self[:3] == other[:3] and self[5:] == other[5:]

    @property
    def digest(self) -> str:
        """The content's name in the store; empty where it is not kept there."""
        return "" if self.held.startswith((ORIGIN, LEFT_OUT)) or not self.is_file else self.held

    @property
    def is_lacking(self) -> bool:
        """Whether a file's content could not be kept."""
        return self.held == LEFT_OUT and not self.is_folder


Manifest = Mapping[str, Entry]  # by path; "" is the root itself


@dataclass(frozen=True, kw_only=True)
class Delta:
    """What one look found different from the one before."""

    put: Mapping[str, Entry] = field(default_factory=dict)  # new and changed ones
    gone: Sequence[str] = ()
    touched: Mapping[str, Entry] = field(default_factory=dict)  # alike, but for ctime and inode
    stored: int = 0  # bytes that were new in the store
    is_fuzzy: bool = False  # something changed, or could not be read, while it was looked at
    unkept: Sequence[str] = ()  # files whose content there is no room for


def applied(manifest: dict[str, Entry], put: Manifest, gone: Iterable[str]) -> None:
    """Change `manifest` to what it is after a delta."""
    for path in gone:
        if path.endswith(BELOW):
            for deeper in [each for each in manifest if each.startswith(path)]:
                del manifest[deeper]
        else:
            manifest.pop(path, None)
    manifest.update(put)


def from_rows(value: Any) -> tuple[dict[str, Entry], list[str]]:
    """Return what a delta put and what is gone, of JSON: `put` holds an entry's fields by path.

    Raises JournalBroken for anything else.
    """
    try:
        put = {str(path): _entry_of(*row) for path, row in value["put"].items()}
        return put, [str(path) for path in value["gone"]]
    except (TypeError, KeyError, IndexError, ValueError, AttributeError) as error:
        raise JournalBroken(f"a checkpoint's manifest does not fit: {error!r}") from error


def _entry_of(*row: Any) -> Entry:
    mode, size, mtime, ctime, ino, held, link, attributes = row
    named = tuple((str(name), str(text)) for name, text in attributes)
    return Entry(mode, size, mtime, ctime, ino, held, link, named)


__all__ = [
    "BELOW",
    "LEFT_OUT",
    "ORIGIN",
    "Delta",
    "Entry",
    "Manifest",
    "applied",
    "from_rows",
]
