"""A folder that the agent's user may not use: each operation names owner, user and cure."""

import asyncio
import shlex
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from execution.premises import Premises
from patchyard.clients.identity import agent_identity
from patchyard.execution import Outcome, ToolExecutor, create_tool_executor

pytestmark = [pytest.mark.anyio, pytest.mark.service("root")]

Operation = Callable[[ToolExecutor], Awaitable[Outcome]]

REFUSED: dict[str, tuple[Operation, str]] = {
    "write": (lambda tools: tools.write_file("ours/new", "x\n"), "ours"),
    "write-deep": (lambda tools: tools.write_file("ours/a/b/new", "x\n"), "ours"),
    "replace-whole": (lambda tools: tools.write_file("ours/file", "x\n"), "ours"),
    "replace-text": (lambda tools: tools.search_replace("ours/file", "one", "two"), "ours"),
    "delete": (lambda tools: tools.delete_file("ours/file"), "ours"),
    "by-a-link": (lambda tools: tools.write_file("link/new", "x\n"), "ours"),
    "read": (lambda tools: tools.read_file("ours/secret"), "ours/secret"),
    "read-below": (lambda tools: tools.read_file("closed/file"), "closed"),
    "list": (lambda tools: tools.list_directory("closed"), "closed"),
    "search": (lambda tools: tools.grep_search("x", path="closed"), "closed"),
    "run-where-none-may-pass": (
        lambda tools: tools.execute_command("true", cwd="shown"),
        "shown",
    ),
    "run-in": (lambda tools: tools.execute_command("true", cwd="closed"), "closed"),
}


@pytest.fixture
def workspace(premises: Premises) -> Path:
    made = premises.workspace()
    for name, mode in (("ours", 0o755), ("closed", 0o700), ("shown", 0o744)):
        (made / name).mkdir()
        (made / name / "file").write_text("one\n")
        (made / name).chmod(mode)
    (made / "ours/secret").write_text("one\n")
    (made / "ours/secret").chmod(0o600)
    (made / "link").symlink_to("ours")
    return made


@pytest.fixture
async def tools(workspace: Path) -> AsyncIterator[ToolExecutor]:
    async with create_tool_executor("task-1", str(workspace), "local") as executor:
        yield executor


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused_names_owner_user_and_cure(
    tools: ToolExecutor, workspace: Path, name: str
) -> None:
    operation, culprit = REFUSED[name]
    refused = await operation(tools)
    assert (refused.success, refused.error) == (False, "PERMISSION_DENIED")
    uid = agent_identity().uid
    assert f"{culprit} belongs to UID 0 (root)" in refused.message
    assert f"ran as UID {uid}" in refused.message
    flags = "-hR" if (workspace / culprit).is_dir() else "-h"
    assert f"`chown {flags} {uid} {workspace / culprit}`" in refused.message


async def test_the_cure_cures(tools: ToolExecutor) -> None:
    refused = await tools.write_file("ours/new", "x\n")
    cure = shlex.split(refused.message.split("`")[1])
    await asyncio.to_thread(subprocess.run, cure, check=True)
    assert (await tools.write_file("ours/new", "x\n")).success


async def test_a_folder_of_the_users_own_is_opened_by_its_mode(
    tools: ToolExecutor, workspace: Path
) -> None:
    assert (await tools.write_file("own/a", "x\n")).success
    (workspace / "own").chmod(0o555)
    refused = await tools.write_file("own/b", "x\n")
    assert f"`chmod u+rwX {workspace / 'own'}`" in refused.message
    assert "chown" not in refused.message


async def test_a_file_of_another_in_a_sticky_folder_is_the_one_named(
    tools: ToolExecutor, workspace: Path
) -> None:
    (workspace / "ours").chmod(0o1777)
    refused = await tools.delete_file("ours/file")
    assert refused.error == "PERMISSION_DENIED"
    assert "ours/file belongs to UID 0 (root)" in refused.message


async def test_a_workspace_that_the_user_cannot_enter_names_owner_and_cure(
    premises: Premises,
) -> None:
    closed = premises.folder / "closed"
    closed.mkdir(mode=0o700)
    async with create_tool_executor("task-1", str(closed), "local") as executor:
        refused = await executor.execute_command("true")
    uid = agent_identity().uid
    assert f"{closed}, which belongs to UID 0" in refused.message
    assert f"UID {uid}" in refused.message
    assert f"`chown -hR {uid} {closed}`" in refused.message
