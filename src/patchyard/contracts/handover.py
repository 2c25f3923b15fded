"""The seam to hand-over: the only thing that ever writes to the user's repository."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from patchyard.domain.changeset import Base, ChangeSet


@dataclass(frozen=True, kw_only=True)
class Order:
    """Where a change set goes, and what is allowed with it."""

    to: str  # worktree, branch, merge, patch
    name: str  # of the branch, or path of the patch file
    message: str  # of the commit
    paths: tuple[str, ...] = ()  # only these; empty: all
    allow_paths: tuple[str, ...] = ()  # globs of protected paths and findings that may pass


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What hand-over did, enough to finish it after a crash and to take it back. JSON-able."""

    to: str
    is_done: bool  # False in the intent, True in the receipt
    touched: tuple[str, ...] = ()  # paths written or deleted
    commit: str | None = None  # branch and merge
    reference: str | None = None  # branch name or file
    undo: Mapping[str, Any] = field(default_factory=dict)
    journal_head: str = ""  # hash of the plan's last event before this: `plan verify --head`
    usage: Mapping[str, Any] = field(default_factory=dict)  # what the plan used of the machine


class HandOver(Protocol):
    """Writes change sets to the user's repository: all of it or nothing."""

    async def plan(self, base: Base, changeset: ChangeSet, order: Order) -> Receipt:
        """Work out and check everything, write nothing; the result is journalled as the intent.

        Raises Conflict naming the files where newer work is in the way, StateRefusal for protected
        paths and blocking findings (exit 3) with the `--allow-path` that would let them pass.
        """
        ...

    def turn(self, base: Base) -> AbstractAsyncContextManager[None]:
        """Wait for one's turn to write into the repository of `base`, and have it in the block.

        Planning, carrying out and taking back need it; processes of other homes wait as well. The
        wait can be cancelled. Raises Conflict, naming the holder, when the turn does not come.
        """
        ...

    async def carry_out(
        self, base: Base, changeset: ChangeSet, order: Order, intent: Receipt
    ) -> Receipt:
        """Do what `intent` says. Called again after a crash it finishes and does nothing twice.

        The receipt lists what this hand-over wrote, without what others wrote of it meanwhile.
        An error whose details name files as `written` says that a part is in: the intent holds.
        """
        ...

    async def take_back(self, base: Base, changeset: ChangeSet, receipt: Receipt) -> Sequence[str]:
        """Reverse `receipt` while the touched files are unchanged, else raise Conflict.

        Returns the paths that are as they were. Of an intent that was cut short newer work is
        left as it is, and missing among them.
        """
        ...

    async def is_there(self, base: Base, receipt: Receipt) -> bool:
        """Whether a branch, merge or patch that was handed over can be found; writes nothing.

        Where it cannot, `carry_out` of the receipt makes it again. Raises StateRefusal, which says
        the cure, for a ref that git cannot read.
        """
        ...


__all__ = ["HandOver", "Order", "Receipt"]
