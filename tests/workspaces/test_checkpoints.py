"""What was written is kept and brought back whole, on each strategy."""

import os
import shutil
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from keeping import everything, kept, names, own
from laboratory import Lab
from patchyard.clients import syncing
from patchyard.clients.mounts import is_mounted
from patchyard.domain.errors import JournalBroken
from patchyard.domain.manifest import Entry
from patchyard.workspaces import rebuilding
from workspaces_edits import EDITS, edit

pytestmark = pytest.mark.anyio


async def test_new_changed_and_deleted_entries_come_back(lab: Lab) -> None:
    keeper, root = await kept(lab)
    before = everything(root)
    (root / "a.txt").write_text("changed\n")
    (root / "new/deep").mkdir(parents=True)
    (root / "new/deep/file").write_text("new\n")
    (root / "build/ignored.o").write_text("object\n")
    shutil.rmtree(root / "d")
    (root / "e/f/g.txt").rename(root / "moved.txt")
    own(root)
    middle = everything(root)
    first = dict(keeper.manifest)
    await keeper.keep()
    second = dict(keeper.manifest)

    await keeper.restore(first)
    assert everything(root) == before
    await keeper.restore(second)
    assert everything(root) == middle


async def test_modes_times_links_and_odd_things_come_back(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "secret").write_text("s")
    (root / "secret").chmod(0o600)
    os.utime(root / "secret", ns=(1, 1_234_567_891))
    (root / "tool").write_text("#!/bin/sh\n")
    (root / "tool").chmod(0o755)
    (root / "second-name").hardlink_to(root / "tool")
    (root / "out").symlink_to("/etc/passwd")
    (root / "hanging").symlink_to("nowhere")
    (root / "empty").mkdir(mode=0o700)
    os.mkfifo(root / "pipe")
    (root / "pipe").chmod(0o666)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "sock"))
    (root / os.fsdecode(b"no-\xff-utf8")).write_text("bytes\n")
    os.setxattr(root / "secret", "user.note", b"\x00\xffx")
    own(root)
    os.utime(root / "empty", ns=(5, 5_000_000_007))
    there = everything(root)
    await keeper.keep()
    manifest = dict(keeper.manifest)
    shutil.rmtree(root / "empty")
    for name in ("secret", "tool", "out", "pipe"):
        (root / name).unlink()

    await keeper.restore(manifest)

    assert everything(root) == there
    assert os.getxattr(root / "secret", "user.note") == b"\x00\xffx"
    assert (root / "tool").stat().st_ino == (root / "second-name").stat().st_ino


async def test_a_folder_made_anew_does_not_show_what_the_base_had_there(lab: Lab) -> None:
    keeper, root = await kept(lab)
    shutil.rmtree(root / "d")
    (root / "d").mkdir()
    (root / "d/own.txt").write_text("own\n")
    await keeper.keep()
    manifest = dict(keeper.manifest)
    shutil.rmtree(root / "d")

    await keeper.restore(manifest)

    assert names(root / "d") == {"own.txt"}


async def test_only_what_changed_is_stored_again(lab: Lab) -> None:
    keeper, root = await kept(lab)
    for number in range(20):
        (root / f"file{number}").write_text(f"{number}\n" * 1000)
    settle(root)
    assert (await keeper.keep()).stored > 20_000
    (root / "file3").write_text("other\n")
    delta = await keeper.keep()
    assert {path for path in delta.put if path} == {"file3"}
    assert delta.stored == len("other\n")
    delta = await keeper.keep()
    assert (dict(delta.put), list(delta.gone), delta.stored) == ({}, [], 0)


def settle(root: Path) -> None:
    """Date all files back, so that none counts as changed just now."""
    for place in root.glob("file*"):
        os.utime(place, ns=(1, 1))


