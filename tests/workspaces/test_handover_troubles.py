"""What stands in the way of a hand-over, and a kill in the middle of one."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handovers import EDITS, FILES, begun, order
from laboratory import Lab, bytes_below, fingerprint, git, lab_at
from patchyard.contracts.handover import Receipt
from patchyard.domain.changeset import Base, Change, ChangeSet, ChangeStatus
from patchyard.domain.codec import to_json
from patchyard.domain.errors import Conflict, Unavailable
from patchyard.workspaces import edits
from patchyard.workspaces.edits import wanted
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio


def a_link(place: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to("elsewhere")


def a_folder(place: Path) -> None:
    place.unlink(missing_ok=True)
    (place / "mine").mkdir(parents=True)
    (place / "mine/file").touch()


def a_pipe(place: Path) -> None:
    place.unlink(missing_ok=True)
    os.mkfifo(place)


@pytest.mark.parametrize("arrange", [a_link, a_folder, a_pipe])
@pytest.mark.parametrize("path", ["a.txt", "gone.txt", "new"])
async def test_what_is_no_file_any_more_is_left_alone(
    copying: Lab, arrange: Callable[[Path], None], path: str
) -> None:
    base, changeset = await begun(copying)
    arrange(copying.repo / path)
    before = fingerprint(copying.repo)

    if (arrange, path) == (a_folder, "new"):
        await copying.apply(base, changeset, order("worktree"))
        assert (copying.repo / "new/mine/file").exists()
        return
    with pytest.raises(Conflict) as caught:
        await copying.apply(base, changeset, order("worktree"))

    assert caught.value.details["paths"] == ["new/deep.txt" if path == "new" else path]
    assert fingerprint(copying.repo) == before


async def test_a_file_that_cannot_be_read_is_in_the_way(ordinary: Path) -> None:
    lab = lab_at(ordinary, "copy")
    lab.write(FILES)
    lab.commit()
    base = await lab.base()
    changeset = await lab.changed(base, EDITS)
    (lab.repo / "a.txt").chmod(0)

    with pytest.raises(Conflict, match="cannot be read"):
        await lab.apply(base, changeset, order("worktree"))

    (lab.repo / "a.txt").chmod(0o644)
    assert bytes_below(lab.repo) == {path: ("-", text.encode()) for path, text in FILES.items()}


@pytest.mark.parametrize(
    ("old", "mine", "new"),
    [
        (b"1\n2\n\0\n", b"1\n2\n\0\nmine\n", b"0\n1\n2\n\0\n"),
        (b"1\n" + b"x" * 40 + b"\n", b"1\n" + b"x" * 40 + b"\nmine\n", b"0\n1\n" + b"x" * 41),
    ],
)
async def test_what_cannot_be_merged_as_text_is_a_conflict(
    copying: Lab, monkeypatch: pytest.MonkeyPatch, old: bytes, mine: bytes, new: bytes
) -> None:
    monkeypatch.setattr(edits, "MAX_MERGED_BYTES", 30)
    copying.write({"f": old})
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"f": new})
    copying.write({"f": mine})

    with pytest.raises(Conflict):
        await copying.apply(base, changeset, order("worktree"))

    assert (copying.repo / "f").read_bytes() == mine


async def test_links_are_not_merged_but_stay_or_clash(copying: Lab) -> None:
    copying.write(FILES)
    (copying.repo / "ln").symlink_to("a.txt")
    copying.commit()
    base = await copying.base()
    ref, root = await copying.workspace(base)
    (root / "ln").unlink()
    (root / "ln").symlink_to("b/c.txt")
    changeset = await copying.workspaces.capture(base, ref)
    await copying.workspaces.remove(ref)
    handing = GitHandOver(copying.trees)

    receipt = await copying.apply(base, changeset, order("worktree"))
    assert (copying.repo / "ln").readlink() == Path("b/c.txt")
    await handing.take_back(base, changeset, receipt)
    assert (copying.repo / "ln").readlink() == Path("a.txt")
    a_link(copying.repo / "ln")
    with pytest.raises(Conflict):
        await copying.apply(base, changeset, order("worktree"))


async def test_a_patch_file_of_somebody_is_never_overwritten_or_deleted(copying: Lab) -> None:
    base, changeset = await begun(copying)
    place = copying.repo.parent / "out.patch"
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("patch", name=str(place)))
    place.write_text("mine\n")

    with pytest.raises(Conflict, match="other content"):
        await handing.plan(base, changeset, order("patch", name=str(place)))
    with pytest.raises(Conflict, match="other content"):
        await handing.carry_out(base, changeset, order("patch", name=str(place)), intent)
    place.unlink()
    receipt = await handing.carry_out(base, changeset, order("patch", name=str(place)), intent)
    written = place.read_text()
    place.write_text(written + "mine\n")
    with pytest.raises(Conflict, match="changed since"):
        await handing.take_back(base, changeset, receipt)
    place.write_text(written)
    await handing.take_back(base, changeset, receipt)
    assert not place.exists()


async def test_a_patch_is_not_written_through_a_link_that_waits_for_it(copying: Lab) -> None:
    base, changeset = await begun(copying)
    victim = copying.repo.parent / "victim"
    for name in (f".patchyard-{os.getpid()}.new", "out.patch.new", ".out.patch.new"):
        (copying.repo / name).symlink_to(victim)
    name = str(copying.repo / "out.patch")

    await copying.apply(base, changeset, order("patch", name=name))

    assert (copying.repo / "out.patch").is_file()
    assert not (copying.repo / "out.patch").is_symlink()
    assert not victim.exists()


async def test_a_branch_that_moved_meanwhile_is_left_as_it_is(copying: Lab) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("branch"))
    git(copying.repo, "branch", "patchyard/p1", "main")

    with pytest.raises(Conflict, match="changed meanwhile"):
        await handing.carry_out(base, changeset, order("branch"), intent)

    assert git(copying.repo, "rev-parse", "patchyard/p1") == git(copying.repo, "rev-parse", "main")


def test_a_rename_is_a_deletion_and_an_addition() -> None:
    change = Change(
        path="b",
        status=ChangeStatus.RENAMED,
        old_path="a",
        old_mode="100644",
        old_blob="1",
        mode="100755",
        blob="2",
    )
    assert [(each.path, each.old, each.new) for each in wanted([change])] == [
        ("a", ("100644", "1"), None),
        ("b", None, ("100755", "2")),
    ]
    assert wanted([change], ("c",)) == []
    assert len(wanted([change], ("a",))) == 2


KILLED = """
import asyncio, json, os, signal, sys
from pathlib import Path
from patchyard.clients.placer import Placer
from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.codec import from_json
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.pinned import GitTrees

