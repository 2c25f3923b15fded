"""The top of a checkout is written to where it is the work tree of its git directory."""

from pathlib import Path

import pytest

from laboratory import git
from patchyard.domain.errors import Conflict
from patchyard.workspaces.holding_tops import held_top


def repository(place: Path) -> Path:
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    git(place, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-mx")
    return place


def test_a_folder_stays_the_same_whatever_takes_its_name(tmp_path: Path) -> None:
    mine, others = repository(tmp_path / "mine"), tmp_path / "others"
    others.mkdir()

    with held_top(mine, mine / ".git") as top:
        mine.rename(tmp_path / "moved")
        mine.symlink_to(others)
        (top / "made").touch()

    assert (tmp_path / "moved/made").exists()
    assert not list(others.iterdir())


def test_a_linked_work_tree_is_the_work_tree_of_its_own_git_directory_alone(tmp_path: Path) -> None:
    mine = repository(tmp_path / "mine")
    for name in ("one", "two"):
        git(mine, "worktree", "add", "-q", str(tmp_path / name))
    folders = mine / ".git/worktrees"

    with held_top(tmp_path / "one", folders / "one") as top:
        assert (top / ".git").is_file()
    with pytest.raises(Conflict), held_top(tmp_path / "two", folders / "one"):
        pass
    (tmp_path / "two/.git").write_text("gitdir: ../mine/.git/worktrees/two\n")
    with held_top(tmp_path / "two", folders / "two") as top:
        assert (top / ".git").is_file()


@pytest.mark.parametrize("other", ["empty", "repository", "file", "loop"])
def test_another_folder_is_refused_by_name(tmp_path: Path, other: str) -> None:
    mine = repository(tmp_path / "mine")
    there = tmp_path / "there"
    if other == "repository":
        repository(there)
    else:
        there.mkdir()
    if other == "file":
        (there / ".git").write_text("no git directory\n")
    if other == "loop":
        (there / ".git").symlink_to(".git")

    said = "there was replaced while it was worked on, nothing was changed"
    with pytest.raises(Conflict, match=said), held_top(there, mine / ".git"):
        raise AssertionError
