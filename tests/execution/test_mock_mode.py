"""The mode mock: a remote that is simulated, slow and failing as it was told, by a seed."""

from dataclasses import fields
from pathlib import Path

import pytest

from execution.premises import Premises, is_there, seed_where
from patchyard.environments.mock import FAILURES_VARIABLE, LATENCY_VARIABLE, SEED_VARIABLE, SPREAD
from patchyard.execution import (
    MockToolExecutor,
    MockWorkspaceManager,
    Outcome,
    TaskConfig,
    create_tool_executor,
    create_workspace_manager,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits of mocks, which are not waited for."""
    asked: list[float] = []

    async def noted(seconds: float) -> None:
        asked.append(round(seconds * 1000, 3))

    monkeypatch.setattr("patchyard.execution.modes.pause", noted)
    return asked


def near(latency_ms: float, waits: list[float]) -> bool:
    """Whether each wait is the latency, more or less by half."""
    low, high = latency_ms * (1 - SPREAD), latency_ms * (1 + SPREAD)
    return bool(waits) and all(low <= wait <= high for wait in waits)


async def test_an_operation_takes_a_tenth_of_a_second_unless_it_is_told_otherwise(
    premises: Premises, waits: list[float]
) -> None:
    async with create_tool_executor("t", str(premises.workspace()), "mock") as executor:
        for _ in range(5):
            assert (await executor.write_file("a", "b")).success
        assert (len(waits), near(100, waits)) == (5, True)
        waits.clear()
        executor.set_latency(40)
        await executor.read_file("a")
        assert near(40, waits)
        waits.clear()
        executor.set_latency(0)
        await executor.read_file("a")
        assert waits == []


async def test_a_managers_latency_is_half_a_second_and_its_executors_have_a_third(
    premises: Premises, waits: list[float]
) -> None:
    async with create_workspace_manager("mock") as manager:
        await manager.prepare_workspace(TaskConfig(id="t", repo_url=str(premises.repository)))
        await manager.get_workspace_status("t")
        assert (len(waits), near(500, waits)) == (2, True)
        executor = manager.get_executor("t")
        for latency_ms in (500, 90):
            waits.clear()
            await executor.read_file("README.md")
            assert near(latency_ms / 3, waits)
            manager.set_latency(90)


async def test_a_variable_sets_the_latency_of_operations(
    premises: Premises, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LATENCY_VARIABLE, "7")
    async with create_tool_executor("t", str(premises.workspace()), "mock") as executor:
        await executor.read_file("a")
    assert near(7, waits)


@pytest.mark.usefixtures("waits")
async def test_with_failures_off_none_of_a_hundred_fails(premises: Premises) -> None:
    async with create_tool_executor("t", str(premises.workspace()), "mock") as executor:
        results = [await executor.write_file("a", str(number)) for number in range(100)]
    assert all(each.success for each in results)


@pytest.mark.usefixtures("waits")
async def test_with_failures_on_about_a_tenth_fails_the_same_each_time(premises: Premises) -> None:
    seen = []
    workspace = premises.workspace()
    for _ in range(2):
        async with create_tool_executor("t", str(workspace), "mock") as executor:
            executor.set_simulate_failures(True)
            results = [await executor.read_file("none") for _ in range(200)]
            executor.set_simulate_failures(False)
            assert (await executor.read_file("none")).error == "FILE_NOT_FOUND"
        seen.append([each.error for each in results])
    assert seen[0] == seen[1]
    failed = len(seen[0]) - seen[0].count("FILE_NOT_FOUND")
    assert 10 <= failed <= 40
    assert set(seen[0]) <= {"FILE_NOT_FOUND", "ENVIRONMENT_BROKEN", "ENVIRONMENT_UNAVAILABLE"}


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("is_done", [False, True])
async def test_a_lost_answer_says_whether_the_same_call_may_be_made_again(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, *, is_done: bool
) -> None:
    monkeypatch.setenv(SEED_VARIABLE, str(seed_where(fails="call", done=is_done)))
    monkeypatch.setenv(FAILURES_VARIABLE, "true")
    workspace = premises.workspace()
    async with create_tool_executor("t", str(workspace), "mock") as executor:
        lost = await executor.execute_command("echo once >> count")
        assert (lost.success, lost.error, lost.retryable) == (False, "OUTCOME_UNKNOWN", False)
        assert (lost.exit_code, lost.stdout, lost.command) == (None, "", "echo once >> count")
        assert (workspace / "count").exists() is is_done
        assert (await executor.execute_command("echo again >> count")).success
    async with create_tool_executor("t", str(workspace), "mock") as executor:
        lost_reading = await executor.read_file("count")
        assert (lost_reading.error, lost_reading.retryable) == ("ENVIRONMENT_BROKEN", True)
        assert lost_reading.message.startswith("Failed to read count")
        again = await executor.read_file("count")
    assert again.content == ("once\nagain\n" if is_done else "again\n")


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize(("fails", "code", "retryable"), [
    ("start", "ENVIRONMENT_UNAVAILABLE", False),
    ("attach", "ENVIRONMENT_BROKEN", True),
])  # fmt: skip
async def test_a_place_that_does_not_come_up_is_a_result_and_the_next_may(
    premises: Premises,
    monkeypatch: pytest.MonkeyPatch,
    fails: str,
    code: str,
    *,
    retryable: bool,
) -> None:
    monkeypatch.setenv(SEED_VARIABLE, str(seed_where(fails=fails)))
    monkeypatch.setenv(FAILURES_VARIABLE, "1")
    async with create_tool_executor("t", str(premises.workspace()), "mock") as executor:
        failed = await executor.write_file("a", "b")
        assert (failed.error, failed.retryable) == (code, retryable)
        assert (await executor.write_file("a", "b")).success


@pytest.mark.usefixtures("waits")
async def test_an_environment_that_does_not_end_at_once_is_told_again(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SEED_VARIABLE, str(seed_where(fails="end")))
    monkeypatch.setenv(FAILURES_VARIABLE, "1")
    executor = create_tool_executor("t", str(premises.workspace()), "mock")
    assert (await executor.write_file("a", "b")).success
    assert (await executor.close()).success


@pytest.mark.usefixtures("waits")
async def test_one_that_never_ends_is_a_result_and_can_be_closed_later(
    premises: Premises,
) -> None:
    executor = create_tool_executor("t", str(premises.workspace()), "mock")
    assert (await executor.write_file("a", "b")).success
    manager = create_workspace_manager("mock")
    await manager.prepare_workspace(TaskConfig(id="t", repo_url=str(premises.repository)))
    assert (await manager.get_executor("t").write_file("a", "b")).success
    with pytest.MonkeyPatch.context() as stays:
        stays.setattr("patchyard.environments.host.kill_tree", lambda *_, **__: False)
        results: list[Outcome] = [
            await executor.close(),
            await manager.cleanup_workspace("t"),
            await manager.close(),
        ]
        assert {each.error for each in results} == {"ENVIRONMENT_BROKEN"}
        assert {each.success for each in results} == {False}
        assert await manager.workspace_exists("t")
    assert (await executor.close()).success
    assert (await manager.close()).success


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize("fails", ["prepare", "cleanup", "status", "health"])
async def test_a_managers_operation_fails_as_a_result(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setenv(SEED_VARIABLE, str(seed_where(fails=fails)))
    config = TaskConfig(id="t", repo_url=str(premises.repository))
    async with create_workspace_manager("mock") as manager:
        manager.set_simulate_failures(True)
        seen = []
        for _ in range(2):
            results = {
                "prepare": await manager.prepare_workspace(config),
                "health": await manager.health_check(),
                "status": await manager.get_workspace_status("t"),
                "cleanup": await manager.cleanup_workspace("t"),
            }
            seen.append({name: each.error for name, each in results.items()})
            assert results[fails].retryable is not results[fails].success
        manager.set_simulate_failures(False)
    assert seen[0] == {**seen[1], fails: "ENVIRONMENT_BROKEN"}
    assert set(seen[1].values()) == {None}


@pytest.mark.usefixtures("waits")
async def test_executors_fail_as_their_manager_is_told(premises: Premises) -> None:
    async with create_workspace_manager("mock") as manager:
        await manager.prepare_workspace(TaskConfig(id="t", repo_url=str(premises.repository)))
        executor = manager.get_executor("t")
        manager.set_simulate_failures(True)
        results = [(await executor.read_file("README.md")).success for _ in range(100)]
        manager.set_simulate_failures(False)
        assert 60 < results.count(True) < 100


@pytest.mark.usefixtures("waits")
async def test_nothing_is_cloned_and_no_network_is_reached(premises: Premises) -> None:
    del premises
    async with create_workspace_manager("mock") as manager:
        asked = TaskConfig(id="t", repo_url="https://forge.invalid/ada/shop.git", branch="side")
        prepared = await manager.prepare_workspace(asked)
        assert prepared.clone_result is not None
        assert (prepared.success, prepared.clone_result.branch) == (True, "side")
        read = await manager.get_executor("t").read_file("README.md")
        assert "simulated clone of https://forge.invalid/ada/shop.git" in read.content
        assert manager.get_active_workspaces() == ("t",)
        assert manager.get_active_workspace_count() == 1
        folder = Path(prepared.workspace_path).parent
    assert not folder.exists()


@pytest.mark.usefixtures("waits")
async def test_a_workspace_that_is_not_there_is_made_and_goes_with_the_executor(
    premises: Premises,
) -> None:
    executor = create_tool_executor("t", "/mock/workspaces/t", "mock")
    assert (await executor.write_file("a", "b")).success
    path = executor.get_workspace_path()
    assert is_there(f"{path}/a")
    assert (await executor.close()).success
    assert not is_there(path)
    assert not is_there("/mock/workspaces/t")
    del premises


def test_its_types_are_those_of_the_other_modes() -> None:
    assert {each.name for each in fields(Outcome)} == {"success", "message", "error", "retryable"}
    for name in ("set_simulate_failures", "set_latency"):
        assert hasattr(MockToolExecutor, name)
        assert hasattr(MockWorkspaceManager, name)
