"""The seam to what is left on the machine: each family of things says what is there of ours."""

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.retention import Family, Found


class Keeper(Protocol):
    """All things of one family that this installation made, known by their labels."""

    @property
    def family(self) -> Family:
        """What it keeps."""
        ...

    async def found(self) -> Sequence[Found]:
        """Return what is there; nothing that this installation did not make."""
        ...

    async def size(self, found: Found) -> int:
        """Return the bytes that it takes on its disk, as far as that can be read."""
        ...

    async def give_back(self, found: Found, *, unused_since: float) -> bool:
        """Return it to the machine; False when it was made use of after that moment.

        Idempotent, and killed at any point it can be repeated. Raises StateRefusal naming what is
        in the way (a mount in it), OSError.
        """
        ...


@runtime_checkable
class OfPlans(Keeper, Protocol):
    """Extension: a keeper of what runs, which its plan's owner may end at any time."""

    async def found_of(self, plan_id: str, *, besides: Collection[str] = ()) -> Sequence[Found]:
        """Return what is there of one plan, without a look at that of others.

        Nor at what goes by one of the names `besides`.
        """
        ...


@runtime_checkable
class Adopting(Protocol):
    """Extension: a keeper of what runs, which can be told that it is of another plan."""

    async def adopt(self, handle: EnvironmentHandle, plan_id: str) -> None:
        """Note whose it is from now on, and how it is found."""
        ...


__all__ = ["Adopting", "Keeper", "OfPlans"]
