"""Too little room: nothing new is begun, what runs comes to an orderly stop."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from engine.worksite import Worksite, call
from patchyard.clients import room
from patchyard.clients.room import Ballast, DiskRoom, free_bytes
from patchyard.contracts.journal import NewEvent
from patchyard.domain.errors import NoRoom, Unavailable
from patchyard.domain.machine import refused_by_machine
from patchyard.domain.plan import State
from patchyard.stores.blobs import FileBlobSpaces
from patchyard.stores.sqlite import SQLiteJournal

EVENT = NewEvent(type="Noted", schema=1, at=1.0, body={"text": "x" * 1500})
RESERVE = 4 * 1024**2


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MB."""
    place = tmp_path / "small"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=48m,mode=0711", "tmpfs", str(place)]
    subprocess.run(words, check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(folder: Path) -> Path:
    """Leave no byte free; return the file that takes them."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(65536)):
                continue
        except OSError:
            return filler
    return filler


def test_a_plan_is_begun_only_with_enough_room(tmp_path: Path) -> None:
    free = free_bytes(tmp_path)
    DiskRoom([tmp_path / "not/made/yet"], lambda: free // 2).require()
    with pytest.raises(NoRoom, match="MiB are free") as caught:
        DiskRoom([tmp_path], lambda: free * 2).require()
    assert caught.value.exit_code == 4
    assert "agents gc" in caught.value.hint


def test_a_plan_is_begun_only_where_files_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "FEWEST_FILES", 10**15)
    with pytest.raises(NoRoom, match="more files at"):
        DiskRoom([tmp_path], lambda: 1).require()


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Path]:
    """A file system with all its bytes free, and no inode."""
    place = tmp_path / "crowded"
    place.mkdir()
    options = "size=200m,nr_inodes=16,mode=0711"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True)
    (place / "made").mkdir()
    with suppress(OSError):
        for number in range(16):
            (place / f"{number}").touch()
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.service("root")
def test_a_database_that_finds_no_inode_says_so_with_the_device(crowded: Path) -> None:
    with pytest.raises(Unavailable, match=r"no inodes .* are left on none, where") as caught:
        SQLiteJournal.open(crowded / "made" / "patchyard.db")
    assert f"`df -i {crowded / 'made'}`" in caught.value.hint
    assert caught.value.exit_code == 4


@pytest.mark.service("root")
def test_a_checkpoint_that_finds_no_inode_says_so(crowded: Path) -> None:
    blobs = FileBlobSpaces(crowded / "made").of("01M86DAMKYERD830REQ4J2XSTD")
    with pytest.raises(Unavailable, match=r"no room for a checkpoint.*no inodes"), blobs.writing():
        blobs.fresh().touch()


@pytest.mark.service("root")
def test_what_found_no_inode_elsewhere_is_explained_by_the_path_it_names(crowded: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught:
        (crowded / "more").touch()
    said = DiskRoom([crowded.parent], lambda: 1).explained(refused_by_machine(caught.value))
    assert f"No space left on device: {room.INODES} on none" in said.message
    assert "df -i" in said.hint
    assert room.explained(said, [crowded]).message.count(room.INODES) == 1
    other = DiskRoom([crowded], lambda: 1).explained(Unavailable("no model"))
    assert other.message == "no model"


def test_the_reserve_is_taken_only_where_enough_stays_free(tmp_path: Path) -> None:
    place = tmp_path / "ballast"
    ballast = Ballast(place, size=RESERVE, portion=RESERVE // 2)
    ballast.load(needed=2 * free_bytes(tmp_path))  # others may free some meanwhile
    assert not ballast.drop()
    ballast.load(needed=0)
    assert place.stat().st_blocks * 512 >= RESERVE
    assert ballast.drop()
    assert place.stat().st_size == RESERVE // 2
    ballast.load(needed=0)
    assert [ballast.drop() for _ in range(3)] == [True, True, False]
    assert not place.exists()


@pytest.mark.anyio
@pytest.mark.service("root")
async def test_a_full_disk_takes_the_reserve_for_the_journal(small: Path) -> None:
    ballast = Ballast(small / "ballast", size=RESERVE)
    journal = SQLiteJournal.open(small / "journal.db", relief=ballast.drop)
    ballast.load(needed=0)
    version = await journal.append("plan", 0, [EVENT])
    fill(small)

    for _ in range(100):
        version = await journal.append("plan", version, [EVENT])
    assert (small / "ballast").stat().st_size < RESERVE

    while ballast.drop():
        continue
    fill(small)
    with pytest.raises(Unavailable, match="disk is full"):
        await journal.append("plan", version, [EVENT] * 1000)
    await journal.close()
    (small / "filler").unlink()
    again = SQLiteJournal.open(small / "journal.db")
    assert len(await again.read("plan")) == version
    await again.close()


@pytest.mark.anyio
@pytest.mark.service("root")
async def test_a_journal_is_opened_on_a_full_disk_with_the_reserve(small: Path) -> None:
    ballast = Ballast(small / "ballast", size=RESERVE)
    journal = SQLiteJournal.open(small / "journal.db")
    await journal.append("plan", 0, [EVENT])
    await journal.close()
    ballast.load(needed=0)
    fill(small)
    again = SQLiteJournal.open(small / "journal.db", relief=ballast.drop)
    await again.append("plan", 1, [EVENT])
    await again.close()


@pytest.mark.anyio
@pytest.mark.service("bubblewrap")
@pytest.mark.service("root")
async def test_a_plan_that_fills_the_disk_is_journalled_to_its_end_and_resumed(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHYARD_KEEP", "{free: 1MiB}")
    monkeypatch.setattr("patchyard.assembly.FREE_BYTES", 0)
    monkeypatch.setattr("patchyard.storage.Ballast", partial(Ballast, size=RESERVE))
    site = Worksite.make(small, {"a.txt": "one\n"})
    filling = call("execute_command", command="cat /dev/urandom > huge; rm a.txt", timeout_s=60)
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(filling))
        with pytest.raises(Unavailable):
            await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
        assert state.state == State.ERRORED
        assert state.open_calls == {}
        assert state.environments == {}
    root = next((small / "workspaces").rglob("huge"))
    os.truncate(root, 10)
    async with site.open() as (equipment, workflow):
        state = await workflow.run(plan_id)
        assert state.state == State.COMPLETE
    await site.clear()
