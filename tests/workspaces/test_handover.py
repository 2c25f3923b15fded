import asyncio
import os
from pathlib import Path

import pytest

from handovers import EDITS, FILES, begun, order
from laboratory import Lab, bytes_below, fingerprint, git, lab_at
from patchyard.clients.locks import locked
from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.errors import Conflict, StateRefusal, UsageError
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.turns import LOCK

pytestmark = pytest.mark.anyio


async def test_apply_to_the_work_tree_changes_just_the_edited_files_unstaged(copying: Lab) -> None:
    base, changeset = await begun(copying)
    index = (copying.repo / ".git/index").read_bytes()
    untouched = (copying.repo / "b/c.txt").stat()

    receipt = await copying.apply(base, changeset, order("worktree"))

    assert receipt.is_done
    assert set(receipt.touched) == {"a.txt", "gone.txt", "new/deep.txt"}
    assert bytes_below(copying.repo) == {
        "a.txt": ("-", b"ONE\ntwo\nthree\nfour\nfive\n"),
        "b/c.txt": ("-", b"c\n"),
        "new/deep.txt": ("-", b"n\n"),
    }
    assert (copying.repo / ".git/index").read_bytes() == index
    assert (copying.repo / "b/c.txt").stat().st_mtime_ns == untouched.st_mtime_ns
    assert not list((copying.repo / ".git").glob("patchyard-*"))


async def test_two_hand_overs_to_one_repository_wait_for_each_other(copying: Lab) -> None:
    base, changeset = await begun(copying)

    async def in_turn() -> Receipt:
        async with GitHandOver(copying.trees).turn(base):
            return await copying.apply(base, changeset, order("worktree"))

    with locked(copying.repo / ".git" / LOCK):
        applying = asyncio.create_task(in_turn())
        given_up = asyncio.create_task(in_turn())
        await asyncio.sleep(0.2)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert not applying.done()
        assert (copying.repo / "gone.txt").exists()
    assert (await applying).is_done
    assert not (copying.repo / "gone.txt").exists()


async def test_apply_merges_with_newer_work_elsewhere_in_the_file(copying: Lab) -> None:
    base, changeset = await begun(copying)
    copying.write({"a.txt": "one\ntwo\nthree\nfour\nFIVE\n"})

    await copying.apply(base, changeset, order("worktree"))

    assert (copying.repo / "a.txt").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"


@pytest.mark.parametrize(
    ("path", "content"), [("a.txt", "uno\ntwo\n"), ("gone.txt", "stay\n"), ("new/deep.txt", "x\n")]
)
async def test_a_conflict_names_the_file_and_touches_nothing(
    copying: Lab, path: str, content: str
) -> None:
    base, changeset = await begun(copying)
    copying.write({path: content})
    before = fingerprint(copying.repo)

    with pytest.raises(Conflict) as caught:
        await copying.apply(base, changeset, order("worktree"))

    assert caught.value.details["paths"] == [path]
    assert fingerprint(copying.repo) == before


async def test_work_that_changes_between_plan_and_apply_is_a_conflict(copying: Lab) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("worktree"))
    copying.write({"gone.txt": "changed\n"})
    before = bytes_below(copying.repo)

    with pytest.raises(Conflict):
        await handing.carry_out(base, changeset, order("worktree"), intent)

    assert bytes_below(copying.repo) == before


async def test_unapply_brings_every_byte_back_and_refuses_over_newer_work(copying: Lab) -> None:
    base, changeset = await begun(copying)
    before = bytes_below(copying.repo)
    receipt = await copying.apply(base, changeset, order("worktree"))
    receipt = from_json(Receipt, to_json(receipt))
    handing = GitHandOver(copying.trees)

    (copying.repo / "new/deep.txt").write_text("mine\n")
    with pytest.raises(Conflict):
        await handing.take_back(base, changeset, receipt)
    (copying.repo / "new/deep.txt").write_text("n\n")
    await handing.take_back(base, changeset, receipt)
    await handing.take_back(base, changeset, receipt)

    assert bytes_below(copying.repo) == before
    assert not (copying.repo / "new").exists()


async def test_applying_twice_or_finishing_after_a_kill_gives_the_same(copying: Lab) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("worktree"))
    (copying.repo / "gone.txt").unlink()  # as if a first call had come that far
    stage = copying.repo / ".git" / f"patchyard-{changeset.id}"
    stage.mkdir()
    (stage / "0").write_text("half")

    await handing.carry_out(base, changeset, order("worktree"), intent)
    once = bytes_below(copying.repo)
    await handing.carry_out(base, changeset, order("worktree"), intent)

    assert bytes_below(copying.repo) == once
    assert once["new/deep.txt"] == ("-", b"n\n")
    again = await handing.plan(base, changeset, order("worktree"))
    assert again.touched == ()


