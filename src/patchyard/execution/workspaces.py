"""Shadow's WorkspaceManager (D9, D14): one folder a task, prepared, looked at and cleaned up."""

import asyncio
import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from patchyard.clients.identity import agent_identity
from patchyard.clients.remote_git import token_credential
from patchyard.clients.removal import (
    MountedInside,
    mounts_below,
    remove_tree,
    set_aside,
    size_of,
)
from patchyard.contracts.environment import Environment
from patchyard.domain.environment import IN_PLACE, EnvironmentSpec, Mount
from patchyard.domain.errors import EnvironmentBroken, PatchyardError, UnknownName, UsageError
from patchyard.domain.retention import owner_of
from patchyard.engine.answers import whole
from patchyard.execution.arguments import TEXT, require
from patchyard.execution.cloning import CloneResult, TaskConfig, clone, give_to, require_clonable
from patchyard.execution.executor import ToolExecutor
from patchyard.execution.outcomes import Outcome, failed
from patchyard.workspaces.materials import make_passage

TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class PreparedWorkspace(Outcome):
    """A task's workspace, ready to be worked in."""

    workspace_path: str = ""
    clone_result: CloneResult | None = None
    git_setup_failed: bool = False  # the work branch was not made; all else is there


@dataclass(frozen=True, kw_only=True)
class WorkspaceStatus(Outcome):
    """What there is of a task's workspace."""

    exists: bool = False
    path: str = ""
    size_bytes: int = 0  # on the disk
    is_ready: bool = False


@dataclass(frozen=True, kw_only=True)
class Health(Outcome):
    """Whether workspaces can be made and worked in here."""

    healthy: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


def require_task_id(task_id: str) -> str:
    """Return a task's id that can name a folder. Raises UsageError."""
    require("task_id", task_id, TEXT)
    if TASK_ID.fullmatch(task_id) is None or ".." in task_id:
        raise UsageError(
            f"{task_id[:200]!r} is no task id",
            hint="take letters, digits and ._- , 128 at most, beginning with a letter or a digit",
        )
    if owner_of(task_id):
        raise UsageError(
            f"{task_id} is a name as plans have it",
            hint="put something before it, such as task-",
        )
    return task_id


