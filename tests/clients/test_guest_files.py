"""What virtual machines start from: kernels, disks and first file systems, made here."""

import bz2
import gzip
import lzma
import os
import platform
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from patchyard.clients import guest_disks
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.guest_disks import ARCHIVE, LIST, disk_of, make_disk
from patchyard.clients.guest_kernels import DRIVERS, GuestKernel, content_of, find_kernel
from patchyard.clients.initramfs import initramfs
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.domain.errors import EnvironmentUnavailable, UsageError

CLOUD = "6.1.0-9-cloud-amd64"


def kernel(root: Path, release: str = CLOUD, *, ending: str = ".ko") -> Path:
    """A tree as a kernel's package unpacks; the folder of its modules."""
    (root / "boot").mkdir(parents=True, exist_ok=True)
    (root / "boot" / f"vmlinuz-{release}").write_bytes(b"kernel")
    modules = root / "lib/modules" / release
    modules.mkdir(parents=True)
    (modules / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
    for name in DRIVERS:
        folder = modules / "kernel/drivers/virtio"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}{ending}").write_bytes(b"module")
    return modules


def test_a_folder_without_a_kernel_has_none(tmp_path: Path) -> None:
    assert find_kernel(tmp_path) is None
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / "config-6.1").touch()
    assert find_kernel(tmp_path) is None


def test_the_newest_cloud_kernel_is_taken_before_any_other(tmp_path: Path) -> None:
    for release in ("6.1.0-9-cloud-amd64", "6.1.0-10-cloud-amd64", "6.12.0-1-amd64"):
        kernel(tmp_path, release)
    found = find_kernel(tmp_path)
    assert found is not None
    assert found.release == "6.1.0-10-cloud-amd64"
    assert [path.stem for path in found.modules] == list(DRIVERS)


def test_the_running_kernel_is_taken_before_a_newer_one(tmp_path: Path) -> None:
    for release in (platform.release(), "99.1.0-1-amd64"):
        kernel(tmp_path, release)
    found = find_kernel(tmp_path)
    assert found is not None
    assert found.release == platform.release()


def test_a_driver_that_is_built_in_is_no_module(tmp_path: Path) -> None:
    modules = kernel(tmp_path)
    (modules / "kernel/drivers/virtio/virtio_blk.ko").unlink()
    (modules / "kernel/drivers/virtio/virtio_pci_legacy_dev.ko").unlink()
    with (modules / "modules.builtin").open("a") as file:
        file.write("kernel/drivers/block/virtio_blk.ko\n")
    found = find_kernel(tmp_path)
    assert found is not None
    assert len(found.modules) == len(DRIVERS) - 2


@pytest.mark.parametrize("lacking", ["virtio_console", "modules", "ext4", "builtin"])
def test_a_kernel_that_cannot_do_it_is_refused_with_a_cure(tmp_path: Path, lacking: str) -> None:
    modules = kernel(tmp_path)
    if lacking == "modules":
        modules.rename(tmp_path / "elsewhere")
    elif lacking == "ext4":
        (modules / "modules.builtin").write_text("")
    elif lacking == "builtin":
        (modules / "modules.builtin").unlink()
    else:
        (modules / "kernel/drivers/virtio/virtio_console.ko").unlink()
    with pytest.raises(EnvironmentUnavailable) as refused:
        find_kernel(tmp_path)
    assert "linux-image-cloud" in refused.value.hint


