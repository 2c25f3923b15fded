"""Git of ours writes refs, logs and the index of a checkout by no link that a stranger left."""

from collections.abc import Callable
from pathlib import Path

import pytest

from handovers import begun, order
from laboratory import Lab, bytes_below, git
from patchyard.domain.errors import StateRefusal

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


@pytest.mark.parametrize(
    "make",
    [_log_of_head, _log_of_the_branch, _logs_of_branches, _branches, _log_in_a_configuration],
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
