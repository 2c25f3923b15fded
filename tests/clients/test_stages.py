"""Where contents wait before they are moved in, in a folder that another user may write."""

import os
from pathlib import Path

import pytest

from patchyard.clients.stages import stage


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
