"""What lay in a folder is remembered only for as long as nothing else can lie there."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ages import HOUR_NS, later, wait_for_tick
from patchyard.clients import filesystems, listings
from patchyard.clients.boot import boot_id
from patchyard.clients.listings import Listing, Listings, clocks, mount_of


def same(device: int, folder: Path) -> str:
    """Name a file system whose times vouch for what lies in its folders."""
    del folder
    return f"disk {device}"


def remembering(**how: Callable[..., object]) -> Listings:
    made = Listings(clock=later, mount_of=same)
    for name, value in how.items():
        setattr(made, name, value)
    return made


def look(memory: Listings, folder: Path) -> Listing:
    return memory.look().within(str(folder), folder.stat())


def by_name(listing: Listing) -> Listing:
    """Return a listing without the order of its names."""
    return replace(
        listing,
        folders=sorted(listing.folders),
        others=sorted(listing.others),
        dotted=sorted(listing.dotted),
        files=sorted(listing.files),
    )


def known(memory: Listings, folder: Path) -> Listing | None:
    return memory.known(folder.stat())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one of each kind, whose time of change is past."""
    made = tmp_path / "folder"
    (made / "below").mkdir(parents=True)
    for name in ("file", ".dotted"):
        (made / name).touch()
    (made / "link").symlink_to("below")
    os.mkfifo(made / "pipe")
    wait_for_tick(made)
    return made


LISTED = "_listed"
EACH = Listing(count=5, folders=["below"], others=["link", "pipe"], dotted=[".dotted"], files=[])


def _rename(folder: Path) -> None:
    (folder / "below").rename(folder / "beneath")


def _remove_pipe(folder: Path) -> None:
    (folder / "pipe").unlink()


def _pipe_over_file(folder: Path) -> None:
    os.mkfifo(folder.parent / "new")
    (folder.parent / "new").rename(folder / "file")


def _link_over_file(folder: Path) -> None:
    (folder.parent / "new").symlink_to("/dev/zero")
    (folder.parent / "new").rename(folder / "file")


def _pipe_for_dotted(folder: Path) -> None:
    (folder / ".dotted").unlink()
    os.mkfifo(folder / ".dotted")


def _folder_for_file(folder: Path) -> None:
    (folder / "file").unlink()
    (folder / "file").mkdir()


def _exchange_within(folder: Path) -> None:
    (folder / "file").rename(folder / "other")
    (folder / "pipe").rename(folder / "file")


def _other_folder(folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    folder.mkdir()
    os.mkfifo(folder / "file")


def _link_to_other_folder(folder: Path) -> None:
    _other_folder(folder)
    folder.rename(folder.with_name("there"))
    folder.symlink_to("there")


def _copy_with_times(folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    shutil.copytree(folder.with_name("away"), folder, symlinks=True, ignore=_only_pipes)
    status = folder.with_name("away").stat()
    os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))


def _only_pipes(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "pipe"]


def _times_put_back(folder: Path) -> None:
    status = folder.stat()
    os.mkfifo(folder / "second")
    os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: list[Callable[[Path], None]] = [
    lambda folder: (folder / "new").touch(),
    lambda folder: (folder / ".new").touch(),
    lambda folder: (folder / "new").mkdir(),
    lambda folder: (folder / "new").symlink_to("pipe"),
    lambda folder: (folder / "new").hardlink_to(folder / "pipe"),
    lambda folder: (folder / "below").rmdir(),
    _rename,
    _remove_pipe,
    _pipe_over_file,
    _link_over_file,
    _pipe_for_dotted,
    _folder_for_file,
    _exchange_within,
    _other_folder,
    _link_to_other_folder,
    _copy_with_times,
    _times_put_back,
]


def test_what_did_not_change_is_not_listed_anew(folder: Path) -> None:
    memory = remembering()

    first = look(memory, folder)

    assert by_name(first) == EACH
    assert look(memory, folder) is first
    (folder / "file").write_text("longer")
    assert look(memory, folder) is first  # what is in a file is not said


