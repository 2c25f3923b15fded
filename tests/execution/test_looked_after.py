"""Workspaces of tasks are looked after: how large they are, and what runs in them ends (D9)."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from execution.premises import Premises
from patchyard.execution import (
    MockWorkspaceManager,
    TaskConfig,
    WorkspaceManager,
    create_workspace_manager,
)
from running import started_as

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["local", "mock"])
async def manager(
    request: pytest.FixtureRequest, premises: Premises
) -> AsyncIterator[WorkspaceManager]:
    """A manager of each mode, with the workspace of task-1 prepared."""
    made = create_workspace_manager(request.param)
    if isinstance(made, MockWorkspaceManager):
        made.set_latency(0)
    async with made:
        assert (await made.prepare_workspace(task(premises))).success
        yield made


def task(premises: Premises) -> TaskConfig:
    return TaskConfig(id="task-1", repo_url=str(premises.repository))


async def test_the_size_of_a_workspace_goes_with_what_lies_in_it(manager: WorkspaceManager) -> None:
    before = await manager.get_workspace_size("task-1")
    executor = manager.get_executor("task-1")
    assert (await executor.execute_command("head -c 3000000 /dev/urandom > big; sync big")).success
    with_it = await manager.get_workspace_status("task-1")
    assert 3_000_000 <= with_it.size_bytes - before < 6_000_000
    assert str(with_it.size_bytes) in with_it.message
    assert (await executor.delete_file("big")).success
    assert await manager.get_workspace_size("task-1") < before + 1_000_000


@pytest.mark.parametrize("end", ["cleanup", "prepare again", "close"])
async def test_what_runs_for_a_task_ends_with_its_workspace(
    manager: WorkspaceManager, premises: Premises, end: str
) -> None:
    seconds = f"600.{os.getpid()}"
    executor = manager.get_executor("task-1")
    assert (await executor.execute_command(f"sleep {seconds}; :", background=True)).success
    async with asyncio.timeout(120):
        while not (running := started_as("sleep", seconds)):  # noqa: ASYNC110 - its shell starts it
            await asyncio.sleep(0)
    if end == "cleanup":
        assert (await manager.cleanup_workspace("task-1")).success
    elif end == "prepare again":
        assert (await manager.prepare_workspace(task(premises))).success
    else:
        assert (await manager.close()).success
    assert (len(running), started_as("sleep", seconds)) == (1, [])
