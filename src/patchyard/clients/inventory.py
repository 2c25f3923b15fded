"""All that lies in folders of a repository, as trust is bound to it: paths, kinds and contents.

What cannot be hashed is named, so that nothing is trusted which nothing would make void.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from patchyard.clients.glimpse import FILE_BYTES, Entry, Glimpse

HASHED_BYTES = 64 * 1024 * 1024  # of all files together: each plan reads them anew
MOST_ENTRIES = 2000  # folders among them
MOST_FILES = 500  # links and special files among them


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What lies in one folder, or in several."""

    files: Mapping[str, bytes] = field(default_factory=dict)  # those of FILE_BYTES at most, by path
    links: Mapping[str, bytes] = field(default_factory=dict)  # what each says, by path
    large: Mapping[str, bytes] = field(default_factory=dict)  # SHA-256 of larger files, by path
    unhashed: str = ""  # the first thing that cannot be hashed, and why; empty: all of it was

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all that was hashed."""
        return frozenset({*self.files, *self.links, *self.large})

    def hashed(self) -> Mapping[str, bytes]:
        """Return all of it as `domain.trust.digest_of` takes it.

        What is no small file goes by a name that no path has, so that kinds are told apart.
        """
        links = {f"/link/{path}": said for path, said in self.links.items()}
        large = {f"/large/{path}": digest for path, digest in self.large.items()}
        return {**self.files, **links, **large}


def inventory(sight: Glimpse, folder: str) -> Inventory:
    """Return all that lies in `folder`, deeper too; empty where there is nothing."""
    made = Making(folder)
    made.take_all(folder, sight)
    return made.whole()


class Making:
    """An inventory while it is made; `what` it is of, for messages."""

    def __init__(self, what: str) -> None:
        self.is_over = False
        self._what = what
        self._taken: set[str] = set()
        self._entries = self._bytes = 0
        self._others = 0  # than folders
        self._files: dict[str, bytes] = {}
        self._links: dict[str, bytes] = {}
        self._large: dict[str, bytes] = {}
        self._unhashed: list[str] = []

    def take_all(self, path: str, sight: Glimpse) -> None:
        """Take what lies at `path`, deeper too."""
        for entry in sight.entries(path):
            if self.is_over:
                break
            self.take(entry, sight)

    def refuse(self, why: str) -> None:
        """Note why something cannot be hashed."""
        self._unhashed.append(why)

    def take(self, entry: Entry, sight: Glimpse) -> None:
        """Take one entry, once; nothing more beyond the bounds."""
        if entry.path in self._taken or self.is_over:
            return
        self._taken.add(entry.path)
        self._entries += 1
        self._bytes += entry.size
        self._others += entry.kind != "folder"
        if self._exceeds() or entry.kind == "folder":
            return
        if entry.kind not in {"file", "link"}:
            self._unhashed.append(f"{entry.path} is a {entry.kind}")
            return
        is_large = entry.kind == "file" and entry.size > FILE_BYTES
        content = sight.digest(entry) if is_large else sight.content(entry)
        if content is None:
            self._unhashed.append(f"{entry.path} is closed to this user, or changes just now")
        elif entry.kind == "link":
            self._links[entry.path] = content
        elif is_large:
            self._large[entry.path] = content
        else:
            self._files[entry.path] = content

    def _exceeds(self) -> bool:
        """Whether a bound is passed; then nothing more is read."""
        bounds = (
            (self._others > MOST_FILES, f"{MOST_FILES} files"),
            (self._entries > MOST_ENTRIES, f"{MOST_ENTRIES:,} files and folders"),
            (self._bytes > HASHED_BYTES, f"{HASHED_BYTES // 1024**2} MiB"),
        )
        passed = [words for is_passed, words in bounds if is_passed]
        if passed:
            self.is_over = True
            self._unhashed.append(f"{self._what} holds more than {passed[0]}")
        return self.is_over

    def whole(self) -> Inventory:
        """Return all that was taken."""
        return Inventory(
            files=self._files,
            links=self._links,
            large=self._large,
            unhashed=next(iter(self._unhashed), ""),
        )


__all__ = ["HASHED_BYTES", "MOST_ENTRIES", "MOST_FILES", "Inventory", "Making", "inventory"]