@pytest.mark.parametrize("change", CHANGES)
def test_each_kind_of_change_is_seen(folder: Path, change: Callable[[Path], None]) -> None:
    memory = remembering()
    first = look(memory, folder)

    change(folder)

    now = look(memory, folder)
    assert now is not first
    assert by_name(now) == by_name(Listings().look().anew(str(folder)))


@pytest.mark.service("root")
def test_what_is_mounted_over_a_folder_is_seen(folder: Path) -> None:
    memory = remembering()
    first = look(memory, folder)
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    try:
        os.mkfifo(folder / "over")
        assert look(memory, folder).others == ("over",)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
    assert look(memory, folder) is first


def test_a_folder_that_is_swapped_during_a_look_is_remembered_as_what_it_is(folder: Path) -> None:
    memory = remembering()
    before = folder.stat()
    _other_folder(folder)

    listing = memory.look().within(str(folder), before)

    assert listing.others == ("file",)
    assert memory.known(before) is None
    assert known(memory, folder) is listing


def test_a_folder_that_changes_while_it_is_listed_is_not_remembered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Listing] = getattr(listings, LISTED)

    def changing(descriptor: int, *, with_files: bool) -> Listing:
        made = real(descriptor, with_files=with_files)
        (folder / "meanwhile").touch()
        return made

    memory = remembering()
    monkeypatch.setattr(listings, LISTED, changing)

    assert look(memory, folder).count == EACH.count
    assert known(memory, folder) is None


def test_what_changed_within_two_seconds_is_not_remembered(folder: Path) -> None:
    at = folder.stat().st_ctime_ns
    memory = remembering(clock=lambda: (at + 2 * 10**9, HOUR_NS))
    look(memory, folder)
    assert known(memory, folder) is None

    memory.clock = lambda: (at + 2 * 10**9 + 1, HOUR_NS)
    look(memory, folder)
    assert known(memory, folder) is not None


def test_a_time_that_is_still_to_come_is_not_remembered(folder: Path) -> None:
    memory = remembering(clock=lambda: (folder.stat().st_ctime_ns - HOUR_NS, HOUR_NS))
    look(memory, folder)
    assert known(memory, folder) is None


@pytest.mark.parametrize(("moved_s", "is_kept"), [(-3600, False), (-1.5, False), (3600, True)])
def test_a_clock_that_was_put_back_ends_what_is_remembered(
    folder: Path, moved_s: float, *, is_kept: bool
) -> None:
    memory = remembering()
    look(memory, folder)
    moved = int(moved_s * 10**9)

    memory.clock = lambda: (later()[0] + moved, later()[1])
    memory.look()

    assert (known(memory, folder) is not None) is is_kept


def test_a_clock_that_was_put_back_and_forth_during_a_look_ends_it_too(folder: Path) -> None:
    memory = remembering()
    memory.look()
    memory.clock = lambda: (later()[0] + HOUR_NS, later()[1])
    memory.remember(folder.stat(), EACH)
    memory.clock = later

    memory.look()

    assert known(memory, folder) is None


def test_elsewhere_each_look_is_a_new_one(folder: Path) -> None:
    memory = remembering(mount_of=lambda *_: "")
    assert look(memory, folder) is not look(memory, folder)
    assert known(memory, folder) is None


def test_of_a_file_system_that_is_mounted_anew_nothing_is_known(folder: Path) -> None:
    memory = remembering()
    first = look(memory, folder)
    memory.mounted(folder.stat().st_dev + 1, "another")
    assert look(memory, folder) is first

    memory.mount_of = lambda *_: "mounted again"

    assert look(memory, folder) is not first


@pytest.mark.parametrize("place", ["/proc", "/sys"])
def test_files_of_the_kernel_are_listed_each_time(place: str) -> None:
    assert mount_of(Path(place).stat().st_dev, Path(place)) == ""