class WorkspaceManager:
    """Workspaces of the mode local: clones below one folder, worked in by kind `host`.

    File operations stay in the workspace; commands have the rights of this process's user, or
    under root those of the agent's, who owns what is prepared here (D17). An asynchronous context
    manager, else `close` it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        home: Path,
        environ: Mapping[str, str],
        environment: Environment,
        executor: Callable[[str, str], ToolExecutor],
    ) -> None:
        self._folder = folder
        self._home = home
        self._environ = environ
        self._environment = environment
        self._executor = executor
        self._executors: dict[str, ToolExecutor] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by task

    def is_remote(self) -> bool:
        """Whether the workspaces stand for some on another machine."""
        return False

    def get_workspace_path(self, task_id: str) -> str:
        """Return where a task's workspace lies, or would. Raises UsageError for no task id."""
        return str(self._place(task_id))

    def _place(self, task_id: str) -> Path:
        return self._folder / require_task_id(task_id)

    async def prepare_workspace(self, task: TaskConfig, token_env: str = "") -> PreparedWorkspace:
        """Clone a task's repository into a fresh workspace, in place of one that is there.

        One that is there stays as it is when the clone fails. `token_env` names a variable of this
        process that holds a git token (D19): the https host of `repo_url` is told it, no other one,
        and neither the workspace nor what is said here holds it.
        """
        named = f"prepare {getattr(task, 'id', 'a workspace')}"
        try:
            require("task", task, (TaskConfig,))
            require("token_env", token_env, TEXT)
            place = self._place(task.id)
            token_credential(require_clonable(task), token_env, self._environ)
            await self._simulated("prepare")
            async with self._locks[task.id]:
                await self._close_executor(task.id)
                made = asyncio.to_thread(self._prepare, task, place, token_env)
                cloned, is_set = await whole(made)
        except (PatchyardError, OSError) as error:
            return failed(PreparedWorkspace, named, error)
        return PreparedWorkspace(
            success=True,
            message=f"prepared {place}",
            workspace_path=str(place),
            clone_result=cloned,
            git_setup_failed=not is_set,
        )

    def _prepare(self, task: TaskConfig, place: Path, token_env: str) -> tuple[CloneResult, bool]:
        make_passage(self._folder)
        made = self._folder / f".{secrets.token_hex(8)}.new"  # the janitor knows such names
        try:
            filled = self._fill(task, made, token_env)
            give_to(made, agent_identity())
            _remove(place)
            made.rename(place)
        except BaseException:
            remove_tree(made)
            raise
        return filled

    def _fill(self, task: TaskConfig, place: Path, token_env: str) -> tuple[CloneResult, bool]:
        """Make a workspace at `place`; return what was cloned, and whether its branch was made."""
        return clone(task, place, home=self._home, environ=self._environ, token_env=token_env)

    async def cleanup_workspace(self, task_id: str) -> Outcome:
        """End what runs for a task and delete its workspace; one that is not there is a success."""
        try:
            place = self._place(task_id)
            await self._simulated("cleanup")
            async with self._locks[task_id]:
                await self._close_executor(task_id)
                was_there = await whole(asyncio.to_thread(_remove, place))
        except (PatchyardError, OSError) as error:
            return failed(Outcome, f"clean up {task_id}", error)
        said = f"deleted {place}" if was_there else f"{place} was not there"
        return Outcome(success=True, message=said)

    async def get_workspace_status(self, task_id: str) -> WorkspaceStatus:
        """Return whether a task's workspace is there, how large it is and whether it is whole."""
        try:
            place = self._place(task_id)
            await self._simulated("status")
            is_there = await asyncio.to_thread(place.is_dir)
            size = await asyncio.to_thread(size_of, place) if is_there else 0
        except (PatchyardError, OSError) as error:
            return failed(WorkspaceStatus, f"look at {task_id}", error)
        return WorkspaceStatus(
            success=True,
            message=f"{place}: {size} bytes" if is_there else f"{place} is not there",
            exists=is_there,
            path=str(place),
            size_bytes=size,
            is_ready=is_there,
        )

    async def workspace_exists(self, task_id: str) -> bool:
        """Whether a task's workspace is there."""
        return (await self.get_workspace_status(task_id)).exists

    async def get_workspace_size(self, task_id: str) -> int:
        """Return the bytes that a task's workspace takes; 0 where there is none."""
        return (await self.get_workspace_status(task_id)).size_bytes

    def get_executor(self, task_id: str) -> ToolExecutor:
        """Return the operations on a prepared workspace; the same ones each time.

        Raises UnknownName where there is none, UsageError for no task id.
        """
        place = self._place(task_id)
        if not place.is_dir():
            raise UnknownName.among("task", task_id, self._names())
        if task_id not in self._executors:
            self._executors[task_id] = self._executor(task_id, str(place))
        return self._executors[task_id]

    def _names(self) -> Sequence[str]:
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        names = sorted(place.name for place in found)
        return [name for name in names if TASK_ID.fullmatch(name) and not owner_of(name)]

    async def _close_executor(self, task_id: str) -> None:
        """End what runs for a task. Raises EnvironmentBroken when it stays."""
        executor = self._executors.get(task_id)
        if executor is not None:
            closed = await executor.close()
            if not closed.success:
                raise EnvironmentBroken(closed.message)
            del self._executors[task_id]

    async def health_check(self) -> Health:
        """Make a workspace, really start an environment in it and take both away."""
        kind = self._environment.kind
        details = {
            "folder": str(self._folder),
            "kind": str(kind),
            "confined": kind not in IN_PLACE,
            "commands_run_as_uid": agent_identity().uid,
        }
        try:
            await self._simulated("health")
            await self._try_out()
        except (PatchyardError, OSError) as error:
            return failed(Health, "work in a workspace", error, details=details)
        message = "workspaces can be made and worked in"
        return Health(success=True, healthy=True, message=message, details=details)

    async def _try_out(self) -> None:
        made = self._folder / f".{secrets.token_hex(8)}.new"
        await asyncio.to_thread(make_passage, self._folder)
        await asyncio.to_thread(made.mkdir)
        mount = Mount(source=str(made), target=str(made), is_writable=True)
        spec = EnvironmentSpec(plan_id="", purpose="check", workspace=mount)
        try:
            await asyncio.to_thread(give_to, made, agent_identity())
            await self._environment.end(await self._environment.start(spec))
        finally:
            await asyncio.to_thread(remove_tree, made)

    async def _simulated(self, what: str) -> None:
        """Be slow or fail as it was told, where that is simulated at all."""

    async def close(self) -> Outcome:
        """End all environments of the executors that were given out; the workspaces stay."""
        closed = [await executor.close() for executor in self._executors.values()]
        failed = [each for each in closed if not each.success]
        return failed[0] if failed else Outcome(success=True, message="closed")

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()


def _remove(place: Path) -> bool:
    """Delete a workspace, through no link, and return whether there was one.

    Raises MountedInside where something is mounted in it.
    """
    for mount in mounts_below(place):
        raise MountedInside(place, mount)
    if not os.path.lexists(place):
        return False
    remove_tree(set_aside(place))
    return True


__all__ = [
    "TASK_ID",
    "Health",
    "PreparedWorkspace",
    "WorkspaceManager",
    "WorkspaceStatus",
    "require_task_id",
]
