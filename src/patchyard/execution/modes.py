"""The factories of Shadow (D3): mode-specific operations and workspaces."""

import asyncio
import functools
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal, overload

from patchyard.assembly import environment_for
from patchyard.clients.clock import SystemClock
from patchyard.config import places
from patchyard.contracts.environment import Environment
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount
from patchyard.domain.errors import UnknownName
from patchyard.environments.mock import Dice, MockEnvironment, Trouble, trouble_from
from patchyard.execution.arguments import OPTIONAL_TEXT, PATH, require
from patchyard.execution.executor import ToolExecutor
from patchyard.execution.mocking import MockToolExecutor, MockWorkspaceManager, slow
from patchyard.execution.owned import OwnedFiles
from patchyard.execution.place import Place, make_own_workspace
from patchyard.execution.workspaces import WorkspaceManager, require_task_id
from patchyard.workspaces.selection import plan_folder

MODE_VARIABLE = "AGENT_MODE"


async def pause(seconds: float) -> None:
    """Wait, for a mock."""
    await asyncio.sleep(seconds)


class Mode(StrEnum):
    """Where a task's operations happen (D1)."""

    LOCAL = "local"  # kind `host`, on this machine
    REMOTE = "remote"  # kind `pod`, which this version has not
    MOCK = "mock"  # kind `mock`, a simulated remote


def mode_of(text: str | None, environ: Mapping[str, str]) -> Mode:
    """Return the mode that is named, else that of AGENT_MODE, else local (D1, D2).

    Raises UnknownName, also for one that this version has not.
    """
    require("mode", text, OPTIONAL_TEXT)
    name = (text or environ.get(MODE_VARIABLE) or Mode.LOCAL).strip().lower()
    if name not in set(Mode):
        raise UnknownName.among("mode", name, [Mode.LOCAL, Mode.MOCK])
    if name == Mode.REMOTE:
        raise UnknownName(
            "the mode 'remote' is not in this version: it needs pods", hint="known: local, mock"
        )
    return Mode(name)


@overload
def create_tool_executor(
    task_id: str, workspace_path: str, mode: Literal["mock"]
) -> MockToolExecutor: ...


@overload
def create_tool_executor(
    task_id: str, workspace_path: str, mode: str | None = None
) -> ToolExecutor: ...


def create_tool_executor(
    task_id: str, workspace_path: str, mode: str | None = None
) -> ToolExecutor:
    """Return the nine operations on a workspace; nothing is started before the first of them.

    Raises UsageError for a task id that cannot be one, UnknownName for a mode, StateRefusal for a
    state folder of somebody else.
    """
    require_task_id(task_id)
    require("workspace_path", workspace_path, PATH)
    chosen = mode_of(mode, os.environ)
    path = os.path.abspath(workspace_path)  # noqa: PTH100 - links stay as they are named
    if chosen == Mode.MOCK:
        return _mocked(task_id, path)
    environment = environment_for(ExecutionEnvironment.HOST, os.environ)
    return _local(environment, task_id, path)


def _local(environment: Environment, task_id: str, path: str) -> ToolExecutor:
    place = _place(environment, path)
    files = OwnedFiles(place, environment, new_id=SystemClock().new_id)
    return ToolExecutor(task_id, place, files=files)


def _mocked(task_id: str, path: str) -> MockToolExecutor:
    trouble = slow(trouble_from(os.environ))
    own_trouble = Trouble(seed=trouble.seed, has_failures=trouble.has_failures)
    dice = Dice(own_trouble, sleep=pause)
    environment = _mock(dice)
    own = None if Path(path).is_dir() else make_own_workspace()
    made = MockToolExecutor(task_id, _place(environment, str(own or path)), dice, own=own)
    made.set_latency(trouble.latency_ms)
    return made


def _mock(dice: Dice) -> Environment:
    environment = environment_for(ExecutionEnvironment.MOCK, os.environ)
    assert isinstance(environment, MockEnvironment)  # noqa: S101 - the registry's
    environment.dice = dice
    return environment


def _place(environment: Environment, path: str) -> Place:
    mount = Mount(source=path, target=path, is_writable=True)
    spec = EnvironmentSpec(plan_id="", purpose="execute", workspace=mount)
    return Place(environment, spec, new_id=SystemClock().new_id)


@overload
def create_workspace_manager(mode: Literal["mock"]) -> MockWorkspaceManager: ...


@overload
def create_workspace_manager(mode: str | None = None) -> WorkspaceManager: ...


def create_workspace_manager(mode: str | None = None) -> WorkspaceManager:
    """Return who prepares workspaces and cleans up after them.

    In mode local they lie at `WORKSPACE_DIR/tasks/TASK_ID` (D14). Raises UnknownName for a mode,
    StateRefusal for a state folder of somebody else.
    """
    chosen = mode_of(mode, os.environ)
    where = places(os.environ)
    if chosen == Mode.MOCK:
        trouble = slow(trouble_from(os.environ))
        return MockWorkspaceManager(
            home=where.home,
            environ=os.environ,
            environment=environment_for(ExecutionEnvironment.MOCK, os.environ),
            executor=_mocked,
            dice=Dice(trouble, sleep=pause),
        )
    environment = environment_for(ExecutionEnvironment.HOST, os.environ)
    return WorkspaceManager(
        where.tasks or plan_folder(where.home),
        home=where.home,
        environ=os.environ,
        environment=environment,
        executor=functools.partial(_local, environment),
    )


__all__ = [
    "MODE_VARIABLE",
    "Mode",
    "create_tool_executor",
    "create_workspace_manager",
    "mode_of",
    "pause",
]