@pytest.mark.parametrize(
    ("kind", "source", "vouches"),
    [
        ("ext4", "/dev/vda", True),
        ("xfs", "/dev/mapper/home", True),
        ("tmpfs", "none", True),
        ("ext4", "/dev/loop3", False),
        ("btrfs", "/dev/vda", False),
        ("overlay", "overlay", False),
        ("fuse.sshfs", "host:/", False),
        ("nfs4", "host:/", False),
    ],
)
def test_only_some_kinds_of_file_system_vouch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, source: str, *, vouches: bool
) -> None:
    device = tmp_path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    said = tmp_path / "mountinfo"
    said.write_text(f"1 0 0:1 / / rw - rootfs none rw\n2 1 {number} / /x rw - {kind} {source} rw\n")
    monkeypatch.setattr(filesystems, "MOUNTS", said)

    assert (mount_of(device, tmp_path) != "") is vouches
    assert mount_of(device + 1, tmp_path) == ""


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "MOST_NAMES", 10)
    memory = remembering()
    large = tmp_path / "large"
    for number in range(15):
        (large / f"{number}").mkdir(parents=True)
        look(memory, large / f"{number}")

    assert len(memory.written()["rows"]) == 5
    assert len(look(memory, large).folders) == 15
    assert known(memory, large) is None
    first = look(memory, large / "1")
    for number in range(12):  # one that changes often counts once
        (large / "2").chmod(0o700 + number % 2)
        wait_for_tick(large / "2")
        look(memory, large / "2")
    assert look(memory, large / "1") is first


def test_names_of_plain_files_are_not_kept(folder: Path) -> None:
    memory = remembering()
    listing = memory.look().anew(str(folder), with_files=True)

    assert listing.files == ("file",)
    assert known(memory, folder) is None


def test_what_is_gone_or_no_folder_is_an_error(folder: Path) -> None:
    memory = remembering()
    status = folder.stat()
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError):
        memory.look().within(str(folder), status)
    folder.touch()
    with pytest.raises(NotADirectoryError):
        memory.look().anew(str(folder))


def test_another_process_takes_over_what_was_written(folder: Path) -> None:
    os.mkfifo(os.fsencode(folder) + b"/p\xff\n")
    memory = remembering()
    first = look(memory, folder)
    was_changed = memory.is_changed
    said = json.dumps(memory.written())
    assert (was_changed, memory.is_changed) == (True, False)

    other = remembering()
    other.read(json.loads(said))

    assert known(other, folder) == first
    assert look(other, folder) == first
    assert not other.is_changed


def test_what_was_written_before_this_boot_is_not_taken_over(folder: Path) -> None:
    memory = remembering()
    look(memory, folder)
    other = remembering()
    other.read({**memory.written(), "boot": "another"})
    assert known(other, folder) is None


def test_a_clock_that_was_put_back_between_processes_counts(folder: Path) -> None:
    memory = remembering()
    look(memory, folder)
    other = remembering(clock=clocks)
    said = json.loads(json.dumps(memory.written()))
    other.read({**said, "offset": clocks()[0] - clocks()[1] + HOUR_NS})

    other.look()

    assert known(other, folder) is None


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"rows": None},
        {"rows": [[1, 2]]},
        {"rows": [[1, 2, 3, 4, "names", [], []]]},
        {"rows": [[1, 2, 3, 4, [], [5], []]]},
        {"rows": [["x", 2, 3, 4, [], [], []]]},
        {"rows": [], "mounts": [[1]]},
        {"rows": [], "mounts": [], "offset": None},
    ],
)
def test_data_of_another_form_is_refused_whole(folder: Path, said: dict[str, object]) -> None:
    memory = remembering()
    look(memory, folder)
    with pytest.raises((LookupError, TypeError, ValueError)):
        memory.read({"boot": boot_id(), **said})
    assert known(memory, folder) is not None
