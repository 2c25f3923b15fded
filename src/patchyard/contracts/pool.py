"""The seam to places made in advance: a fresh tree with a fresh environment over it."""

from dataclasses import dataclass
from typing import Protocol

from patchyard.contracts.environment import Toolbox
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.pooling import Wish
from patchyard.domain.state import PlanState


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """A pair that no plan has ever used."""

    workspace: WorkspaceRef
    handle: EnvironmentHandle


class Pool(Protocol):
    """Pairs that wait for a plan. Each is given away once and never comes back."""

    def prepare(self, wish: Wish) -> None:
        """Have as many made in the background as may wait for one project."""
        ...

    def follow(self, state: PlanState) -> None:
        """Have made what the next plan of a project needs that works as this one did."""
        ...

    async def take(self, wish: Wish) -> Pooled | None:
        """Return one that was made for just this and is still up; None where there is none.

        One that is being made is waited for. Whoever takes it owns it.
        """
        ...

    def connection(self, environment_id: str) -> Toolbox | None:
        """Return the open connection to one that was taken, once; who asks closes it."""
        ...

    async def give_up(self, pooled: Pooled) -> None:
        """End one that was taken, its tree too. What cannot be ended the janitor takes."""
        ...


__all__ = ["Pool", "Pooled"]
