"""Virtual machines that do not start: each says why and the cure, and leaves nothing."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environments.yards import VM, Adapter, Yard
from patchyard.clients import machine_shelf, machine_templates, qemu
from patchyard.clients.berths import MARK
from patchyard.clients.guests import LEAST_MIB
from patchyard.clients.process import ProcessRef, all_processes
from patchyard.clients.wardens import Start
from patchyard.domain.environment import ExecutionEnvironment, Limits, Mount
from patchyard.domain.errors import EnvironmentUnavailable, UsageError
from patchyard.environments import vm
from patchyard.environments.vm import VmEnvironment
from services import kernel_folder

pytestmark = [pytest.mark.anyio, pytest.mark.service("qemu"), pytest.mark.timeout(900)]


@pytest.fixture(params=[VM])
def adapter(request: pytest.FixtureRequest, yard: Yard) -> Adapter:
    return yard.adapter(request.param)


@pytest.fixture
def bare(yard: Yard, tmp_path: Path) -> Yard:
    """A yard without saved machines."""
    yard.station = replace(yard.station, shelf=tmp_path / "shelf", machine_image="")
    (tmp_path / "shelf").mkdir()
    return yard


def running_machines(prefix: str) -> list[int]:
    """Machines whose folders begin like this; others may be at work beside this test."""
    mark = f"\0{MARK}={prefix}".encode()
    found = []
    for each in all_processes():
        with contextlib.suppress(OSError):
            words = b"\0" + Path(f"/proc/{each.pid}/environ").read_bytes()
            if mark in words and each.state not in "ZX":
                found.append(each.pid)
    return found


async def refusal(yard: Yard, **changes: Any) -> EnvironmentUnavailable:
    spec = replace(yard.spec(), **changes)
    with pytest.raises(EnvironmentUnavailable) as refused:
        await VmEnvironment(yard.station).start(spec)
    assert refused.value.hint
    assert list(yard.station.runtime.glob("0*")) == []
    return refused.value


async def test_a_folder_that_is_not_there(bare: Yard) -> None:
    assert "/no/such/folder" in (await refusal(bare, image="/no/such/folder")).message


async def test_a_machine_without_a_kernel(
    bare: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_templates, "SYSTEM", tmp_path / "system")
    refused = await refusal(bare)
    assert "no kernel" in refused.message
    assert "linux-image-cloud" in refused.hint


async def test_a_machine_without_qemu(bare: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "PROGRAMS", {})
    qemu.find_qemu.cache_clear()
    assert "not made on" in (await refusal(bare)).message
    monkeypatch.setattr(qemu, "PROGRAMS", dict.fromkeys(["x86_64", "aarch64"], "no-such-qemu"))
    refused = await refusal(bare)
    assert "qemu-system" in refused.hint
    assert refused.message == "QEMU is not installed"
    monkeypatch.setattr(qemu, "PROGRAMS", dict.fromkeys(["x86_64", "aarch64"], "false"))
    broken = await refusal(bare)
    assert "does not run" in broken.message
    assert "free some memory" in broken.hint
    qemu.find_qemu.cache_clear()


async def test_check_says_what_is_in_the_way(
    bare: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_templates, "SYSTEM", tmp_path)
    readiness = await VmEnvironment(bare.station).check()
    assert readiness.kind is ExecutionEnvironment.VM
    assert not readiness.is_ready
    assert readiness.cause
    assert readiness.cure


async def test_a_kernel_that_is_none(
    bare: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"none-{secrets.token_hex(8)}-"
    monkeypatch.setattr(tempfile, "template", prefix)
    seen = set[int]()
    real = Start.begun

    async def begun(start: Start) -> ProcessRef:
        try:
            return await real(start)
        finally:
            seen.update(running_machines(prefix))

    monkeypatch.setattr(Start, "begun", begun)
    refused = await refusal(bare, image=bare_kernel(tmp_path))
    assert refused.message
    assert seen
    assert running_machines(prefix) == []


def bare_kernel(folder: Path) -> str:
    """The kernel's folder of the tests, its kernel replaced by what is none."""
    root = Path(kernel_folder() or "/")
    made = folder / "image"
    (made / "boot").mkdir(parents=True)
    (made / "lib").symlink_to(root / "lib")
    release = max(path.name for path in (root / "boot").glob("vmlinuz-*"))
    (made / "boot" / release).write_bytes(b"no kernel")
    return str(made)


async def test_too_little_memory(yard: Yard) -> None:
    limits = Limits(memory_bytes=64 * 1024**2)
    assert str(LEAST_MIB) in (await refusal(yard, limits=limits)).hint


async def test_too_little_room_for_its_files(bare: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_templates, "SPARE_BYTES", 1 << 62)
    assert "MiB are free" in (await refusal(bare, image=kernel_folder())).message


async def test_a_workspace_in_place_of_the_system(yard: Yard) -> None:
    workspace = Mount(source=str(yard.workspace), target="/usr", is_writable=True)
    with pytest.raises(UsageError, match="/usr"):
        await VmEnvironment(yard.station).start(replace(yard.spec(), workspace=workspace))


async def test_a_guest_that_does_not_answer_in_time(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await VmEnvironment(yard.station).programs("/srv/shop")  # the saved state is there
    monkeypatch.setattr(vm, "START_TIMEOUT_S", 0.05)
    assert "did not start" in (await refusal(yard)).message


@pytest.mark.parametrize("left", [0, 4096])
async def test_a_damaged_saved_state_is_named_and_made_anew_by_the_next_start(
    yard: Yard, tmp_path: Path, left: int
) -> None:
    """As a power cut or a disk can leave it; every start failed by it, for good."""
    await VmEnvironment(yard.station).programs("/srv/shop")  # the files are there
    shelf = tmp_path / "shelf"
    shutil.copytree(yard.station.prepare(), shelf, copy_function=os.link)
    states = list((shelf / machine_shelf.MACHINES).glob("state-*"))
    for state in states:
        saved = state.read_bytes()[:left]
        state.unlink()  # of all its names only this one is damaged
        state.write_bytes(saved)
    yard.station = replace(yard.station, shelf=shelf)
    refused = await refusal(yard)
    assert refused.retryable
    assert "was damaged, and has been deleted" in refused.message
    assert [state.exists() for state in states].count(False) == 1


async def test_a_guest_that_refuses_what_it_is_told(yard: Yard) -> None:
    workspace = Mount(source=str(yard.workspace), target="/var/lib/dpkg/x", is_writable=True)
    spec = replace(yard.spec(), workspace=workspace)
    with pytest.raises(EnvironmentUnavailable, match="refused"):
        await VmEnvironment(yard.station).start(spec)


async def test_programs_are_told_by_their_disk(yard: Yard) -> None:
    marks: Mapping[str, str] = await VmEnvironment(yard.station).programs("/srv/shop")
    assert marks["image"].startswith("disk-")