async def test_apply_keeps_bits_and_writes_links_and_kinds(copying: Lab) -> None:
    copying.write({"run.sh": "#!/bin/sh\n", "kind": "file\n", "folder/x": "x\n"})
    (copying.repo / "run.sh").chmod(0o750)
    copying.commit()
    base = await copying.base()
    ref, root = await copying.workspace(base)
    (root / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    (root / "kind").unlink()
    (root / "kind").mkdir()
    (root / "kind" / "inner").write_text("i\n")
    (root / "folder" / "x").unlink()
    (root / "folder").rmdir()
    (root / "folder").symlink_to("kind")
    changeset = await copying.workspaces.capture(base, ref)

    (copying.repo / "folder" / "empty" / "deeper").mkdir(parents=True)

    await copying.apply(base, changeset, order("worktree"))

    assert (copying.repo / "run.sh").stat().st_mode & 0o777 == 0o750
    assert (copying.repo / "kind" / "inner").read_text() == "i\n"
    assert (copying.repo / "folder").readlink() == Path("kind")


async def test_a_link_of_the_users_is_never_written_through(copying: Lab, tmp_path: Path) -> None:
    copying.write({"d/f": "f\n"})
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"d/f": "g\n"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("f\n")
    (copying.repo / "d" / "f").unlink()
    (copying.repo / "d").rmdir()
    (copying.repo / "d").symlink_to(outside)

    with pytest.raises(Conflict):
        await copying.apply(base, changeset, order("worktree"))

    assert (outside / "f").read_text() == "f\n"


async def test_protected_paths_need_to_be_allowed_by_name(copying: Lab) -> None:
    copying.write(FILES)
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {".github/workflows/ci.yml": "on: push\n"})

    with pytest.raises(StateRefusal) as caught:
        await copying.apply(base, changeset, order("worktree"))
    assert "--allow-path" in caught.value.hint
    assert caught.value.message.startswith("1 finding needs your eye first: ")
    assert not (copying.repo / ".github").exists()

    await copying.apply(base, changeset, order("worktree", allow=[".github/*"]))
    assert (copying.repo / ".github/workflows/ci.yml").exists()


async def test_zeros_of_a_file_take_no_room_in_the_checkout(copying: Lab) -> None:
    base, _ = await begun(copying)
    content = bytes(3_000_000) + b"data" + bytes(5_000_001)
    changeset = await copying.changed(base, {"sparse": content})

    await copying.apply(base, changeset, order("worktree"))

    place = copying.repo / "sparse"
    assert place.read_bytes() == content
    assert place.stat().st_blocks * 512 < len(content) // 10


@pytest.mark.service("root")
async def test_a_root_engine_leaves_the_repository_to_its_owner(copying: Lab) -> None:
    copying.write(FILES)
    copying.commit()
    for place in [copying.repo, *copying.repo.rglob("*")]:
        os.lchown(place, 1234, 1234)
    for place in (copying.repo, *copying.repo.parents):
        if place.name.startswith(("pytest-", "popen-")) or "test_a_root" in place.name:
            place.chmod(0o711)
    base = await copying.base()
    changeset = await copying.changed(base, EDITS)

    await copying.apply(base, changeset, order("worktree"))
    await copying.apply(base, changeset, order("branch"))

    assert {place.lstat().st_uid for place in copying.repo.rglob("*")} == {1234}


async def test_a_folder_that_cannot_be_written_leaves_everything_as_it_was(ordinary: Path) -> None:
    lab = lab_at(ordinary, "copy")
    lab.write({**FILES, "shut/f": "f\n", "z": "z\n"})
    lab.commit()
    base = await lab.base()
    changeset = await lab.changed(base, {**EDITS, "shut/f": "g\n", "z": None})
    before = bytes_below(lab.repo)
    (lab.repo / "shut").chmod(0o555)

    with pytest.raises(StateRefusal, match="shut cannot be written, nothing was changed"):
        await lab.apply(base, changeset, order("worktree"))

    assert bytes_below(lab.repo) == before
    (lab.repo / "shut").chmod(0o755)
    await lab.apply(base, changeset, order("worktree"))
    assert (lab.repo / "shut/f").read_text() == "g\n"
    await lab.workspaces.remove(await lab.workspaces.create(base, workspace_id="last"))


async def test_some_paths_alone_can_be_handed_over(copying: Lab) -> None:
    base, changeset = await begun(copying)

    def only(to: str, *paths: str) -> Order:
        return Order(to=to, name="patchyard/p1", message="m\n", paths=paths)

    await copying.apply(base, changeset, only("worktree", "new"))
    receipt = await copying.apply(base, changeset, only("branch", "gone.txt"))

    assert git(copying.repo, "status", "--porcelain") == "?? new/\n"
    assert receipt.touched == ("gone.txt",)
    names = git(copying.repo, "diff", "--name-only", "main", "patchyard/p1")
    assert names == "gone.txt\n"
    with pytest.raises(UsageError, match="nothing at b"):
        await copying.apply(base, changeset, only("worktree", "b"))


async def test_an_intent_of_another_way_is_finished_first(copying: Lab) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("worktree"))

    with pytest.raises(StateRefusal, match="was begun"):
        await handing.carry_out(base, changeset, order("branch"), intent)
