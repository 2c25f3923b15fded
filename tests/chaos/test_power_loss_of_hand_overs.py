"""The power is cut right after a hand-over was acknowledged: all of it is on the disk."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.disks import Machine, machine
from handovers import EDITS, FILES, order
from laboratory import AGENT, Lab, bytes_below, git
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.workspaces.copy import CopyWorkspaces
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.pinned import GitTrees
from timing import IS_SOAK

CASES = [("merge", False)]
CASES += [("merge", True), ("worktree", False), ("worktree", True)] if IS_SOAK else []

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("root"),
    pytest.mark.service("loop-devices"),
]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose disk holds the usual files; homes lie on another one, which lives on."""
    files = [(path, text) for path, text in FILES.items() if "/" not in path]
    with machine(tmp_path / "machine", files) as made:
        yield made


@pytest.fixture
def lab(here: Machine, tmp_path: Path) -> Lab:
    """A home beside the machine, for the repository on its disk."""
    trees = GitTrees(tmp_path / "home", uid=AGENT, gid=AGENT)
    workspaces = CopyWorkspaces(trees, tmp_path / "plans")
    return Lab(repo=here.yard / "repo", trees=trees, workspaces=workspaces)


async def changed(lab: Lab) -> tuple[Base, ChangeSet]:
    base = await lab.base()
    return base, await lab.changed(base, EDITS)


def cut(here: Machine, *, is_same_disk: bool) -> None:
    """Cut the power once the journal is on its disk, which may be the repository's."""
    if is_same_disk:
        with (here.yard / "journal").open("wb") as file:
            file.write(b"applied\n")
            file.flush()
            os.fsync(file.fileno())
    here.cut()
    here.start()


@pytest.mark.parametrize("is_same_disk", [True, False])
async def test_a_branch_and_a_patch_survive_and_so_does_their_taking_back(
    here: Machine, lab: Lab, is_same_disk: bool
) -> None:
    base, changeset = await changed(lab)
    branch = await lab.apply(base, changeset, order("branch"))
    patch = await lab.apply(base, changeset, order("patch", name=str(lab.repo / "p.patch")))
    written = (lab.repo / "p.patch").read_bytes()

    cut(here, is_same_disk=is_same_disk)

    assert git(lab.repo, "rev-parse", "patchyard/p1").strip() == branch.commit
    git(lab.repo, "fsck", "--strict")
    assert (lab.repo / "p.patch").read_bytes() == written
    handing = GitHandOver(lab.trees)
    for receipt in (branch, patch):
        await handing.take_back(base, changeset, receipt)

    cut(here, is_same_disk=is_same_disk)

    assert "patchyard/p1" not in git(lab.repo, "branch", "--list")
    assert not (lab.repo / "p.patch").exists()


@pytest.mark.parametrize(("to", "is_same_disk"), CASES)
async def test_files_index_and_branch_survive_and_so_does_their_taking_back(
    here: Machine, lab: Lab, to: str, is_same_disk: bool
) -> None:
    base, changeset = await changed(lab)
    before = bytes_below(lab.repo), git(lab.repo, "rev-parse", "HEAD")
    receipt = await lab.apply(base, changeset, order(to))
    after = bytes_below(lab.repo), git(lab.repo, "rev-parse", "HEAD")
    status = git(lab.repo, "status", "--porcelain")

    cut(here, is_same_disk=is_same_disk)

    assert (bytes_below(lab.repo), git(lab.repo, "rev-parse", "HEAD")) == after
    assert git(lab.repo, "status", "--porcelain") == status
    git(lab.repo, "fsck", "--strict")
    await GitHandOver(lab.trees).take_back(base, changeset, receipt)

    cut(here, is_same_disk=is_same_disk)

    assert (bytes_below(lab.repo), git(lab.repo, "rev-parse", "HEAD")) == before
    assert git(lab.repo, "status", "--porcelain") == ""