given = json.load(sys.stdin)
left = int(given["steps"])

def counted(real):
    def step(*arguments, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*arguments, **options)
    return step

Placer.take, Placer.remove = counted(Placer.take), counted(Placer.remove)
trees = GitTrees(Path(given["home"]), uid=given["uid"], gid=given["uid"])
handing = GitHandOver(trees)
base, changeset = from_json(Base, given["base"]), from_json(ChangeSet, given["changeset"])
receipt = from_json(Receipt, given["receipt"])
if receipt.is_done:
    asyncio.run(handing.take_back(base, changeset, receipt))
else:
    asyncio.run(handing.carry_out(base, changeset, from_json(Order, given["order"]), receipt))
"""


def killed_after(
    steps: int, lab: Lab, base: Base, changeset: ChangeSet, receipt: Receipt, to: str = "worktree"
) -> int:
    """Hand over, or take back what is done, in an engine that dies after so many moves."""
    given = {
        "steps": steps,
        "home": str(lab.trees.home),
        "uid": lab.trees.uid,
        "base": to_json(base),
        "changeset": to_json(changeset),
        "order": to_json(order(to)),
        "receipt": to_json(receipt),
    }
    command = [sys.executable, "-c", KILLED]
    done = subprocess.run(
        command, input=json.dumps(given), text=True, check=False, capture_output=True, timeout=60
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
async def test_a_hand_over_killed_between_two_moves_is_finished_or_undone(
    copying: Lab, steps: int
) -> None:
    copying.write(FILES)
    copying.commit()
    base = await copying.base()
    before = bytes_below(copying.repo)
    changeset = await copying.changed(base, EDITS)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("worktree"))

    code = await asyncio.to_thread(killed_after, steps, copying, base, changeset, intent)
    begun = bytes_below(copying.repo)
    assert (code == 0) == (steps == 3)
    assert (begun == before) == (steps == 0)

    await handing.take_back(base, changeset, intent)
    assert bytes_below(copying.repo) == before
    await asyncio.to_thread(killed_after, steps, copying, base, changeset, intent)
    receipt = await handing.carry_out(base, changeset, order("worktree"), intent)
    after = bytes_below(copying.repo)
    assert after["a.txt"] == ("-", b"ONE\ntwo\nthree\nfour\nfive\n")
    assert set(after) == {"a.txt", "b/c.txt", "new/deep.txt"}
    assert not list((copying.repo / ".git").glob("patchyard-*"))

    await asyncio.to_thread(killed_after, steps, copying, base, changeset, receipt)
    await handing.take_back(base, changeset, receipt)
    assert bytes_below(copying.repo) == before


async def test_a_merge_is_not_made_over_a_path_that_is_still_in_conflict(copying: Lab) -> None:
    base, changeset = await begun(copying)
    blob = git(copying.repo, "rev-parse", "HEAD:a.txt").strip()
    stages = "".join(f"100644 {blob} {stage}\ta.txt\n" for stage in (1, 2, 3))
    rows = f"0 {'0' * 40}\ta.txt\n{stages}"
    git(copying.repo, "update-index", "--index-info", stdin=rows.encode())

    with pytest.raises(Conflict, match=r"merge of a\.txt is not finished") as caught:
        await copying.apply(base, changeset, order("merge"))

    assert "--abort" in caught.value.hint


async def test_a_merge_carried_out_twice_is_one_and_leaves_the_index_alone(copying: Lab) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("merge"))
    await handing.carry_out(base, changeset, order("merge"), intent)
    head = git(copying.repo, "rev-parse", "HEAD")
    index = (copying.repo / ".git/index").stat().st_mtime_ns

    again = await handing.carry_out(base, changeset, order("merge"), intent)

    assert again.is_done
    assert git(copying.repo, "rev-parse", "HEAD") == head
    assert (copying.repo / ".git/index").stat().st_mtime_ns == index
    assert git(copying.repo, "status", "--porcelain") == ""


async def test_work_that_the_user_did_as_well_merges_into_nothing_new(copying: Lab) -> None:
    base, changeset = await begun(copying)
    copying.write({path: text for path, text in EDITS.items() if text is not None})
    (copying.repo / "gone.txt").unlink()
    copying.commit("by hand")
    before = bytes_below(copying.repo)

    await copying.apply(base, changeset, order("merge"))

    assert bytes_below(copying.repo) == before
    assert git(copying.repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("to", ["worktree", "merge"])
async def test_a_hand_over_cut_short_says_what_is_in_and_leaves_newer_work(
    copying: Lab, to: str
) -> None:
    base, changeset = await begun(copying)
    before = bytes_below(copying.repo)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order(to))
    await asyncio.to_thread(killed_after, 2, copying, base, changeset, intent, to)
    copying.write({"new/deep.txt": "mine\n"})

    with pytest.raises(Conflict, match=r"nothing more was changed: new/deep\.txt") as caught:
        await handing.carry_out(base, changeset, order(to), intent)

    assert caught.value.details["written"] == ["a.txt", "gone.txt"]
    assert "unapply" in caught.value.hint
    assert await handing.take_back(base, changeset, intent) == ("a.txt", "gone.txt")
    assert bytes_below(copying.repo) == {**before, "new/deep.txt": ("-", b"mine\n")}


async def test_a_merge_whose_branch_has_moved_is_done_whatever_the_user_edits_then(
    copying: Lab,
) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("merge"))
    await handing.carry_out(base, changeset, order("merge"), intent)
    copying.write({"a.txt": "mine\n"})

    assert (await handing.carry_out(base, changeset, order("merge"), intent)).is_done
    assert (copying.repo / "a.txt").read_text() == "mine\n"


async def test_a_repository_that_is_gone_is_named_and_no_other_one_is_taken_for_it(
    copying: Lab,
) -> None:
    base, changeset = await begun(copying)
    above = copying.repo.parent
    git(above, "init", "-q", str(above))
    (copying.repo / ".git").rename(above / "elsewhere")
    before = bytes_below(copying.repo)

    with pytest.raises(Unavailable, match=r"gone: there is no .*/\.git") as caught:
        await copying.apply(base, changeset, order("worktree"))

    assert "git init" not in caught.value.hint
    assert bytes_below(copying.repo) == before
    assert not (above / "new").exists()
