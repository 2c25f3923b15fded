"""Hand-over into a repository that another git holds, or held when it died."""

import asyncio
import subprocess

import pytest

from handovers import begun, order
from laboratory import Lab, git
from patchyard.domain.errors import Conflict, StateRefusal
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("to", ["branch", "merge"])
async def test_a_lock_that_a_dead_git_left_on_a_branch_is_named_and_can_be_cleared_away(
    copying: Lab, to: str
) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order(to))
    lock = copying.repo / ".git/refs/heads" / f"{intent.reference}.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    with pytest.raises(Conflict, match="or by one that died") as caught:
        await handing.carry_out(base, changeset, order(to), intent)
    assert str(lock) in caught.value.message
    assert f"`rm {lock}`" in (caught.value.hint or "")
    lock.unlink()

    await handing.carry_out(base, changeset, order(to), intent)

    assert git(copying.repo, "rev-parse", str(intent.reference)).strip() == intent.commit


async def test_a_merge_waits_for_the_users_own_merge_and_index(copying: Lab) -> None:
    base, changeset = await begun(copying)
    lock = copying.repo / ".git/index.lock"
    lock.touch()
    with pytest.raises(Conflict, match="held by another git") as caught:
        await copying.apply(base, changeset, order("merge"))
    assert f"`rm {lock}`" in (caught.value.hint or "")
    lock.unlink()
    git(copying.repo, "switch", "-q", "-c", "other")
    copying.write({"a.txt": "uno\ntwo\nthree\nfour\nfive\n"})
    copying.commit()
    git(copying.repo, "switch", "-q", "main")
    copying.write({"a.txt": "eins\ntwo\nthree\nfour\nfive\n"})
    copying.commit()
    merging = ["git", "-C", str(copying.repo), "merge", "-q", "other"]
    done = await asyncio.to_thread(subprocess.run, merging, check=False, capture_output=True)
    assert done.returncode == 1

    with pytest.raises((Conflict, StateRefusal)):
        await copying.apply(base, changeset, order("merge"))

    assert git(copying.repo, "ls-files", "--unmerged")
