"""Workspaces of tasks: prepared, looked at and cleaned up, in both modes."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from execution.premises import Premises, is_there
from patchyard.clients.identity import agent_identity
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.execution import (
    MockWorkspaceManager,
    TaskConfig,
    WorkspaceManager,
    create_workspace_manager,
)
from patchyard.execution.cloning import require_branch, require_source

pytestmark = pytest.mark.anyio

MODES = ("local", "mock")


@pytest.fixture(params=MODES)
async def manager(
    request: pytest.FixtureRequest, premises: Premises
) -> AsyncIterator[WorkspaceManager]:
    del premises
    made = create_workspace_manager(request.param)
    if isinstance(made, MockWorkspaceManager):
        made.set_latency(0)
    async with made:
        yield made


@pytest.fixture
async def local(premises: Premises) -> AsyncIterator[WorkspaceManager]:
    del premises
    async with create_workspace_manager("local") as made:
        yield made


def task(premises: Premises, **further: Any) -> TaskConfig:
    return TaskConfig(**{"id": "task-1", "repo_url": str(premises.repository), **further})


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "-c", "user.name=T", "-c", "user.email=t@x", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def run(*words: str) -> None:
    subprocess.run(words, check=True)


async def test_a_workspace_is_prepared_worked_in_and_cleaned_up(
    manager: WorkspaceManager, premises: Premises
) -> None:
    prepared = await manager.prepare_workspace(task(premises))
    assert (prepared.success, prepared.error, prepared.git_setup_failed) == (True, None, False)
    assert prepared.workspace_path == manager.get_workspace_path("task-1")
    status = await manager.get_workspace_status("task-1")
    assert (status.exists, status.is_ready, status.path) == (True, True, prepared.workspace_path)
    assert status.size_bytes == await manager.get_workspace_size("task-1") > 0
    executor = manager.get_executor("task-1")
    assert manager.get_executor("task-1") is executor
    assert (executor.get_task_id(), executor.is_remote()) == ("task-1", manager.is_remote())
    assert (await executor.write_file("new.txt", "new\n")).success
    assert "README.md" in [each.name for each in (await executor.list_directory()).contents]
    for _ in range(2):
        assert (await manager.cleanup_workspace("task-1")).success
    assert not await manager.workspace_exists("task-1")
    assert await manager.get_workspace_size("task-1") == 0
    assert not is_there(prepared.workspace_path)


async def test_preparing_again_leaves_nothing_of_what_was_there(
    manager: WorkspaceManager, premises: Premises
) -> None:
    await manager.prepare_workspace(task(premises))
    executor = manager.get_executor("task-1")
    await executor.write_file("left.txt", "left\n")
    await executor.execute_command("sleep 300", background=True)
    assert (await manager.prepare_workspace(task(premises))).success
    listed = await manager.get_executor("task-1").list_directory()
    assert "left.txt" not in [each.name for each in listed.contents]


async def test_an_executor_of_a_task_that_is_not_there_is_refused_by_name(
    manager: WorkspaceManager, premises: Premises
) -> None:
    await manager.prepare_workspace(task(premises))
    with pytest.raises(UnknownName, match="task-1"):
        manager.get_executor("task-2")


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", "/etc", "a..b", ".hidden", "a b", "x" * 129, "a\n"]
)
async def test_what_is_no_task_id_reaches_nothing(
    manager: WorkspaceManager, premises: Premises, name: str
) -> None:
    prepared = await manager.prepare_workspace(task(premises, id=name))
    cleaned = await manager.cleanup_workspace(name)
    status = await manager.get_workspace_status(name)
    assert {each.error for each in (prepared, cleaned, status)} == {"VALIDATION_ERROR"}
    assert (prepared.workspace_path, status.exists) == ("", False)
    for asked in (manager.get_workspace_path, manager.get_executor):
        with pytest.raises(UsageError):
            asked(name)
    assert premises.repository.is_dir()


async def test_the_name_of_a_plan_is_no_task_id(manager: WorkspaceManager) -> None:
    plan = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    assert (await manager.cleanup_workspace(plan)).error == "VALIDATION_ERROR"
    assert (await manager.cleanup_workspace(f"task-{plan}")).success


async def test_health_says_how_far_commands_reach(manager: WorkspaceManager) -> None:
    health = await manager.health_check()
    assert (health.success, health.healthy, health.error) == (True, True, None)
    assert health.details["kind"] == ("mock" if manager.is_remote() else "host")
    assert health.details["confined"] is False
    assert health.details["commands_run_as_uid"] == agent_identity().uid


async def test_closing_ends_environments_and_can_be_done_again(
    manager: WorkspaceManager, premises: Premises
) -> None:
    await manager.prepare_workspace(task(premises))
    executor = manager.get_executor("task-1")
    assert (await executor.execute_command("sleep 300", background=True)).success
    for _ in range(2):
        assert (await manager.close()).success


async def test_local_workspaces_lie_where_they_are_wanted_and_belong_to_the_agent(
    local: WorkspaceManager, premises: Premises
) -> None:
    prepared = await local.prepare_workspace(task(premises))
    place = premises.tasks / "task-1"
    assert (local.is_remote(), prepared.workspace_path) == (False, str(place))
    owners = {each.lstat().st_uid for each in (place, *place.rglob("*"))}
    assert owners == {agent_identity().uid}
    said = await local.get_executor("task-1").execute_command("id -u; git log --format=%s")
    assert said.stdout == f"{agent_identity().uid}\nstart\n"


async def test_a_branch_and_a_depth_are_taken_as_given(
    local: WorkspaceManager, premises: Premises
) -> None:
    git(premises.repository, "checkout", "-qb", "side")
    git(premises.repository, "commit", "-qm", "two", "--allow-empty")
    git(premises.repository, "tag", "v1")
    git(premises.repository, "checkout", "-q", "main")
    asked = task(premises, branch="side", depth=1, work_branch="shadow/task-1")
    prepared = await local.prepare_workspace(asked)
    place = Path(prepared.workspace_path)
    assert prepared.clone_result is not None
    assert prepared.clone_result.branch == "shadow/task-1" == git(place, "branch", "--show-current")
    assert prepared.clone_result.commit == git(premises.repository, "rev-parse", "side")
    assert git(place, "rev-list", "--count", "HEAD") == "1"
    assert git(place, "status", "--porcelain") == ""
    clash = await local.prepare_workspace(task(premises, work_branch="main/below"))
    assert (clash.success, clash.git_setup_failed) == (True, True)
    tagged = await local.prepare_workspace(task(premises, branch="v1"))
    assert tagged.clone_result is not None
    assert tagged.clone_result.branch == "v1"


async def test_without_a_commit_there_is_a_workspace_all_the_same(
    local: WorkspaceManager, premises: Premises
) -> None:
    empty = premises.folder / "empty"
    empty.mkdir()
    git(empty, "init", "-q", "-b", "main")
    prepared = await local.prepare_workspace(task(premises, repo_url=f"file://{empty}"))
    assert prepared.clone_result is not None
    assert (prepared.success, prepared.clone_result.commit) == (True, "")


async def test_a_failed_clone_leaves_the_workspace_as_it_is(
    local: WorkspaceManager, premises: Premises
) -> None:
    await local.prepare_workspace(task(premises))
    await local.get_executor("task-1").write_file("kept.txt", "kept\n")
    for wrong, said in (
        ({"repo_url": str(premises.folder / "none")}, "UNAVAILABLE"),
        ({"branch": "none"}, "FAILED"),
    ):
        failed = await local.prepare_workspace(task(premises, **wrong))
        assert (failed.success, failed.error, failed.clone_result) == (False, said, None)
        assert "none" in failed.message
    assert (premises.tasks / "task-1/kept.txt").read_text() == "kept\n"


async def test_nothing_of_the_repository_runs_here_while_it_is_cloned(
    local: WorkspaceManager, premises: Premises
) -> None:
    mark = premises.folder / "ran"
    hooks = premises.repository / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "pre-commit", "fsmonitor-watchman"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / name).chmod(0o755)
    git(premises.repository, "config", "filter.evil.smudge", f"touch {mark}; cat")
    git(premises.repository, "config", "uploadpack.packObjectsHook", f"touch {mark}; false")
    git(premises.repository, "config", "core.fsmonitor", f"touch {mark}")
    (premises.repository / ".gitattributes").write_text("* filter=evil\n")
    git(premises.repository, "-c", "filter.evil.smudge=", "-c", "core.fsmonitor=false", "add", "-A")
    git(premises.repository, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
        "commit", "-qm", "evil")  # fmt: skip
    mark.unlink(missing_ok=True)
    prepared = await local.prepare_workspace(task(premises))
    assert prepared.success
    assert not mark.exists()
    assert not (premises.tasks / "task-1/.git/hooks").exists()


async def test_only_the_tasks_own_folder_is_emptied(
    local: WorkspaceManager, premises: Premises
) -> None:
    beside = premises.folder / "beside"
    beside.mkdir()
    (beside / "kept").write_text("kept")
    await local.prepare_workspace(task(premises, id="task-2"))
    place = premises.tasks / "task-1"
    place.symlink_to(beside)
    assert (await local.prepare_workspace(task(premises))).success
    assert not place.is_symlink()
    await local.cleanup_workspace("task-1")
    place.symlink_to(beside)
    assert (await local.cleanup_workspace("task-1")).success
    assert not is_there(place)
    assert (beside / "kept").read_text() == "kept"
    assert (premises.tasks / "task-2/README.md").exists()


@pytest.mark.service("root")
async def test_a_workspace_with_a_mount_in_it_is_left_as_it_is(
    local: WorkspaceManager, premises: Premises
) -> None:
    await local.prepare_workspace(task(premises))
    inside = premises.tasks / "task-1/src"
    run("mount", "-t", "tmpfs", "none", str(inside))
    try:
        results = [
            await local.cleanup_workspace("task-1"),
            await local.prepare_workspace(task(premises)),
        ]
        assert [each.error for each in results] == ["MOUNTED_INSIDE"] * 2
        assert "umount" in results[0].message
    finally:
        run("umount", str(inside))
    assert (premises.tasks / "task-1/README.md").exists()


async def test_a_folder_that_cannot_be_made_is_a_result(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    (premises.folder / "file").write_text("")
    monkeypatch.setenv("WORKSPACE_DIR", str(premises.folder / "file"))
    async with create_workspace_manager() as manager:
        prepared = await manager.prepare_workspace(task(premises))
        health = await manager.health_check()
    assert (prepared.success, prepared.error) == (False, "IO_ERROR")
    assert (health.healthy, health.error) == (False, "IO_ERROR")


async def test_a_kind_that_does_not_start_is_not_healthy(
    local: WorkspaceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "patchyard.environments.host.HostEnvironment._toolbox_command",
        lambda *_: ["/bin/sh", "-c", "echo no such interpreter >&2"],
    )
    health = await local.health_check()
    assert (health.healthy, health.error) == (False, "ENVIRONMENT_UNAVAILABLE")
    assert "no such interpreter" in health.message
    assert "agents doctor" in health.message


@pytest.mark.service("root")
async def test_a_folder_that_agents_cannot_pass_is_not_healthy(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = premises.folder / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("WORKSPACE_DIR", str(closed))
    async with create_workspace_manager() as manager:
        health = await manager.health_check()
    assert (health.healthy, health.error) == (False, "ENVIRONMENT_UNAVAILABLE")
    assert f"cannot pass through {closed}" in health.message
    assert list((closed / "tasks").iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://forge.example/ada/shop.git",
        "ssh://git@forge.example:2222/ada/shop.git",
        "git@forge.example:ada/shop.git",
        "file:///srv/shop.git",
        "/srv/shop",
    ],
)
def test_repositories_are_cloned_by_https_ssh_and_from_this_machine(url: str) -> None:
    remote = require_source(TaskConfig(id="t", repo_url=url))
    assert remote.source == url.removeprefix("file://")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "relative/path",
        "--upload-pack=touch ran",
        "ext::sh -c touch% ran",
        "http://forge.example/shop.git",
        "git://forge.example/shop.git",
        "https://ada:secret@forge.example/shop.git",
        "https://token@forge.example/shop.git",
        "https://-oProxyCommand=x/shop.git",
        "ssh://-oProxyCommand=touch/shop.git",
        "-oProxyCommand=x@host:shop.git",
        "git@-oProxyCommand:shop.git",
        "https://forge.example/a b",
        "/srv/shop\nother",
    ],
)
async def test_what_must_not_be_asked_of_git_is_refused(local: WorkspaceManager, url: str) -> None:
    refused = await local.prepare_workspace(TaskConfig(id="task-1", repo_url=url))
    assert (refused.success, refused.error) == (False, "VALIDATION_ERROR")
    assert not await local.workspace_exists("task-1")


@pytest.mark.parametrize(
    "name",
    ["-x", "a..b", "a b", "a/", "a.lock", "a//b", "a/.b", "x" * 251, "a\n", "a~1", "@{0}", "a."],
)
async def test_what_is_no_branch_is_refused(
    local: WorkspaceManager, premises: Premises, name: str
) -> None:
    with pytest.raises(UsageError, match="branch"):
        require_branch(name)
    for key in ("branch", "work_branch"):
        refused = await local.prepare_workspace(task(premises, **{key: name}))
        assert refused.error == "VALIDATION_ERROR"


async def test_a_depth_below_one_is_refused(local: WorkspaceManager, premises: Premises) -> None:
    refused = await local.prepare_workspace(task(premises, depth=0))
    assert (refused.error, "depth" in refused.message) == ("VALIDATION_ERROR", True)


@pytest.mark.parametrize("is_given", [True, False])
async def test_the_folder_of_workspaces_has_a_default(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, *, is_given: bool
) -> None:
    if not is_given:
        monkeypatch.delenv("WORKSPACE_DIR")
    path = Path(create_workspace_manager().get_workspace_path("task-1"))
    inside = premises.folder in path.parents
    assert inside is (is_given or os.geteuid() != 0)
    assert path.name == "task-1"
