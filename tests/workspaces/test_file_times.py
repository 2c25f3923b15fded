"""Which files of a tree were read, as told from outside of it; every way to read is a real one."""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from laboratory import Lab
from patchyard.clients.notices import EVENT, Notices
from patchyard.contracts.file_times import Marks
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.workspaces.file_times import AccessTimes

TOOL = "#!/bin/sh\nexit 0\n"
FILES = {"data/five.txt": "10\n", "tool": TOOL, "other.txt": "x\n", "empty": ""}
COPIED = "import os; os.copy_file_range(os.open('other.txt', 0), os.open('o', 65), 1)"
UNNOTED = "import os; os.read(os.open('other.txt', os.O_NOATIME), 1)"
MAPPED = "import mmap, os; mmap.mmap(os.open('data/five.txt', 0), 0, prot=1)[:1]"
# What a program does in the tree, and which of the files it was that it read.
WAYS = {
    "cat": ("cat data/five.txt", "data/five.txt"),
    "a map of it": (f'{sys.executable} -c "{MAPPED}"', "data/five.txt"),
    "started as a program": ("./tool", "tool"),
    "an empty one": ("cat empty", "empty"),
    "through a link that is made": ("ln -s data/five.txt l && cat l", "data/five.txt"),
    "by another name": ("ln data/five.txt l && cat l", "data/five.txt"),
    "copied by the kernel": (f'{sys.executable} -c "{COPIED}"', "other.txt"),
    "a read that is not to be noted": (f'{sys.executable} -c "{UNNOTED}"', "other.txt"),
    "its time set back": ("cat other.txt; touch -a -d @0 other.txt", "other.txt"),
    "written": ("echo 7 > other.txt", "other.txt"),
    "replaced by the like": ("cp -p other.txt o && mv o other.txt", "other.txt"),
    "taken away": ("rm other.txt", "other.txt"),
    "its folder another": ("mv data d && mkdir data && cp -p d/five.txt data", "data/five.txt"),
    "a link in the place of its folder": ("mv data d && ln -s d data", "data/five.txt"),
    "a folder in its place": ("rm other.txt && mkdir other.txt", "other.txt"),
}


def mark(root: Path, *paths: str) -> Marks:
    marks = asyncio.run(AccessTimes().mark(str(root), paths or tuple(FILES)))
    assert marks is not None
    return marks


def seen(root: Path, marks: Marks) -> set[str]:
    found = asyncio.run(AccessTimes().read_since(str(root), marks))
    marks.close()
    return {*found}


def filled(root: Path) -> Path:
    for path, text in FILES.items():
        (root / path).parent.mkdir(exist_ok=True, parents=True)
        (root / path).write_text(text)
    (root / "tool").chmod(0o755)
    return root


def made(lab: Lab) -> Path:
    lab.write(FILES)
    (lab.repo / "tool").chmod(0o755)
    lab.commit()
    return Path(asyncio.run(_created(lab)).root)


async def _created(lab: Lab) -> WorkspaceRef:
    return await lab.workspaces.create(await lab.base(), workspace_id="W")


@pytest.mark.parametrize("way", WAYS)
def test_what_a_program_reads_is_seen_and_nothing_else(lab: Lab, way: str) -> None:
    root = made(lab)
    command, path = WAYS[way]
    marks = mark(root)
    assert {*marks.files} == {*FILES}
    subprocess.run(["sh", "-c", command], cwd=root, check=True)
    assert seen(root, marks) == {path}


def test_what_is_only_looked_at_was_not_read(lab: Lab) -> None:
    root = made(lab)
    marks = mark(root)
    subprocess.run(["sh", "-c", "ls -lR; stat *; test -e tool; find ."], cwd=root, check=True)
    assert seen(root, marks) == set()


def test_a_link_was_read_where_it_was_followed(lab: Lab) -> None:
    root = made(lab)
    (root / "l").symlink_to("other.txt")
    marks = mark(root, "l", "other.txt")
    subprocess.run(["ls", "-L", "l"], cwd=root, check=True)
    assert seen(root, marks) == {"l"}


def test_a_file_keeps_its_time_of_change_and_its_content(lab: Lab) -> None:
    root = made(lab)
    before = (root / "data/five.txt").stat()
    mark(root)
    after = (root / "data/five.txt").stat()
    assert (after.st_mtime_ns, after.st_atime_ns) == (before.st_mtime_ns, 0)
    assert (root / "data/five.txt").read_text() == "10\n"