@pytest.mark.parametrize(("ending", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_packed_modules_are_unpacked(tmp_path: Path, ending: str, pack: object) -> None:
    assert callable(pack)
    kernel(tmp_path, ending=f".ko{ending}")
    found = find_kernel(tmp_path)
    assert found is not None
    found.modules[0].write_bytes(pack(b"module"))
    assert content_of(found.modules[0]) == b"module"
    for damaged in (pack(b"module" * 1000)[:-20], b"no archive", pack(b"")[:6] + os.urandom(90)):
        found.modules[0].write_bytes(damaged)
        with pytest.raises(EnvironmentUnavailable, match="cannot be read"):
            content_of(found.modules[0])


def members(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """What a "newc" archive holds, by name: mode and content."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        assert archive[at : at + 6] == b"070701"
        mode, size, length = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 109 + length].decode()
        at = (at + 110 + length + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[at : at + size])
        at = (at + size + 3) // 4 * 4


def test_the_first_file_system_holds_python_toolbox_and_drivers(tmp_path: Path) -> None:
    kernel(tmp_path / "image")
    found = find_kernel(tmp_path / "image")
    assert isinstance(found, GuestKernel)
    python = toolbox_interpreter().path
    code = compiled_toolbox(tmp_path / "shelf", python)
    held = members(initramfs(found, python=python, code=code))
    assert stat.S_IMODE(held["init"][0]) == 0o755
    assert held["init"][1].startswith(f"#!{python} ".encode())
    drivers = sorted(name for name in held if name.startswith("modules/"))
    assert [name.split("-", 1)[1] for name in drivers] == list(DRIVERS)
    assert stat.S_ISCHR(held["dev/console"][0])
    assert "toolbox/guest.py" in held
    assert os.path.realpath(python).lstrip("/") in held
    ends = {PurePosixPath(name).name for name in held}
    for name, (mode, data) in held.items():
        if stat.S_ISLNK(mode):
            assert PurePosixPath(data.decode()).name in ends, name
        for parent in PurePosixPath(name).parents:
            assert str(parent) == "." or str(parent) in held


@pytest.mark.parametrize("python", ["/bin/false", "/bin/true"])
def test_a_python_that_does_not_run_is_said(tmp_path: Path, python: str) -> None:
    kernel(tmp_path)
    found = find_kernel(tmp_path)
    assert found is not None
    with pytest.raises(EnvironmentUnavailable, match="does not run"):
        initramfs(found, python=python, code=tmp_path)


def shown(disk: Path, path: str) -> str:
    words = ["/usr/sbin/debugfs", "-R", f"stat {path}", str(disk)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.mark.service("mke2fs")
def test_a_disk_is_made_of_packages_and_all_they_stand_on(tmp_path: Path) -> None:
    (tmp_path / LIST).write_text("bash\n")
    source = disk_of(tmp_path)
    assert source.digest != disk_of(None).digest
    tree = tmp_path / "tree"
    tree.mkdir()
    source.fill(tree)
    held = {str(path.relative_to(tree)) for path in tree.rglob("*")}
    assert {"usr/bin/bash", "usr/bin/python3", "usr/bin/env", "etc/ld.so.cache"} <= held
    assert any(name.startswith("usr/lib") and "/libc.so.6" in name for name in held)
    assert not any(name.startswith(("usr/share/man/", "home/", "root/")) for name in held)
    assert not (tree / "etc/shadow").exists()
    modes = [path.lstat().st_mode for path in tree.rglob("*")]
    assert not any(mode & 0o7000 for mode in modes if stat.S_ISREG(mode))
    make_disk(tree, tmp_path / "disk")
    assert "Type: regular" in shown(tmp_path / "disk", "/usr/bin/bash") or "symlink" in shown(
        tmp_path / "disk", "/usr/bin/bash"
    )


def test_a_package_that_is_not_here_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / LIST).write_text("bash no-such-package\n")
    with pytest.raises(UsageError, match="no-such-package"):
        disk_of(tmp_path)


def test_a_disk_is_made_of_an_archive(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text("it")
    with tarfile.open(tmp_path / ARCHIVE, "w") as archive:
        archive.add(tmp_path / "python3", arcname="usr/bin/python3")
        device = tarfile.TarInfo("dev/null")
        device.type = tarfile.CHRTYPE
        archive.addfile(device)
    source = disk_of(tmp_path)
    assert str(tmp_path / ARCHIVE) in source.said
    tree = tmp_path / "tree"
    tree.mkdir()
    before = source.digest
    source.fill(tree)
    assert [path.name for path in tree.rglob("*") if path.is_file()] == ["python3"]
    (tmp_path / ARCHIVE).write_bytes(b"no archive")
    assert source.digest != before
    with pytest.raises(EnvironmentUnavailable, match="cannot be unpacked"):
        source.fill(tree)


def test_an_archive_that_does_not_fit_is_told_with_a_cure(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("large")
    entry.size = 1 << 50
    (tmp_path / ARCHIVE).write_bytes(entry.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(EnvironmentUnavailable, match="does not fit") as refused:
        disk_of(tmp_path).fill(tmp_path)
    assert "free space" in refused.value.hint


def test_a_machine_without_debian_packages_is_told_what_to_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    with pytest.raises(EnvironmentUnavailable) as refused:
        disk_of(None)
    assert ARCHIVE in refused.value.hint


@pytest.mark.service("mke2fs")
def test_a_disk_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    with pytest.raises(EnvironmentUnavailable, match="cannot be made"):
        make_disk(tmp_path / "tree", tmp_path / "no" / "disk")


def test_without_the_program_for_disks_the_cure_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_disks, "TOOL_PLACES", str(tmp_path))
    with pytest.raises(EnvironmentUnavailable) as refused:
        make_disk(tmp_path, tmp_path / "disk")
    assert "e2fsprogs" in refused.value.hint


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "altered"])
def test_an_archive_that_is_damaged_in_its_packing_is_refused(
    tmp_path: Path, pack: Callable[[bytes], bytes], *, is_cut: bool
) -> None:
    (tmp_path / "python3").write_bytes(os.urandom(1_000_000))
    with tarfile.open(tmp_path / ARCHIVE, "w") as archive:
        archive.add(tmp_path / "python3", arcname="usr/bin/python3")
    packed = bytearray(pack((tmp_path / ARCHIVE).read_bytes()))
    packed[500_000:501_000] = bytes(1000)
    (tmp_path / ARCHIVE).write_bytes(packed[:500_000] if is_cut else packed)
    (tmp_path / "tree").mkdir()
    with pytest.raises(EnvironmentUnavailable, match="cannot be unpacked"):
        disk_of(tmp_path).fill(tmp_path / "tree")