async def test_a_change_within_one_tick_of_the_clock_is_seen(lab: Lab) -> None:
    keeper, root = await kept(lab)
    for number in range(30):
        (root / "log").write_text(f"{number:04}")
        await keeper.keep()
        manifest = dict(keeper.manifest)
        (root / "log").write_text("none")
        await keeper.keep()
        await keeper.restore(manifest)
        assert (root / "log").read_text() == f"{number:04}"


async def test_the_trees_files_are_named_and_not_stored(lab: Lab) -> None:
    keeper, _ = await kept(lab)
    stored = [place for place in (lab.repo.parent / "blobs").rglob("*") if place.is_file()]
    assert sum(place.stat().st_size for place in stored) < 10_000
    assert "a.txt" not in keeper.manifest or keeper.manifest["a.txt"].held.startswith("@")


async def test_a_lost_or_damaged_content_changes_nothing(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "new.txt").write_text("precious\n")
    await keeper.keep()
    manifest = dict(keeper.manifest)
    (root / "new.txt").write_text("later\n")
    (pack,) = (lab.repo.parent / "blobs" / keeper.ref.workspace_id).glob("*.pack")
    pack.write_bytes(pack.read_bytes().replace(b"precious", b"flipped!"))
    for what in ("damaged", "missing"):
        with pytest.raises(JournalBroken, match=what):
            await keeper.restore(manifest)
        await lab.workspaces.open(keeper.base, keeper.ref)
        assert (root / "new.txt").read_text() == "later\n"
        pack.unlink(missing_ok=True)


async def test_a_manifest_that_leads_through_a_link_is_refused(lab: Lab, tmp_path: Path) -> None:
    keeper, _ = await kept(lab)
    outside = tmp_path / "outside"
    outside.mkdir()
    crooked = {
        **keeper.manifest,
        "way": Entry(stat.S_IFLNK | 0o777, held=str(outside)),
        "way/file": Entry(stat.S_IFREG | 0o644, held="0" * 64),
    }
    with pytest.raises(JournalBroken, match="no folder above"):
        await keeper.restore(crooked)
    assert list(outside.iterdir()) == []


async def test_a_whole_tree_can_go_and_come_back(lab: Lab) -> None:
    keeper, root = await kept(lab)
    there = everything(root)
    for place in root.iterdir():
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    manifest = dict(keeper.manifest)
    await keeper.keep()
    gone = dict(keeper.manifest)
    await keeper.restore(manifest)
    assert everything(root) == there
    await keeper.restore(gone)
    assert names(root) == set()


@settings(
    max_examples=6,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rounds=EDITS)
async def test_any_sequence_of_edits_is_brought_back_entry_by_entry(
    lab: Lab, rounds: list[list[tuple[str, str, str, bytes]]]
) -> None:
    keeper, root = await kept(lab, os.urandom(4).hex())
    try:
        past = [(everything(root), dict(keeper.manifest))]
        for steps in rounds:
            for step in steps:
                edit(root, *step)
            own(root)
            await keeper.keep()
            past.append((everything(root), dict(keeper.manifest)))
        for there, manifest in reversed(past):
            await keeper.restore(manifest)
            assert everything(root) == there
            delta = await keeper.keep()
            assert [path for path, entry in delta.put.items() if not entry.link] == []
            assert list(delta.gone) == []
    finally:
        await lab.workspaces.remove(keeper.ref)


class Killed(BaseException):
    """The engine died here."""


POINTS = ("make", "named", "sync", "moved", "placed")


