"""A file system has another name each time it is mounted, and the same one meanwhile."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchyard.clients import filesystems
from patchyard.clients.filesystems import is_same_mount, mount_id


def run(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that a disk of ours can be mounted at."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with (tmp_path / "image").open("wb") as file:
        file.truncate(16 * 1024 * 1024)
    run("mkfs.ext4", "-q", tmp_path / "image")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=False, capture_output=True)


@pytest.mark.service("root")
@pytest.mark.service("loop-devices")
def test_each_mount_of_a_disk_has_a_name_of_its_own(place: Path) -> None:
    seen = []
    for number in range(3):
        # Its own each time: another test's mount namespace may hold the last one mounted meanwhile.
        disk = shutil.copyfile(place.with_name("image"), place.with_name(f"disk-{number}"))
        run("mount", "-o", "loop", disk, place)
        seen.append(mount_id(place))
        (place / "below").mkdir(exist_ok=True)
        assert mount_id(place / "below") == seen[-1]
        run("umount", place)
    assert len(set(seen)) == 3


def test_a_name_that_knows_less_can_be_of_the_same_mount() -> None:
    assert is_same_mount("1792", "1792 260850")
    assert not is_same_mount("1792 260904", "1792 260850")
    assert not is_same_mount("1793", "1792")


def test_every_number_that_the_kernel_shows_for_a_disk_is_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path.stat().st_dev
    kinds, devices, other = tmp_path / "fs", tmp_path / "dev", tmp_path / "other"
    shown = [kinds / "ext4" / "vda", kinds / "btrfs" / "a1b2"]
    for folder in (*shown, kinds / "xfs" / "vdb", kinds / "btrfs" / "c3d4" / "devices", devices):
        folder.mkdir(parents=True)
    (kinds / "btrfs" / "a1b2" / "devices" / "vda").mkdir(parents=True)
    (devices / f"{os.major(device)}:{os.minor(device)}").symlink_to("../block/vda")
    monkeypatch.setattr(filesystems, "DEVICES", devices)
    for place, numbers in ((kinds, sorted(each.stat().st_ino for each in shown)), (other, [])):
        monkeypatch.setattr(filesystems, "KINDS", place)
        assert mount_id(tmp_path) == " ".join(map(str, [device, *numbers]))
