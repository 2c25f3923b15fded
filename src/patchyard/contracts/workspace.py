"""The seam to workspaces: the one writable tree of a plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from patchyard.contracts.blobs import Blobs
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.manifest import Delta, Manifest


@dataclass(frozen=True, kw_only=True)
class WorkspaceRef:
    """A workspace as it is journalled, enough to find and mount it again from another process."""

    workspace_id: str  # the plan's ULID, with a suffix for its throwaway trees
    strategy: str  # overlay, clone, copy
    root: str  # host path of the merged, writable tree
    owner_uid: int  # who the tree belongs to
    owner_gid: int
    details: Mapping[str, Any] = field(default_factory=dict)  # upper, work, lower directories


@dataclass(frozen=True, kw_only=True)
class CallWindow:
    """When a call ran, in seconds of the epoch; attributes changes to calls.

    It starts at CLOCK_REALTIME_COARSE and ends at CLOCK_REALTIME: no file that the call wrote has a
    time outside, also where the kernel stamps finer than its ticks. Zeros where that is not known:
    such a call made only what it names.
    """

    call_id: str
    started: float
    ended: float
    paths: tuple[str, ...] = ()  # what it says it wrote, relative; none of a call that failed
    deletes: bool = False  # whether it deleted them
    is_open: bool = True  # may have written what it does not name, as commands may


def never() -> bool:
    """Return False: a look is not stopped."""
    return False


class LookStopped(Exception):
    """The rest of a look is not wanted; what it has kept so far is kept."""


class Workspaces(Protocol):
    """One strategy of giving a plan a writable tree over an immutable base."""

    async def create(
        self,
        base: Base,
        *,
        workspace_id: str,
        layers: Sequence[Path] = (),
        tree: str | None = None,
        folders: Sequence[str] = (),
    ) -> WorkspaceRef:
        """Make and mount the tree of `base` (or `tree`, a result of it) over `layers` of setup.

        `folders` are made where they are missing, as places for mounts.
        """
        ...

    async def open(self, base: Base, ref: WorkspaceRef) -> Path:
        """Mount it again when it is not (after a restart of the machine) and return its root.

        What of `base` was deleted is made again. Raises Unavailable when what was written is gone.
        """
        ...

    async def capture(
        self,
        base: Base,
        ref: WorkspaceRef,
        *,
        windows: Sequence[CallWindow] = (),
        is_stopped: Callable[[], bool] = never,
    ) -> ChangeSet:
        """Walk what changed with our own reader, store it and return it; runs no agent's git.

        `is_stopped` is asked before each file and each MiB of one. Raises LookStopped.
        """
        ...

    async def layer(self, ref: WorkspaceRef) -> Path | None:
        """Return the directory that holds just what was written; None where there is none."""
        ...

    async def close(self, ref: WorkspaceRef) -> None:
        """Unmount it and keep its content; `open` mounts it again. Idempotent."""
        ...

    async def remove(self, ref: WorkspaceRef) -> None:
        """Unmount and delete it. Idempotent."""
        ...

    async def discard(self, workspace_id: str) -> None:
        """Unmount and delete what was made under this name, also by a life that was killed.

        Does nothing where nothing is. Nobody may use it any more.
        """
        ...


class Checkpointing(Protocol):
    """What plans need beside: their content can be kept, and brought back to what it was."""

    async def checkpoint(
        self,
        base: Base,
        ref: WorkspaceRef,
        previous: Manifest,
        *,
        blobs: Blobs,
        has_bulk: bool = False,
        is_stopped: Callable[[], bool] = never,
    ) -> Delta:
        """Look at what was written, keep contents that are new, return what differs.

        `previous` is what the last look came to, empty before the first. An entry whose size,
        times and inode are as before is not read again. Of an ignored folder with very many entries
        the content is kept only with `has_bulk`. `is_stopped` is asked before each entry that
        is read, and each MiB of it: once it says so the look ends. Raises LookStopped then,
        Unavailable on a full disk.
        """
        ...

    async def restore(
        self, base: Base, ref: WorkspaceRef, manifest: Manifest, *, blobs: Blobs
    ) -> Sequence[str]:
        """Bring all that was written back to `manifest`, and mount it.

        Return the folders whose content was not kept, and changed since: they are as setup left
        them, or gone.

        No environment may use it. What it is now is made beside and swapped in: a kill leaves the
        one or the other. Raises JournalBroken when a content is lost; nothing is changed then.
        """
        ...

    async def outlived(self, ref: WorkspaceRef) -> bool:
        """Whether the machine restarted, or its disk was mounted anew since.

        What was not synced may be lost then.
        """
        ...

    async def distrust(self, ref: WorkspaceRef) -> None:
        """Let `outlived` be true from now on: the disk failed to write what lies there."""
        ...

    async def accept(self, ref: WorkspaceRef) -> None:
        """Take what lies there now for what was written, after a restart. `restore` does too."""
        ...


class CheckpointingWorkspaces(Workspaces, Checkpointing, Protocol):
    """Both: what plans work in. Asked for by its type, so that no wrapper lacks a part unseen."""


@runtime_checkable
class Renaming(Protocol):
    """Extension: workspaces that can be given another name while environments use them."""

    async def rename(self, ref: WorkspaceRef, workspace_id: str) -> WorkspaceRef:
        """Return it under its new name; what lay under that is deleted, as in `create`."""
        ...


__all__ = [
    "CallWindow",
    "Checkpointing",
    "CheckpointingWorkspaces",
    "LookStopped",
    "Renaming",
    "WorkspaceRef",
    "Workspaces",
    "never",
]