def test_what_is_no_file_is_not_told_of(lab: Lab) -> None:
    root = made(lab)
    os.mkfifo(root / "pipe")
    (root / "away").symlink_to("/etc")
    marks = mark(root, "pipe", "data", "missing", "missing/deep", "away/passwd", "tool/x")
    assert marks.files == {}


def test_a_folder_that_is_closed_to_its_owner_is_passed_and_stays_closed(lab: Lab) -> None:
    root = made(lab)
    (root / "data").chmod(0)
    marks = mark(root, "data/five.txt")
    assert {*marks.files} == {"data/five.txt"}
    assert (root / "data").stat().st_mode & 0o777 == 0
    assert seen(root, marks) == set()


WRITTEN = {
    "echo 7 > other.txt": {"other.txt"},
    "cat other.txt; cp other.txt o; cat data/five.txt; ./tool": set(),
    "touch -d @0 other.txt": {"other.txt"},
    "cp -p other.txt o && mv o other.txt": {"other.txt"},
    "echo 7 > tool; echo '#!/bin/sh' > tool": {"tool"},
    "mv data d && ln -s d data": {"data/five.txt"},
    "rm empty": {"empty"},
    "mv data d && mkdir data && rmdir data && mv d data": {"data/five.txt"},
    "mv data d && ln -s d data && rm data && mv d data; touch data/new": {"data/five.txt"},
    "touch data/new new && mkdir data/__pycache__": set(),
}


@pytest.mark.parametrize("command", WRITTEN)
def test_what_a_program_writes_is_seen_and_what_it_reads_is_not(lab: Lab, command: str) -> None:
    root = made(lab)
    watching = AccessTimes()
    marks = asyncio.run(watching.note(str(root), [*FILES, "missing"]))
    assert {*marks.files} == {*FILES}
    subprocess.run(["sh", "-c", command], cwd=root, check=True)
    assert asyncio.run(watching.written_since(str(root), marks)) == WRITTEN[command]


def test_a_tree_that_is_moved_and_put_back_counts_as_written(tmp_path: Path) -> None:
    root = filled(tmp_path / "tree")
    marks = asyncio.run(AccessTimes().note(str(root), [*FILES]))
    root.rename(tmp_path / "other").rename(root)
    assert asyncio.run(AccessTimes().written_since(str(root), marks)) == {*FILES}
    marks.close()


@pytest.mark.parametrize("made", ["add", "__init__"])
def test_where_the_kernel_has_no_room_for_a_watch_times_tell_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    def none_left(*_words: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    root = filled(tmp_path / "tree")
    with monkeypatch.context() as patched:
        patched.setattr(Notices, made, none_left)
        marks = mark(root)
    assert not marks.lookout.is_whole
    (root / "other.txt").read_text()
    assert seen(root, marks) == {"other.txt"}


def test_where_what_the_kernel_told_got_lost_all_counts_as_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = filled(tmp_path / "tree")
    marks = mark(root)
    assert marks.lookout.is_whole
    overflow = EVENT.pack(-1, 0x4000, 0, 0)
    waiting = iter([overflow, b""])
    monkeypatch.setattr(Notices, "_waiting", lambda _: next(waiting))
    assert seen(root, marks) == {*FILES}


def test_where_the_tree_is_gone_all_counts_as_read_and_written(tmp_path: Path) -> None:
    root = filled(tmp_path / "tree")
    marks = mark(root)
    shutil.rmtree(root)
    assert asyncio.run(AccessTimes().mark(str(root), [*FILES])) is None
    assert asyncio.run(AccessTimes().note(str(root), [*FILES])).files == {}
    assert seen(root, marks) == {*FILES}
    assert asyncio.run(AccessTimes().written_since(str(root), marks)) == {*FILES}


@pytest.mark.service("root")
@pytest.mark.service("mount")
def test_a_file_system_that_notes_no_reads_is_told_apart(tmp_path: Path) -> None:
    place = tmp_path / "silent"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "noatime", "none", str(place)]
    subprocess.run(words, check=True)
    try:
        assert asyncio.run(AccessTimes().mark(str(filled(place)), [*FILES])) is None
        assert [each.name for each in place.glob(".patchyard*")] == []
    finally:
        subprocess.run(["umount", str(place)], check=True)
