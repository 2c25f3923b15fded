"""A folder of the caller's, under root: files are its owner's to work on, commands the agent's."""

import os
from pathlib import Path

import pytest

from execution.premises import Premises
from patchyard.assembly import environment_for
from patchyard.clients.identity import FIRST_UID, LAST_UID, agent_identity, has_account
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount
from patchyard.execution import ToolExecutor, create_tool_executor, create_workspace_manager
from patchyard.toolbox.operations import OF_FILES, PLACES

pytestmark = [pytest.mark.anyio, pytest.mark.service("root")]

STRANGER = next(uid for uid in range(LAST_UID, FIRST_UID, -1) if not has_account(uid))
OWNERS = {"root": 0, "another-user": STRANGER}


@pytest.fixture(params=OWNERS)
def owner(request: pytest.FixtureRequest) -> int:
    return OWNERS[request.param]


def make(folder: Path) -> None:
    (folder / "closed").mkdir(parents=True)
    for name in ("old.txt", "gone.txt", "closed/secret.txt"):
        (folder / name).write_text("one\n")
    (folder / "closed").chmod(0o700)
    (folder / "out").symlink_to("/etc/passwd")


def give(folder: Path, owner: int) -> None:
    for place in (folder, *folder.rglob("*")):
        os.chown(place, owner, owner, follow_symlinks=False)


@pytest.fixture
def folder(premises: Premises, owner: int) -> Path:
    made = premises.folder / "theirs"
    make(made)
    give(made, owner)
    return made


def executor_of(folder: Path) -> ToolExecutor:
    return create_tool_executor("task-1", str(folder), "local")


async def test_each_operation_on_files_is_the_owners(folder: Path, owner: int) -> None:
    async with executor_of(folder) as tools:
        done = (
            await tools.write_file("new/deep.txt", "x\n"),
            await tools.search_replace("old.txt", "one", "two"),
            await tools.delete_file("gone.txt"),
            await tools.read_file("closed/secret.txt"),
            await tools.list_directory("closed"),
            await tools.search_files("secret"),
            await tools.codebase_search("one"),
        )
        found = await tools.grep_search("one", path="closed")
    assert [each.message for each in done if not each.success] == []
    assert found.matches == ("closed/secret.txt:1:one",)
    assert (folder / "old.txt").read_text() == "two\n"
    made = (folder / "new", folder / "new/deep.txt", folder / "old.txt")
    assert {place.stat().st_uid for place in made} == {owner}
    assert not (folder / "gone.txt").exists()


async def test_a_command_there_stays_the_agents(folder: Path) -> None:
    async with executor_of(folder) as tools:
        assert (await tools.write_file("new.txt", "x\n")).success
        ran = await tools.execute_command("id -u; touch made; cat closed/secret.txt")
    assert ran.stdout == f"{agent_identity().uid}\n"
    assert "Permission denied" in ran.stderr
    assert not (folder / "made").exists()


@pytest.mark.parametrize("path", ["out", "../theirs/../../x", "/etc/passwd"])
async def test_no_path_leads_the_owner_out(folder: Path, path: str) -> None:
    async with executor_of(folder) as tools:
        refused = (await tools.read_file(path), await tools.write_file(path, "x\n"))
    assert {each.error for each in refused} == {"PATH_OUTSIDE_WORKSPACE"}


async def test_what_another_user_could_swap_is_the_agents_and_the_refusal_names_the_cure(
    premises: Premises,
) -> None:
    folder = premises.workspace() / "swapped"  # in a folder that belongs to the agent
    folder.mkdir()
    async with executor_of(folder) as tools:
        refused = await tools.write_file("new.txt", "x\n")
    uid = agent_identity().uid
    assert refused.error == "PERMISSION_DENIED"
    assert "belongs to UID 0 (root)" in refused.message
    assert f"ran as UID {uid}; run `chown -hR {uid} {folder}`" in refused.message


async def test_what_belongs_to_neither_names_owner_user_and_cure(folder: Path, owner: int) -> None:
    os.chown(folder / "closed", agent_identity().uid, agent_identity().gid)
    async with executor_of(folder) as tools:
        refused = await tools.write_file("closed/new.txt", "x\n")
    assert refused.error == "PERMISSION_DENIED"
    assert f"closed belongs to UID {agent_identity().uid}" in refused.message
    assert f"ran as UID {owner}; run `chown -hR {owner} {folder / 'closed'}`" in refused.message


async def test_a_folder_that_is_given_to_the_agent_is_the_agents_from_then_on(
    folder: Path,
) -> None:
    async with executor_of(folder) as tools:
        assert (await tools.write_file("a.txt", "x\n")).success
        os.chown(folder, agent_identity().uid, agent_identity().gid)
        assert (await tools.write_file("b.txt", "x\n")).success
    assert (folder / "b.txt").stat().st_uid == agent_identity().uid


async def test_nothing_is_left_when_it_is_closed(folder: Path, premises: Premises) -> None:
    tools = executor_of(folder)
    await tools.execute_command("true")
    assert (await tools.read_file("old.txt")).success
    assert len(premises.left) > 1
    for _ in range(2):
        assert (await tools.close()).success
    assert premises.left == []


async def test_a_workspace_of_a_manager_that_was_put_there_by_hand_is_its_owners(
    premises: Premises, owner: int
) -> None:
    make(premises.tasks / "task-1")
    give(premises.tasks / "task-1", owner)
    async with create_workspace_manager("local") as manager:
        assert (await manager.get_executor("task-1").write_file("new.txt", "x\n")).success
    assert (premises.tasks / "task-1/new.txt").stat().st_uid == owner


@pytest.mark.parametrize("op", sorted(set(PLACES) - OF_FILES))
async def test_what_runs_as_the_owner_does_nothing_but_files(folder: Path, op: str) -> None:
    mount = Mount(source=str(folder), target=str(folder), is_writable=True)
    spec = EnvironmentSpec(plan_id="", purpose="execute", workspace=mount, is_owners=True)
    host = environment_for(ExecutionEnvironment.HOST, os.environ)
    handle = await host.start(spec)
    try:
        toolbox = await host.attach(handle)
        said = await toolbox.call("call-1", op, {"command": "touch made", "path": "made"})
        await toolbox.close()
    finally:
        await host.end(handle)
    assert said["error"] == "FILES_ALONE"
    assert not (folder / "made").exists()
