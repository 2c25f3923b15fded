"""What is brought to the disk after files were moved into a work tree."""

from pathlib import Path

import pytest

from patchyard.clients import syncing


def test_no_folder_behind_a_link_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top, elsewhere = tmp_path / "top", tmp_path / "elsewhere"
    (top / "real/deep").mkdir(parents=True)
    (elsewhere / "below").mkdir(parents=True)
    (top / "link").symlink_to(elsewhere)
    (top / "circle").symlink_to("circle/b")
    synced: list[str] = []
    monkeypatch.setattr(syncing, "sync_folder", lambda folder: synced.append(folder.name))
    paths = ["real/deep/a", "real/b", "link/below/c", "circle/b", "gone/d"]
    syncing.sync_folders_above(paths, top)
    assert synced == ["deep", "real", "gone", "top"]
