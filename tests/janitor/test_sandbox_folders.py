"""Folders of programs that embed us, and were killed."""

import os
from pathlib import Path

import pytest

from engine.worksite import Worksite
from janitor.passing import gone, swept
from patchyard.cli.doctor import left_builds
from patchyard.clients import ssh
from patchyard.clients.temporaries import make_sandbox_folder
from patchyard.domain.retention import Family
from patchyard.engine.images import building

pytestmark = pytest.mark.anyio


async def test_of_sandboxes_only_those_of_processes_that_are_no_more_go(
    site: Worksite, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    live = make_sandbox_folder()
    (live / "workspace").mkdir()
    dead = folder / "patchyard-sandbox-999999999-abc_1234"
    (dead / "workspace/deep").mkdir(parents=True)
    async with site.open() as (equipment, _):
        assert gone(await swept(equipment, days=2)) == {Family.TEMPORARY: [dead.name]}
    assert [place.name for place in folder.iterdir()] == [live.name]


async def test_a_build_folder_goes_soon_where_its_process_is_gone_and_never_before(
    site: Worksite, tmp_path: Path
) -> None:
    dead, live = builds(tmp_path / "temporary")
    for made in (dead, live):
        (made / "context").mkdir(parents=True)
    async with site.open() as (equipment, _):
        assert gone(await swept(equipment, days=2 / 24)) == {Family.TEMPORARY: [dead.name]}
        assert gone(await swept(equipment, days=30)) == {}
    assert [place.name for place in live.parent.iterdir()] == [live.name]


def builds(folder: Path) -> tuple[Path, Path]:
    """Return the names of a folder of an engine that is gone, and of one at work."""
    of_gone, own = (folder / f"{building(pid)}abc_1234" for pid in (999_999_999, os.getpid()))
    return of_gone, own


@pytest.mark.service("sshd")
async def test_copies_of_the_ssh_configuration_go_soon_where_their_process_is_gone(
    site: Worksite, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    (tmp_path / ".ssh").mkdir()
    copying = f"ProxyCommand cp -r {folder} {tmp_path}/seen\n"  # while one connects
    (tmp_path / ".ssh/config").write_text(copying)
    with pytest.raises(ssh.Cut):
        await ssh.connect("h", str(tmp_path))
    assert [*folder.iterdir()] == []
    (seen,) = (tmp_path / "seen").iterdir()
    live, dead = seen.name, seen.name.replace(f"-{os.getpid()}-", "-999999999-")
    for name in (live, dead):
        (folder / name).mkdir(mode=0o700)
    async with site.open() as (equipment, _):
        assert gone(await swept(equipment, days=2 / 24)) == {Family.TEMPORARY: [dead]}
    assert [place.name for place in folder.iterdir()] == [live]


async def test_doctor_names_folders_of_builds_whose_engine_is_gone(
    site: Worksite, tmp_path: Path
) -> None:
    dead, live = builds(tmp_path / "temporary")
    for made in (dead, live):
        made.mkdir()
        (made / "context.tar").write_bytes(bytes(3 * 1024 * 1024))
    async with site.open() as (equipment, _):
        (found,) = await left_builds(equipment)
    assert (found.is_good, found.is_needed) == (False, False)
    assert str(dead) in found.said
    assert "3 MiB" in found.said
    assert "agents gc" in found.cure
    assert f"rm -r {dead}" in found.cure
