"""Where contents wait before they are moved in, in a folder that another user may write."""

import os
import subprocess
from pathlib import Path

import pytest

from patchyard.clients.reader import OPEN_FOLDER
from patchyard.clients.stages import stage, sweep


def test_what_is_made_goes_into_the_folder_that_was_made_whatever_takes_its_place(
    tmp_path: Path,
) -> None:
    place, others = tmp_path / "stage", tmp_path / "others"
    (others / "in").mkdir(parents=True)
    (others / "in/mine").write_text("mine\n")

    with stage(place, "in") as folder:
        (folder / "0").write_text("a\n")
        place.rename(tmp_path / "moved")
        place.symlink_to(others)
        (folder / "1").write_text("b\n")
        assert sorted(each.name for each in (tmp_path / "moved/in").iterdir()) == ["0", "1"]

    assert [each.name for each in (others / "in").iterdir()] == ["mine"]
    assert not (tmp_path / "moved/in").exists()


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "stage").symlink_to("others")

    with pytest.raises(OSError, match="stage"), stage(tmp_path / "stage", "in"):
        pass

    assert not list((tmp_path / "others").iterdir())


def test_what_a_killed_one_left_is_cleared_away_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "stage/in").mkdir(parents=True)
    (tmp_path / "stage/in/0").write_text("old\n")

    with stage(tmp_path / "stage", "in") as folder:
        assert not list(folder.iterdir())

    assert not (tmp_path / "stage").exists()


@pytest.mark.service("root")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stage").mkdir()
    os.chown(tmp_path / "stage", 1234, 1234)

    with pytest.raises(PermissionError, match="another user"), stage(tmp_path / "stage", "in"):
        pass


def swept(folder: Path) -> list[str]:
    """Sweep the stage in a folder; return what is left of it."""
    at = os.open(folder.parent, OPEN_FOLDER)
    try:
        sweep(folder.name, at)
    finally:
        os.close(at)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("inner", ["in/", "back/", ""])
def test_a_killed_ones_stage_is_swept(tmp_path: Path, inner: str) -> None:
    for name in ("0", "1", "23"):
        place = tmp_path / "stage" / f"{inner}{name}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x\n")
    (place.parent / "4").symlink_to("0")

    assert swept(tmp_path / "stage") == []
    assert not (tmp_path / "stage").exists()


def test_what_no_stage_has_stays_in_one(tmp_path: Path) -> None:
    for name in ("file", "in/note", "in/0/deep", "other/0"):
        place = tmp_path / "stage" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("mine\n")

    left = swept(tmp_path / "stage")

    assert left == ["file", "in", "in/0", "in/0/deep", "in/note", "other", "other/0"]


@pytest.mark.service("root")
def test_a_folder_of_another_user_is_left_with_all_of_ours_in_it(tmp_path: Path) -> None:
    (tmp_path / "stage/in").mkdir(parents=True)
    (tmp_path / "stage/in/0").write_text("root's\n")
    for owner in ((1234, 1234), (0, 0)):
        os.chown(tmp_path / "stage", *owner)
        (tmp_path / "stage").chmod(0o777 if owner == (0, 0) else 0o700)
        assert swept(tmp_path / "stage") == ["in", "in/0"]


@pytest.mark.service("root")
@pytest.mark.service("mount")
def test_what_is_mounted_in_it_is_not_entered(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "0").write_text("mine\n")
    (tmp_path / "stage/in").mkdir(parents=True)
    subprocess.run(["mount", "--bind", mine, tmp_path / "stage/in"], check=True)
    try:
        assert swept(tmp_path / "stage") == ["in", "in/0"]
        with stage(tmp_path / "stage", "back") as folder:
            assert not list(folder.iterdir())
    finally:
        subprocess.run(["umount", tmp_path / "stage/in"], check=True)
    assert (mine / "0").read_text() == "mine\n"
