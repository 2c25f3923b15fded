"""Whatever a program gives in the place of an argument, a UsageError names it and its type."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchyard.domain.errors import UsageError
from patchyard.execution import (
    Command,
    ExecutionSandbox,
    Inside,
    Limits,
    Mount,
    SandboxConfig,
    TaskConfig,
    TaskExecutionRequest,
    create_tool_executor,
    create_workspace_manager,
    execute_task,
)

pytestmark = pytest.mark.anyio

ODD: tuple[Any, ...] = (5, b"x", ["a"], {"a": 1}, object(), 1.5, True)
IDS = [type(odd).__name__ for odd in ODD]
odd_ones = pytest.mark.parametrize("odd", ODD, ids=IDS)


@odd_ones
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("task_id", lambda odd: create_tool_executor(odd, "/tmp")),
        ("workspace_path", lambda odd: create_tool_executor("t", odd)),
        ("mode", lambda odd: create_tool_executor("t", "/tmp", odd)),
        ("mode", create_workspace_manager),
        ("task_id", lambda odd: create_workspace_manager().get_workspace_path(odd)),
        ("configuration", ExecutionSandbox),
    ],
)
def test_a_factory_names_the_argument_that_is_of_another_type(
    name: str, ask: Callable[[Any], Any], odd: Any
) -> None:
    with pytest.raises(UsageError, match=f"{name} is a {type(odd).__name__}, and is to be a"):
        ask(odd)


@odd_ones
@pytest.mark.parametrize(
    "name",
    [
        *("kind", "workspace", "is_writable", "image", "address", "variables", "limits"),
        *("mounts", "network", "secrets"),
    ],
)
async def test_a_sandbox_names_the_field_that_is_of_another_type(name: str, odd: Any) -> None:
    if (name, type(odd)) in {("is_writable", bool), ("mounts", list), ("secrets", list)}:
        return  # is one, or as good
    sandbox = ExecutionSandbox(replace(SandboxConfig(), **{name: odd}))
    with pytest.raises(UsageError, match=rf"{name}(\[.*\])? is a "):
        await sandbox.initialize()
    assert (await sandbox.cleanup()).success


@odd_ones
@pytest.mark.parametrize("name", ["cpus", "memory_bytes", "processes", "cpu_seconds", "wall_s"])
async def test_a_limit_that_is_no_number_is_named(name: str, odd: Any) -> None:
    if isinstance(odd, (int, float)) and not isinstance(odd, bool):
        return
    sandbox = ExecutionSandbox(SandboxConfig(limits=Limits(**{name: odd})))
    with pytest.raises(UsageError, match=f"Limits.{name} is a {type(odd).__name__}"):
        await sandbox.initialize()


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
async def test_a_limit_that_no_place_can_have_is_named(value: float) -> None:
    sandbox = ExecutionSandbox(SandboxConfig(limits=Limits(wall_s=value)))
    with pytest.raises(UsageError, match="wall_s is"):
        await sandbox.initialize()


async def test_a_mount_without_a_path_is_named() -> None:
    mount: Any = Mount(source=5, target="/x")  # type: ignore[arg-type]  # what is tried
    with pytest.raises(UsageError, match=r"Mount\.source is a int"):
        await ExecutionSandbox(SandboxConfig(mounts=(mount,))).initialize()


@odd_ones
async def test_an_operation_of_a_manager_says_it_in_its_result(odd: Any) -> None:
    manager = create_workspace_manager("mock")
    for result in (
        await manager.prepare_workspace(odd),
        await manager.prepare_workspace(TaskConfig(id=odd, repo_url="/x")),
        await manager.prepare_workspace(TaskConfig(id="t", repo_url=odd)),
        await manager.cleanup_workspace(odd),
        await manager.get_workspace_status(odd),
    ):
        assert not result.success
        assert f"is a {type(odd).__name__}" in result.message


async def test_commands_and_places_of_other_types_are_named(tmp_path: Path) -> None:
    async with ExecutionSandbox() as sandbox:
        for odd in ODD:
            with pytest.raises(UsageError, match="a command is a"):
                await sandbox.execute_command(odd)
            with pytest.raises(UsageError, match="source is a"):
                await sandbox.copy_files(odd, Inside("x"))
            with pytest.raises(UsageError, match="Inside of dest is a"):
                await sandbox.copy_files(tmp_path, Inside(odd))
            with pytest.raises(UsageError, match=r"Command\.env|of Command\.env"):
                await sandbox.execute_command(Command(line="true", env=odd))
        with pytest.raises(UsageError, match=r"Command\.line is a int"):
            await sandbox.execute_command(Command(line=5))  # type: ignore[arg-type]  # what is tried
        with pytest.raises(UsageError, match=r"each of Command\.line is a int"):
            await sandbox.execute_command(Command(line=("echo", 5)))  # type: ignore[arg-type]  # what is tried
        done = await sandbox.execute_command(Command(line=("echo", "a b"), env={"A": "1"}))
    assert done.stdout == "a b\n"


@pytest.mark.parametrize("name", ["usd", "tokens", "steps", "seconds"])
async def test_a_limit_of_a_task_that_is_no_number_is_named(name: str, tmp_path: Path) -> None:
    for odd in (b"x", ["a"], {"a": 1}, True):
        given: dict[str, Any] = {name: odd}
        request = TaskExecutionRequest(task="x", repository=str(tmp_path), **given)
        result = await execute_task(request)
        assert result.error == "usage"
        assert f"{name} is a {type(odd).__name__}" in result.message
