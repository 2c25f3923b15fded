"""What of ours was deleted by hand: made again where that can be, else said to be lost."""

import shutil
from pathlib import Path

import pytest

from handovers import order
from laboratory import Lab, bytes_below, started
from patchyard.contracts.trees import whole
from patchyard.domain.errors import Unavailable
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.pinned import GitTrees

pytestmark = pytest.mark.anyio


async def test_a_deleted_workspace_says_what_is_lost_and_what_helps(lab: Lab) -> None:
    base = await started(lab)
    ref, _ = await lab.workspace(base, "01PLAN")
    await lab.workspaces.remove(ref)
    await lab.workspaces.remove(ref)

    with pytest.raises(Unavailable, match=r"plan 01PLAN was deleted.* is lost") as caught:
        await lab.workspaces.open(base, ref)

    assert "agents plan diff 01PLAN" in caught.value.hint
    assert "agents plan use" in caught.value.hint


async def test_a_workspace_without_its_notes_is_no_workspace(copying: Lab) -> None:
    base = await started(copying)
    ref, root = await copying.workspace(base)
    (root.parent / "own/notes.json").unlink()

    with pytest.raises(Unavailable, match="was deleted"):
        await copying.workspaces.open(base, ref)


@pytest.mark.service("overlay")
@pytest.mark.service("root")
async def test_a_deleted_mount_point_is_made_again(overlaid: Lab) -> None:
    base = await started(overlaid)
    ref, root = await overlaid.workspace(base)
    (root / "a.txt").write_text("mine\n")
    await overlaid.workspaces.close(ref)
    root.rmdir()
    shutil.rmtree(ref.details["work"])

    assert await overlaid.workspaces.open(base, ref) == root
    assert (root / "a.txt").read_text() == "mine\n"


async def test_deleted_checkouts_and_stores_are_made_again_from_the_repository(lab: Lab) -> None:
    base = await started(lab)
    lab.write({"d/b.txt": "uncommitted\n", "new": "untracked\n"})
    base = await lab.base()
    ref, root = await lab.workspace(base)
    (root / "a.txt").write_text("mine\n")
    await lab.workspaces.close(ref)
    shutil.rmtree(lab.trees.home)

    again = await lab.workspaces.open(base, ref)

    assert (again / "a.txt").read_text() == "mine\n"
    assert (again / "new").read_text() == "untracked\n"
    changeset = await lab.workspaces.capture(base, ref)
    assert [change.path for change in changeset.changes] == ["a.txt"]


@pytest.mark.parametrize("deleted", ["store.git", "history"])
async def test_a_commit_as_base_needs_the_commit_alone(copying: Lab, deleted: str) -> None:
    await started(copying)
    base = await copying.base(ref="head")
    copying.write({"a.txt": "meanwhile\n"})
    shutil.rmtree(Path(base.store).parent / deleted)

    checkout = await GitTrees(copying.trees.home).checkout(base)

    assert (checkout / "a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("what", ["edited", "gone"])
async def test_a_base_that_nobody_holds_any_more_is_said_to_be_lost(
    copying: Lab, what: str
) -> None:
    await started(copying)
    copying.write({"a.txt": "uncommitted\n"})
    base = await copying.base()
    shutil.rmtree(Path(base.store).parent)
    if what == "edited":
        copying.write({"a.txt": "newer\n"})
    else:
        shutil.rmtree(copying.repo)

    with pytest.raises(Unavailable, match="base of this plan was deleted") as caught:
        await GitTrees(copying.trees.home).checkout(base)

    assert "agents run" in caught.value.hint


async def test_a_result_that_went_with_the_store_is_said_to_be_lost(copying: Lab) -> None:
    base = await started(copying)
    changeset = await copying.changed(base, {"a.txt": "new\n"})
    shutil.rmtree(Path(base.store).parent)
    trees = GitTrees(copying.trees.home)
    before = bytes_below(copying.repo)

    with pytest.raises(Unavailable, match="result of this plan was deleted"):
        await whole(trees.diff(base, changeset))
    with pytest.raises(Unavailable, match="result of this plan was deleted"):
        await GitHandOver(trees).plan(base, changeset, order("worktree"))

    assert bytes_below(copying.repo) == before