@pytest.mark.parametrize("point", POINTS)
async def test_a_restore_that_was_killed_leaves_the_one_tree_or_the_other(
    lab: Lab, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, root = await kept(lab)
    (root / "new.txt").write_text("1\n")
    own(root)
    await keeper.keep()
    manifest, first = dict(keeper.manifest), everything(root)
    (root / "new.txt").write_text("2\n")
    own(root)
    second = everything(root)
    dies_at(point, monkeypatch)
    with pytest.raises(Killed):
        await keeper.restore(manifest)
    monkeypatch.undo()

    await lab.workspaces.open(keeper.base, keeper.ref)
    assert everything(root) == (first if point in {"moved", "placed"} else second)
    await keeper.restore(manifest)
    assert everything(root) == first
    left = names(root.parent / "own")
    assert left.isdisjoint({rebuilding.BEGUN, rebuilding.WHOLE, rebuilding.OLD})


def dies_at(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the restore die at one of its steps, by the number of file names it has changed."""
    real_sync, real_make = syncing.sync_folder, rebuilding.Rebuilding._make
    rename = Path.rename
    renamed: list[Path] = []

    def making(self: rebuilding.Rebuilding, *arguments: Any) -> None:
        if point == "make":
            raise Killed
        real_make(self, *arguments)

    def synced(path: Path) -> None:
        if point == "sync":
            raise Killed
        real_sync(path)

    def renaming(self: Path, target: Path) -> Path:
        done = rename(self, target)
        renamed.append(self)
        if len(renamed) == {"named": 1, "moved": 2, "placed": 3}.get(point):
            raise Killed
        return done

    monkeypatch.setattr(rebuilding.Rebuilding, "_make", making)
    monkeypatch.setattr(rebuilding, "sync_folder", synced)
    monkeypatch.setattr(Path, "rename", renaming)


async def test_contents_half_written_by_a_killed_checkpoint_count_for_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, root = await kept(lab)
    (root / "new.txt").write_text("1\n")

    def dies(_descriptor: int) -> None:
        raise Killed

    monkeypatch.setattr(os, "fsync", dies)
    with pytest.raises(Killed):
        await keeper.keep()
    monkeypatch.undo()
    await keeper.keep()
    manifest = dict(keeper.manifest)
    (root / "new.txt").unlink()
    await keeper.restore(manifest)
    assert (root / "new.txt").read_text() == "1\n"


async def test_a_workspace_that_was_deleted_whole_comes_back_with_its_changes(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "new.txt").write_text("new\n")
    (root / "a.txt").write_text("changed\n")
    (root / "d/b.txt").unlink()
    own(root)
    await keeper.keep()
    await lab.workspaces.close(keeper.ref)
    shutil.rmtree(root.parent)
    await keeper.restore(dict(keeper.manifest))
    captured = await lab.workspaces.capture(keeper.base, keeper.ref)
    assert {each.path for each in captured.changes} == {"new.txt", "a.txt", "d/b.txt"}


async def test_a_restored_overlay_is_mounted_again_over_a_new_folder(lab: Lab) -> None:
    keeper, root = await kept(lab)
    if keeper.ref.strategy != "overlay":
        assert not is_mounted(root)
        return
    upper = keeper.ref.details["upper"]
    before = os.lstat(upper).st_ino
    await keeper.restore(dict(keeper.manifest))
    assert os.lstat(upper).st_ino != before
    assert is_mounted(root)


async def test_an_owner_without_root_lends_itself_what_it_closed(ordinary: Path) -> None:
    from laboratory import lab_at  # noqa: PLC0415 - as the ordinary user

    lab = lab_at(ordinary, "copy")
    keeper, root = await kept(lab)
    (root / "closed").mkdir()
    (root / "closed/file").write_text("inside\n")
    (root / "closed/file").chmod(0)
    (root / "closed").chmod(0)
    await keeper.keep()
    manifest = dict(keeper.manifest)
    assert stat.S_IMODE((root / "closed").stat().st_mode) == 0
    (root / "closed").chmod(0o700)
    shutil.rmtree(root / "closed")

    await keeper.restore(manifest)

    assert stat.S_IMODE((root / "closed").stat().st_mode) == 0
    (root / "closed").chmod(0o700)
    assert stat.S_IMODE((root / "closed/file").stat().st_mode) == 0
    (root / "closed/file").chmod(0o600)
    assert (root / "closed/file").read_text() == "inside\n"
