"""Git of ours writes refs, logs and the index of a checkout by no link that a stranger left."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from handovers import begun, order, with_large_files
from laboratory import Lab, bytes_below, git
from patchyard.domain.errors import StateRefusal
from patchyard.workspaces.commits import UserRepository

pytestmark = pytest.mark.anyio


def _linked(repo: Path, name: str, target: Path) -> None:
    """Put a link in the place of a file or folder of the git directory."""
    place = repo / ".git" / name
    if place.exists():
        place.rename(repo.parent / "moved")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def _log_of_head(repo: Path) -> None:
    _linked(repo, "logs/HEAD", repo.parent / "mine/file")


def _log_of_the_branch(repo: Path) -> None:
    _linked(repo, "logs/refs/heads/main", repo.parent / "mine/file")


def _logs_of_branches(repo: Path) -> None:
    _linked(repo, "logs/refs/heads", repo.parent / "mine")


def _branches(repo: Path) -> None:
    (repo.parent / "mine/main").write_bytes((repo / ".git/refs/heads/main").read_bytes())
    _linked(repo, "refs/heads", repo.parent / "mine")


def _log_in_a_configuration(repo: Path) -> None:
    git(repo.parent / "mine", "init", "-q", "other")
    _linked(repo, "logs/HEAD", repo.parent / "mine/other/.git/config")


def _a_folder_of_objects(repo: Path) -> None:
    """One that holds no object: which do is another matter with each run."""
    names = (f"objects/{number:02x}" for number in range(256))
    empty = next(name for name in names if not (repo / ".git" / name).exists())
    _linked(repo, empty, repo.parent / "mine")


@pytest.mark.parametrize(
    "make",
    [
        *(_log_of_head, _log_of_the_branch, _logs_of_branches, _branches, _log_in_a_configuration),
        _a_folder_of_objects,
    ],
)
async def test_what_git_writes_stays_in_the_repository(
    copying: Lab, make: Callable[[Path], None]
) -> None:
    lab = copying
    base, changeset = await begun(lab)
    mine = lab.repo.parent / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine\n")
    make(lab.repo)
    before = bytes_below(lab.repo), bytes_below(mine, skip="nothing")

    with pytest.raises(StateRefusal, match="by a symbolic link"):
        await lab.apply(base, changeset, order("merge"))

    assert (bytes_below(lab.repo), bytes_below(mine, skip="nothing")) == before


async def test_large_content_is_written_by_no_link(copying: Lab) -> None:
    lab = copying
    with_large_files(lab)
    base = await lab.base()
    changeset = await lab.changed(base, {"x.bin": b"new"})
    mine = lab.repo.parent / "mine"
    mine.mkdir()
    (lab.repo / ".git/lfs").symlink_to(mine)

    with pytest.raises(StateRefusal, match=r"\.git/lfs leads to .*/mine by a symbolic link"):
        await lab.apply(base, changeset, order("branch"))

    assert not list(mine.iterdir())


@pytest.mark.service("root")
async def test_git_runs_as_the_owner_of_the_git_directory_that_it_opens(copying: Lab) -> None:
    """Another one may have had that place when it was looked at."""
    lab = copying
    base, _ = await begun(lab)
    place, other = lab.repo / ".git", lab.repo.parent / "other.git"
    shutil.copytree(place, other)
    for each in (other, *other.rglob("*")):
        os.lchown(each, 65534, 65534)
    for each in (lab.repo, *lab.repo.parents[:3]):
        each.chmod(0o755)
    user = UserRepository(lab.trees.open_store(lab.repo).source, lab.trees.git_of(base))
    place.rename(lab.repo.parent / "first.git")
    other.rename(place)

    user.move("refs/heads/new", base.commit or "", "", reason="test")

    assert (place / "refs/heads/new").lstat().st_uid == 65534


async def test_a_work_tree_that_shares_all_by_links_is_merged_into(copying: Lab) -> None:
    """As git-new-workdir makes them."""
    lab = copying
    base, changeset = await begun(lab)
    first = lab.repo.parent / "first.git"
    (lab.repo / ".git").rename(first)
    for name in ("refs", "objects", "logs/refs", "packed-refs", "config", "info"):
        place = lab.repo / ".git" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(first / name)
    for name in ("HEAD", "index"):
        (lab.repo / ".git" / name).write_bytes((first / name).read_bytes())

    receipt = await lab.apply(base, changeset, order("merge"))

    assert git(lab.repo, "rev-parse", "main").strip() == receipt.commit
