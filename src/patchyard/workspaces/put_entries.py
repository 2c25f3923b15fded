"""What a capture put into a tree, and when each entry last changed.

Held packed: a change set may have 200,000 entries, and git compares two trees meanwhile.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from patchyard.domain.changeset import Change

TIME = struct.Struct("d")
Entry = tuple[str, str]  # mode and blob id


class PutEntries(Mapping[str, float]):
    """Entries by path, and those taken away; as a mapping, when each last changed, in seconds."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._packed: dict[str, bytes] = {}  # time, then mode, a space and the blob's id in bytes

    def put(self, path: str, mode: str, blob: str, *, at: float) -> None:
        """Hold an entry that last changed at `at`."""
        self._packed[path] = TIME.pack(at) + _packed((mode, blob))

    def take_away(self, path: str, *, at: float) -> None:
        """Hold that nothing is at `path`; the folder it was in last changed at `at`."""
        self._packed[path] = TIME.pack(at)

    def __getitem__(self, path: str) -> float:
        """Return when the entry last changed. Raises KeyError where the capture put none there."""
        return float(TIME.unpack_from(self._packed[path])[0])

    def __iter__(self) -> Iterator[str]:
        """Yield the paths in the order that they were put."""
        return iter(self._packed)

    def __len__(self) -> int:
        """Return how many were put or taken away."""
        return len(self._packed)

    def odd(self, changes: Sequence[Change], known: Mapping[str, Entry]) -> set[str]:
        """Return the paths where `changes` from the entries `known` say something else than this.

        An entry that was put as it was known is no change.
        """
        odd, fitting = set[str](), 0
        for path, entry in _said(changes):
            if entry != known.get(path) and self._is_at(path, entry):
                fitting += 1
            else:
                odd.add(path)
        if fitting < sum(1 for _ in self._changed(known)):
            said = {path for path, _ in _said(changes)}
            odd.update(path for path in self._changed(known) if path not in said)
        return odd

    def _is_at(self, path: str, entry: Entry | None) -> bool:
        packed = self._packed.get(path)
        return packed is not None and packed[TIME.size :] == _packed(entry)

    def _changed(self, known: Mapping[str, Entry]) -> Iterable[str]:
        """Yield the paths of what differs from the entries `known`."""
        return (path for path in self._packed if not self._is_at(path, known.get(path)))


def _packed(entry: Entry | None) -> bytes:
    return b"" if entry is None else f"{entry[0]} ".encode() + bytes.fromhex(entry[1])


def _said(changes: Iterable[Change]) -> Iterator[tuple[str, Entry | None]]:
    """Yield what each path of the changes holds after them, None where nothing is there."""
    left = {change.old_path for change in changes if change.old_path is not None}
    left -= {change.path for change in changes}
    for path in left:
        yield path, None
    for change in changes:
        is_gone = change.mode is None or change.blob is None
        yield change.path, None if is_gone else (change.mode or "", change.blob or "")


__all__ = ["Entry", "PutEntries"]
