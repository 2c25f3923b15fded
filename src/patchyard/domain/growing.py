"""A sequence that grows at its end without being copied, for what a fold collects."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class Growing(Sequence[T_co]):
    """Frozen: `grown` returns another one, which has the items of this one in common with it.

    A tuple that grows is copied each time, which a plan of thousands of steps would feel.
    """

    __slots__ = ("_items", "_size")

    def __init__(self, items: Sequence[T_co] = (), *, shared: list[T_co] | None = None) -> None:
        """Take a copy of `items`, or `shared` itself with all that it holds now."""
        self._items = list(items) if shared is None else shared
        self._size = len(self._items)  # what lies behind belongs to those that grew out of it

    def grown(self, item: T_co) -> "Growing[T_co]":  # type: ignore[misc]  # it is only read
        """Return these items and one more."""
        is_newest = len(self._items) == self._size
        items = self._items if is_newest else self._items[: self._size]
        items.append(item)
        return Growing(shared=items)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T_co]:
        return islice(self._items, self._size)

    @overload
    def __getitem__(self, at: int) -> T_co: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T_co]: ...

    def __getitem__(self, at: int | slice) -> T_co | Sequence[T_co]:
        """Return an item, or a copy of a part."""
        if isinstance(at, slice):
            return [self._items[each] for each in range(*at.indices(self._size))]
        if not -self._size <= at < self._size:
            raise IndexError(at)
        return self._items[at % self._size]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Growing) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Growing({list(self)!r})"


__all__ = ["Growing"]
