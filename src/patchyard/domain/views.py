"""A look at many records as other values, which are made as they are asked for."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

Item = TypeVar("Item")
Shown = TypeVar("Shown")


class Mapped(Sequence[Shown], Generic[Item, Shown]):
    """`items`, each as `show` makes it: 140,000 files as JSON are 150 MB if they are all held."""

    def __init__(self, show: Callable[[Item], Shown], items: Sequence[Item]) -> None:
        self._show = show
        self._items = items

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Shown: ...
    @overload
    def __getitem__(self, index: slice) -> list[Shown]: ...
    def __getitem__(self, index: int | slice) -> Shown | list[Shown]:
        """Return one, or a list of those that a slice names."""
        if isinstance(index, slice):
            return [self._show(item) for item in self._items[index]]
        return self._show(self._items[index])

    def __iter__(self) -> Iterator[Shown]:
        """Yield one after the other."""
        return map(self._show, self._items)

    def __eq__(self, other: object) -> bool:
        """Whether a list or a view holds the same."""
        return isinstance(other, (list, Mapped)) and list(self) == list(other)

    def __hash__(self) -> int:
        """Raise TypeError, as a list does."""
        raise TypeError("a view of many records has no hash")


def held(value: Any) -> Any:
    """Return `value` with a list in the place of each view in its mappings."""
    if isinstance(value, Mapped):
        return list(value)
    return {k: held(v) for k, v in value.items()} if isinstance(value, dict) else value


__all__ = ["Mapped", "held"]
