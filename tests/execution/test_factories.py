"""Which mode is taken, and what a factory refuses."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from execution.premises import Premises
from patchyard.clients.identity import AgentIdentity
from patchyard.domain.errors import EnvironmentBroken, StateRefusal, UnknownName, UsageError
from patchyard.environments.mock import FAILURES_VARIABLE
from patchyard.execution import (
    CommandResult,
    ExecutionSandbox,
    MockToolExecutor,
    MockWorkspaceManager,
    Mode,
    SandboxConfig,
    create_tool_executor,
    create_workspace_manager,
)
from patchyard.execution.cloning import give_to
from patchyard.execution.modes import mode_of, pause
from patchyard.execution.outcomes import failed

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("said", "variable", "mode"),
    [
        (None, "", Mode.LOCAL),
        (None, "mock", Mode.MOCK),
        ("local", "mock", Mode.LOCAL),
        (" Mock ", "", Mode.MOCK),
        (Mode.MOCK, "nonsense", Mode.MOCK),
    ],
)
def test_what_is_said_wins_over_the_variable_and_that_over_local(
    said: str | None, variable: str, mode: Mode
) -> None:
    assert mode_of(said, {"AGENT_MODE": variable}) is mode


def test_the_variable_chooses_for_both_factories(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = str(premises.workspace())
    for variable, is_mock in (("local", False), ("mock", True)):
        monkeypatch.setenv("AGENT_MODE", variable)
        executor = create_tool_executor("t", workspace)
        assert isinstance(executor, MockToolExecutor) is executor.is_remote() is is_mock
    made = create_workspace_manager()
    assert isinstance(made, MockWorkspaceManager)
    Path(made.get_workspace_path("t")).parent.rmdir()


@pytest.mark.parametrize("mode", ["remote", "nonsense", "process"])
def test_a_mode_that_is_not_here_is_refused_with_those_that_are(
    premises: Premises, mode: str
) -> None:
    for make in (
        lambda: create_tool_executor("t", str(premises.folder), mode),
        lambda: create_workspace_manager(mode),
    ):
        with pytest.raises(UnknownName, match=mode) as refused:
            make()
        assert "local, mock" in refused.value.hint
    is_later = "not in this version" in refused.value.message
    assert is_later is (mode == "remote")


@pytest.mark.parametrize("task_id", ["", "../x", "a/b", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_what_is_no_task_id_is_refused(premises: Premises, task_id: str) -> None:
    with pytest.raises(UsageError):
        create_tool_executor(task_id, str(premises.folder), "local")


def test_a_wrong_variable_of_the_mock_is_refused_at_once(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAILURES_VARIABLE, "perhaps")
    with pytest.raises(UsageError, match=FAILURES_VARIABLE):
        create_tool_executor("t", str(premises.folder), "mock")


@pytest.mark.service("root")
def test_a_state_folder_of_somebody_else_is_refused(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = premises.folder / "theirs"
    state.mkdir()
    os.chown(state, 65534, 65534)
    monkeypatch.setenv("PATCHYARD_HOME", str(state))
    with pytest.raises(StateRefusal, match="belongs to user 65534"):
        create_tool_executor("t", str(premises.folder), "local")


async def test_without_its_workspace_every_operation_says_so(premises: Premises) -> None:
    async with create_tool_executor("t", str(premises.folder / "none"), "local") as executor:
        read = await executor.read_file("a")
        ran = await executor.execute_command("touch ran")
    assert {read.error, ran.error} == {"WORKSPACE_NOT_FOUND"}
    assert (read.content, ran.exit_code, ran.retryable) == ("", None, False)
    assert not (premises.folder / "none").exists()


async def test_what_the_machine_refuses_is_a_result(premises: Premises) -> None:
    workspace = premises.workspace()
    executor = create_tool_executor("t", str(workspace), "local")
    (premises.folder / "state/run").write_text("a file in the way")
    assert (await executor.write_file("a", "b")).error == "IO_ERROR"
    (premises.folder / "state/run").unlink()
    assert (await executor.write_file("a", "b")).success
    assert (await executor.close()).success


@pytest.mark.service("root")
async def test_a_folder_that_the_agent_cannot_pass_is_a_result_with_the_cure(
    premises: Premises,
) -> None:
    closed = premises.folder / "closed"
    (closed / "work").mkdir(parents=True)
    closed.chmod(0o700)
    async with create_tool_executor("t", str(closed / "work"), "local") as executor:
        said = await executor.execute_command("true")
    assert (said.error, said.retryable) == ("ENVIRONMENT_UNAVAILABLE", False)
    assert "cannot pass through" in said.message


@pytest.mark.service("root")
async def test_a_mount_in_a_workspace_of_its_own_keeps_it_and_is_said(premises: Premises) -> None:
    del premises
    sandbox = ExecutionSandbox(SandboxConfig(kind="host"))
    await sandbox.initialize()
    executor = create_tool_executor("t", "/nowhere", "mock")
    manager = create_workspace_manager("mock")
    places = [
        Path(sandbox.workspace_path),
        Path(executor.get_workspace_path()),
        Path(manager.get_workspace_path("t")).parent,
    ]
    for place in places:
        (place / "m").mkdir()
        _run("mount", "-t", "tmpfs", "none", str(place / "m"))
    try:
        for closing in (sandbox.cleanup, executor.close, manager.close):
            assert (await closing()).error == "MOUNTED_INSIDE"
    finally:
        for place in places:
            _run("umount", str(place / "m"))
    for closing in (sandbox.cleanup, executor.close, manager.close):
        assert (await closing()).success


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


async def test_a_sandbox_that_does_not_end_says_so_and_can_be_cleaned_up_later(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    del premises
    sandbox = ExecutionSandbox(SandboxConfig(kind="host"))
    await sandbox.initialize()
    with monkeypatch.context() as stays:
        stays.setattr("patchyard.environments.host.kill_tree", lambda *_, **__: False)
        assert (await sandbox.cleanup()).error == "ENVIRONMENT_BROKEN"
    assert (await sandbox.cleanup()).success


def test_an_ordinary_agent_is_given_nothing(tmp_path: Path) -> None:
    before = tmp_path.stat()
    give_to(tmp_path, AgentIdentity(uid=1, gid=1, is_switched=False))
    assert (tmp_path.stat().st_uid, tmp_path.stat().st_ctime) == (before.st_uid, before.st_ctime)


def test_a_failure_names_what_the_cause_and_the_cure() -> None:
    said = failed(CommandResult, "run x", EnvironmentBroken("it is gone", hint="try again"))
    assert said.message == "Failed to run x: it is gone (try again)"
    assert (said.error, said.retryable, said.success) == ("ENVIRONMENT_BROKEN", True, False)
    assert failed(CommandResult, "run x", UsageError("no")).error == "VALIDATION_ERROR"
    assert failed(CommandResult, "run x", OSError("odd")).message == "Failed to run x: odd"
    assert failed(CommandResult, "x", OSError("odd"), command="x").command == "x"


async def test_a_mock_really_waits_as_long_as_it_is_told() -> None:
    began = time.monotonic()
    await pause(0.01)
    assert time.monotonic() - began >= 0.01
