"""The record of what a hand-over wrote is on the disk, and found there, before the first move."""

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
