"""What an index holds, as far as each snapshot asks: remembered by a hash of the index's files.

Pure but for the memory. Knows neither where an index lies nor how git is run.
"""

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FOLDER = re.compile(rb"\t([^\0]*)/")  # of a path of `ls-files --stage -z`
SUBMODULE = re.compile(rb"\x00160000 [^\t]*\t([^\0]*)")  # of a line that follows another
RULES = b".gitattributes\0"
KEPT = 4  # indexes
MOST_PATHS = 50_000  # folders and submodules of one index that is remembered


@dataclass(frozen=True, kw_only=True)
class Indexed:
    """What one index holds."""

    folders: frozenset[str]  # of tracked files, "" among them
    submodules: frozenset[str]
    has_attributes: bool  # whether a file of attributes is tracked


def indexed(listed: bytes) -> Indexed:
    """Return what an index holds; `listed` is all of its `ls-files --stage -z`."""
    folders = {""}
    for folder in set(FOLDER.findall(listed)):
        above = os.fsdecode(folder)
        while above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    submodules = frozenset(map(os.fsdecode, SUBMODULE.findall(b"\0" + listed)))
    return Indexed(
        folders=frozenset(folders), submodules=submodules, has_attributes=names_rules(listed)
    )


def names_rules(listed: bytes) -> bool:
    """Whether a file of attributes is among paths, each of which a NUL ends."""
    return listed.startswith(RULES) or any(end + RULES in listed for end in (b"\0", b"\t", b"/"))


class Indexes:
    """The memory of one repository's indexes; threads may share it."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self.is_changed = False  # since it was last written down
        self._known: dict[str, Indexed] = {}  # by hash
        self._lock = threading.Lock()

    def of(self, digest: str, listed: Callable[[], bytes]) -> Indexed:
        """Return what the index of that hash holds; `listed` asks git, where it is not known."""
        with self._lock:
            known = self._known.get(digest)
        if known is not None:
            return known
        made = indexed(listed())
        if len(made.folders) + len(made.submodules) <= MOST_PATHS:
            with self._lock:
                self._known[digest] = made
                self.is_changed = True
                while len(self._known) > KEPT:
                    del self._known[next(iter(self._known))]
        return made

    def written(self) -> list[Any]:
        """Return all as data for JSON, and count it as written down."""
        with self._lock:
            self.is_changed = False
            return [
                [digest, each.has_attributes, sorted(each.folders), sorted(each.submodules)]
                for digest, each in self._known.items()
            ]

    def read(self, data: list[Any]) -> None:
        """Take over what was written down.

        Raises TypeError or ValueError for data of another form, and remembers nothing then.
        """
        known = {
            str(digest): Indexed(
                folders=frozenset(map(str, folders)),
                submodules=frozenset(map(str, submodules)),
                has_attributes=bool(has_attributes),
            )
            for digest, has_attributes, folders, submodules in data
        }
        with self._lock:
            self._known = known


__all__ = ["Indexed", "Indexes", "indexed", "names_rules"]
