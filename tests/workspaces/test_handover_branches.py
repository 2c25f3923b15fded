from pathlib import Path

import pytest

from handovers import EDITS, FILES, begun, order
from laboratory import Lab, bytes_below, git
from patchyard.domain.errors import Conflict, StateRefusal, UnknownName, UsageError
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio


async def test_a_branch_holds_the_result_and_leaves_index_and_work_tree_alone(copying: Lab) -> None:
    copying.write(FILES)
    head = copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, EDITS)
    files = bytes_below(copying.repo)
    index = (copying.repo / ".git/index").stat().st_mtime_ns

    receipt = await copying.apply(base, changeset, order("branch"))

    assert bytes_below(copying.repo) == files
    assert (copying.repo / ".git/index").stat().st_mtime_ns == index
    assert git(copying.repo, "rev-parse", "patchyard/p1^").strip() == head
    assert git(copying.repo, "rev-parse", "patchyard/p1^{tree}").strip() == changeset.tree
    assert git(copying.repo, "log", "-1", "--format=%s", "patchyard/p1") == "Mend it\n"
    git(copying.repo, "fsck", "--strict")

    handing = GitHandOver(copying.trees)
    await handing.carry_out(base, changeset, order("branch"), receipt)
    await handing.take_back(base, changeset, receipt)
    assert "patchyard/p1" not in git(copying.repo, "branch", "--list")


async def test_a_branch_from_a_dirty_base_leaves_the_dirt_behind(copying: Lab) -> None:
    copying.write(FILES)
    copying.commit()
    copying.write({"a.txt": "one\ntwo\nthree\nfour\nFIVE\n", "scratch": "mine\n"})
    base = await copying.base()
    changeset = await copying.changed(base, {"a.txt": "ONE\ntwo\nthree\nfour\nFIVE\n"})

    await copying.apply(base, changeset, order("branch"))

    assert git(copying.repo, "show", "patchyard/p1:a.txt") == "ONE\ntwo\nthree\nfour\nfive\n"
    names = git(copying.repo, "ls-tree", "-r", "--name-only", "patchyard/p1").split()
    assert "scratch" not in names


async def test_a_branch_that_overlaps_uncommitted_work_is_a_conflict(copying: Lab) -> None:
    copying.write(FILES)
    copying.commit()
    copying.write({"a.txt": "eins\ntwo\nthree\nfour\nfive\n"})
    base = await copying.base()
    changeset = await copying.changed(base, {"a.txt": "uno\ntwo\nthree\nfour\nfive\n"})

    with pytest.raises(Conflict) as caught:
        await copying.apply(base, changeset, order("branch"))

    assert caught.value.details["paths"] == ["a.txt"]
    assert "patchyard" not in git(copying.repo, "branch", "--list")


async def test_a_branch_name_that_is_taken_or_wrong_is_refused(copying: Lab) -> None:
    base, changeset = await begun(copying)
    git(copying.repo, "branch", "taken")

    with pytest.raises(Conflict):
        await copying.apply(base, changeset, order("branch", name="taken"))
    with pytest.raises(UsageError):
        await copying.apply(base, changeset, order("branch", name="a..b"))
    with pytest.raises(UnknownName):
        await copying.apply(base, changeset, order("brunch"))


async def test_merge_moves_branch_index_and_work_tree_together(copying: Lab) -> None:
    base, changeset = await begun(copying)

    receipt = await copying.apply(base, changeset, order("merge"))

    assert git(copying.repo, "status", "--porcelain") == ""
    assert git(copying.repo, "rev-parse", "HEAD").strip() == receipt.commit
    await GitHandOver(copying.trees).take_back(base, changeset, receipt)
    assert git(copying.repo, "status", "--porcelain") == ""
    assert git(copying.repo, "rev-parse", "HEAD").strip() == base.commit


async def test_merge_joins_newer_commits_and_keeps_uncommitted_work(copying: Lab) -> None:
    base, changeset = await begun(copying)
    copying.write({"b/c.txt": "newer\n"})
    newer = copying.commit("newer")
    copying.write({"a.txt": "one\ntwo\nthree\nfour\nFIVE\n"})

    receipt = await copying.apply(base, changeset, order("merge"))

    parents = git(copying.repo, "log", "-1", "--format=%P", "HEAD").split()
    assert parents[0] == newer
    assert len(parents) == 2
    assert git(copying.repo, "status", "--porcelain") == " M a.txt\n"
    assert (copying.repo / "a.txt").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
    await GitHandOver(copying.trees).take_back(base, changeset, receipt)
    assert git(copying.repo, "rev-parse", "HEAD").strip() == newer
    assert (copying.repo / "a.txt").read_text() == "one\ntwo\nthree\nfour\nFIVE\n"


