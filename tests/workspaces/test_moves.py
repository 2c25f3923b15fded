"""The record of what a hand-over wrote is on the disk, and found there, before the first move."""

import os
from pathlib import Path

import pytest

from patchyard.workspaces import moves
from patchyard.workspaces.moves import Mark, Moves


def test_the_folder_of_records_is_on_the_disk_with_its_name_before_a_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(moves, "sync_folder", synced.append)

    for name in ("first", "second"):
        Moves(tmp_path / "moves" / name).begins({"a": Mark(inode=1, mtime_ns=2)})

    assert synced == [tmp_path, tmp_path / "moves", tmp_path / "moves"]


@pytest.mark.parametrize("torn", ['["some/very/lo', '["a", 1', "\0\0\0", '["gone"]'])
def test_a_row_that_a_power_cut_tore_takes_no_later_one_along(tmp_path: Path, torn: str) -> None:
    record, moved = tmp_path / "moves" / "x", tmp_path / "moved"
    moved.touch()
    Moves(record).begins({})
    with record.open("a", encoding="ascii") as file:
        file.write(torn)

    resumed = Moves(record)
    resumed.begins({"first": Mark.of(moved.stat()), "second": Mark.of(moved.stat())})
    resumed.removes("old")

    known = Moves(record)
    assert [known.made(path, moved.stat()) for path in ("first", "second")] == [True, True]
    assert known.made("old", None)


def test_a_row_that_a_full_disk_tore_takes_no_later_one_along(tmp_path: Path) -> None:
    record = tmp_path / "moves" / "x"
    noting = Moves(record)
    noting.begins({})
    noting.removes("torn")
    os.truncate(record, record.stat().st_size - 2)
    noting.removes("old")
    assert [Moves(record).made(path, None) for path in ("torn", "old")] == [False, True]
