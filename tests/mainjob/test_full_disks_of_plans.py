"""Disks without room, met by a plan: named, nothing lost, and it goes on when there is some."""

import contextlib
import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mainjob.driver import Answer, Desk, bits, finish, shell, write
from patchyard.assembly import open_equipment
from patchyard.clients import room
from patchyard.clients.berths import try_out
from patchyard.domain.environment import HERE, ExecutionEnvironment
from patchyard.domain.resource import SSH_HOST, Resource
from patchyard.engine.trying import check_at, spec_of
from patchyard.workspaces import selection
from patchyard.workspaces.worktree import WorkTree

pytestmark = pytest.mark.service("bubblewrap")


@contextlib.contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"{options},mode=700", "none", str(place)]
    subprocess.run(mounting, check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def stick(desk: Desk) -> Iterator[Path]:
    """A file system with room for one page, beside the state folder."""
    with small_disk(desk.folder / "stick", "size=4k") as place:
        yield place


@pytest.mark.service("root")
def test_an_export_that_finds_no_room_names_its_file_and_leaves_nothing(
    desk: Desk, stick: Path
) -> None:
    assert desk.run(write("x", "x\n"), finish()).code == 0
    said = desk.agents("plan", "export", "@last", "--to", str(stick / "plan.json"))
    assert said.code == 4
    assert said.message.startswith(f"{stick / 'plan.json'}: No space left on device | free some")
    assert list(stick.iterdir()) == []


@pytest.fixture
def tight(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A file system of a few megabytes at the state folder, and no room asked for beforehand."""
    monkeypatch.setenv("PATCHYARD_KEEP", "{free: 1KiB}")
    with small_disk(desk.folder / "state", f"size={getattr(request, 'param', '6m')}") as place:
        yield place


@pytest.mark.service("root")
def test_a_full_disk_is_named_and_the_plan_goes_on_when_there_is_room(
    desk: Desk, tight: Path
) -> None:
    before = bits(desk.repo)
    filler = tight / "filler"
    assert desk.run(write("x", "x\n")).code == 0
    fill(filler)

    said = desk.run(write("y", "y\n"))

    assert said.code in {1, 3, 4}
    assert "disk" in said.message or "space" in said.message, said.message
    assert bits(desk.repo) == before
    filler.unlink()
    assert desk.agents("plan", "list").code == 0
    again = desk.run(write("y", "y\n"))
    assert again.code == 0, again.message


@pytest.mark.service("root")
@pytest.mark.parametrize("tight", ["200m,nr_inodes=150"], indirect=True)
def test_a_disk_without_inodes_is_named_by_command_and_plan_and_the_plan_goes_on_with_some(
    desk: Desk, tight: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewest = room.FEWEST_FILES
    monkeypatch.setattr(room, "FEWEST_FILES", 1)
    for number in range(150):
        (desk.repo / f"{number}").touch()

    said = desk.run(write("y", "y\n"), finish())

    assert (said.code, room.INODES in said.message) == (4, True), said.message
    kept = desk.agents("plan", "errors").data
    assert room.INODES in str(kept)
    monkeypatch.setattr(room, "FEWEST_FILES", fewest)
    (few,) = [row for row in desk.agents("doctor").data["findings"] if row["name"] == "disk"]
    assert (few["is_good"], "more files (`df -i`)" in few["said"]) == (False, True)
    subprocess.run(["mount", "-o", "remount,nr_inodes=0", str(tight)], check=True)
    assert desk.agents("plan", "resume").code == 0


@pytest.mark.service("root")
def test_a_list_of_kinds_says_of_each_why_it_does_not_start_and_where(
    desk: Desk, tight: Path
) -> None:
    fill(tight / "filler")
    full = desk.agents("env", "list")
    assert "the disk is full" in full.data["untried"]
    assert causes(full)["host"][0] == "No space left on device"
    assert f"{tight} has 0.0 MiB left" in causes(full)["host"][1]

    (tight / "filler").unlink()
    assert desk.agents("plan", "list").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(tight)], check=True)
    closed = desk.agents("env", "list")
    assert closed.data["untried"] == ""  # a read-only home can be looked at
    for kind in ("host", "process"):
        cause, cure = causes(closed)[kind]
        assert (str(tight) in cause, "Read-only" in cause, "PATCHYARD_HOME" in cure) == (
            *(True, True, True),
        ), cause

    below = desk.agents("env", "list", environ={"PATCHYARD_HOME": f"{tight}/below"})
    assert {cause for cause, _ in causes(below).values()} == {below.data["untried"]}
    assert f"the state folder {tight}/below, where plans" in below.data["untried"]


def causes(listed: Answer) -> dict[str, tuple[str, str]]:
    """Why each kind does not start, and the cure."""
    rows = listed.data["environments"]
    assert {row["kind"] for row in rows} == set(map(str, HERE))
    return {row["kind"]: (row["cause"], row["cure"]) for row in rows}


@pytest.mark.anyio
async def test_a_copy_that_finds_no_room_is_named_by_where_it_was_to_be() -> None:
    async def copied() -> Mapping[str, Any]:
        raise OSError(errno.ENOSPC, "No space", "/usr/bin/python3.11", None, "/run/it/python3.11")

    found = await try_out(ExecutionEnvironment.VM, copied())
    assert (found.is_ready, found.cause) == (False, "/run/it/python3.11: No space left on device")
    assert "free some space" in found.cure


@pytest.mark.anyio
async def test_a_resource_is_not_ready_where_nothing_can_be_written_for_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Resource(name="box", type=SSH_HOST, address="localhost")
    environ = {**os.environ, "PATCHYARD_HOME": str(tmp_path / "home")}
    async with open_equipment(environ) as equipment:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        found = await check_at(equipment, ExecutionEnvironment.HOST, spec_of(host))
    assert (found.is_ready, str(tmp_path / "gone") in found.cause) == (False, True)


def fill(place: Path) -> None:
    with place.open("wb", buffering=0) as file:
        for size in (65536, 512, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


def test_a_full_disk_in_the_workspace_is_a_result_for_the_actor(desk: Desk) -> None:
    said = desk.run(shell("dd if=/dev/zero of=/tmp/x bs=1M count=4096; rm /tmp/x; echo > result"))

    assert said.code == 0, said.message
    assert said.changed == {"result": "added"}


def no_room(*_arguments: object, **_further: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_apply_that_found_no_room_is_said_to_be_open(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = desk.run(write("x", "x\n"), finish()).data["plan_id"]
    with monkeypatch.context() as patch:
        patch.setattr(WorkTree, "_move_in", no_room)
        refused = desk.agents("plan", "apply", "--to", "merge")
    assert (refused.code, "No space left" in refused.message) == (4, True), refused.message

    again = f"agents plan apply {plan} --to merge"
    resumed = desk.agents("plan", "resume", is_json=False)
    assert (resumed.code, again in resumed.err) == (3, True), resumed.err
    assert f"next     {again}\n" in desk.agents("plan", "status", is_json=False).out.decode()
    assert "tries again" in str(desk.agents("plan", "resume", "--dry-run").data)

    assert desk.agents("plan", "apply", "--to", "merge").code == 0
    assert desk.agents("plan", "resume").code == 0


def test_a_workspace_is_opened_as_it_was_made_whatever_can_be_tried_now(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "can_overlay", lambda _: False)
    stopped = desk.run(write("x", "x\n"), write("y", "y\n"), options=["--max-steps", "1"])
    assert stopped.code == 5, stopped.message
    monkeypatch.setattr(selection, "can_overlay", no_room)

    assert desk.agents("plan", "limit", "@last", "--max-steps", "9").code == 0
    resumed = desk.agents("plan", "resume")

    assert resumed.changed == {"x": "added", "y": "added"}, resumed.message
    fresh = desk.run(write("x", "x\n"))
    assert (fresh.code, "No space left" in fresh.message) == (4, True), fresh.message
    assert desk.agents("plan", "cancel").code == 0


@pytest.mark.service("root")
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("tight", ["150k", "300k", "500k", "900k"], indirect=True)
def test_a_disk_that_fills_up_on_the_way_is_named(desk: Desk) -> None:
    before = bits(desk.repo)

    said = desk.run(shell("head -c 200000 /dev/urandom | base64"), write("big", "x" * 100_000))

    assert said.code == 4, said.message
    assert "space" in said.message
    assert bits(desk.repo) == before