async def test_a_merge_whose_branch_cannot_move_changes_nothing(copying: Lab) -> None:
    base, changeset = await begun(copying)
    before = git(copying.repo, "status", "--porcelain"), (copying.repo / "a.txt").read_bytes()
    branch = git(copying.repo, "symbolic-ref", "HEAD").strip()
    lock = copying.repo / ".git" / f"{branch}.lock"
    lock.touch()
    with pytest.raises(Conflict, match="held by another git"):
        await copying.apply(base, changeset, order("merge"))
    after = git(copying.repo, "status", "--porcelain"), (copying.repo / "a.txt").read_bytes()
    assert after == before
    lock.unlink()
    await copying.apply(base, changeset, order("merge"))
    assert (copying.repo / "a.txt").read_bytes() != before[1]


async def test_merge_refuses_a_clash_a_detached_head_and_staged_work(copying: Lab) -> None:
    base, changeset = await begun(copying)
    copying.write({"a.txt": "other\ntwo\n"})
    git(copying.repo, "add", "a.txt")
    with pytest.raises(Conflict):
        await copying.apply(base, changeset, order("merge"))
    git(copying.repo, "commit", "-qm", "clash")
    with pytest.raises(Conflict) as caught:
        await copying.apply(base, changeset, order("merge"))
    assert caught.value.details["paths"] == ["a.txt"]
    git(copying.repo, "checkout", "-q", "--detach")
    with pytest.raises(StateRefusal):
        await copying.apply(base, changeset, order("merge"))


async def test_a_patch_file_is_one_that_git_takes(copying: Lab, tmp_path: Path) -> None:
    copying.write(FILES)
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {**EDITS, "bin": bytes(range(256))})
    place = tmp_path / "x.patch"

    receipt = await copying.apply(base, changeset, order("patch", name=str(place)))
    await copying.apply(base, changeset, order("patch", name=str(place)))

    git(copying.repo, "apply", "--binary", str(place))
    assert bytes_below(copying.repo)["bin"] == ("-", bytes(range(256)))
    await GitHandOver(copying.trees).take_back(base, changeset, receipt)
    assert not place.exists()
    place.write_text("mine")
    with pytest.raises(Conflict):
        await copying.apply(base, changeset, order("patch", name=str(place)))
    with pytest.raises(UsageError):
        await copying.apply(base, changeset, order("patch", name=str(tmp_path / "no" / "x")))


async def test_no_hook_of_the_users_runs_at_any_hand_over(copying: Lab, tmp_path: Path) -> None:
    base, changeset = await begun(copying)
    hooks = copying.repo / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("reference-transaction", "post-commit", "post-index-change", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / name).chmod(0o755)
    git(copying.repo, "branch", "control")
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()

    await copying.apply(base, changeset, order("branch"))
    await copying.apply(base, changeset, order("merge"))

    assert not (tmp_path / "ran").exists()


async def test_a_branch_with_newer_commits_or_in_use_is_not_taken_back(copying: Lab) -> None:
    base, changeset = await begun(copying)
    receipt = await copying.apply(base, changeset, order("branch"))
    handing = GitHandOver(copying.trees)

    git(copying.repo, "checkout", "-q", "patchyard/p1")
    with pytest.raises(Conflict, match="checked out"):
        await handing.take_back(base, changeset, receipt)
    copying.write({"more": "m"})
    copying.commit()
    with pytest.raises(Conflict, match="newer commits"):
        await handing.take_back(base, changeset, receipt)


async def test_a_merge_that_was_set_back_is_seen_and_made_again(copying: Lab) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    receipt = await copying.apply(base, changeset, order("merge"))
    assert await handing.is_there(base, receipt)
    copying.write({"newer": "n\n"})
    copying.commit("newer")
    assert await handing.is_there(base, receipt)
    git(copying.repo, "reset", "-q", "--hard", "HEAD~2")

    assert not await handing.is_there(base, receipt)
    await handing.carry_out(base, changeset, order("merge"), receipt)

    assert await handing.is_there(base, receipt)
    assert git(copying.repo, "status", "--porcelain") == ""


async def test_a_damaged_branch_is_no_free_name(copying: Lab) -> None:
    base, changeset = await begun(copying)
    place = copying.repo / ".git/refs/heads/patchyard/p1"
    for content in (b"", bytes(41), b"garbage\n"):
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
        with pytest.raises(StateRefusal, match=r"patchyard/p1 of .* is broken: git cannot read it"):
            await copying.apply(base, changeset, order("branch"))
        assert place.read_bytes() == content
