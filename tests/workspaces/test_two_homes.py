"""Two homes hand over into one checkout: each in its turn, and none takes what another wrote."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from endings import ended
from handovers import EDITS, begun, order
from laboratory import Lab, bytes_below, git
from patchyard.clients import boot as clients_boot
from patchyard.contracts.handover import Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.errors import Conflict
from patchyard.workspaces import turns
from patchyard.workspaces.copy import CopyWorkspaces
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.pinned import GitTrees

pytestmark = pytest.mark.anyio

STRUCK = """
import asyncio, json, signal, sys, threading
from pathlib import Path
from patchyard.clients.placer import Placer
from patchyard.contracts.handover import Order, Receipt
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.codec import from_json, to_json
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.pinned import GitTrees

given = json.load(sys.stdin)
left = given["steps"]

def counted(real):
    def step(*arguments, **options):
        global left
        left -= 1
        if left == -1:
            signal.pthread_kill(threading.get_ident(), given["signal"])
        return real(*arguments, **options)
    return step

Placer.take, Placer.remove = counted(Placer.take), counted(Placer.remove)
handing = GitHandOver(GitTrees(Path(given["home"]), uid=given["uid"], gid=given["uid"]))
base, changeset = from_json(Base, given["base"]), from_json(ChangeSet, given["changeset"])
receipt, order = from_json(Receipt, given["receipt"]), from_json(Order, given["order"])

async def work():
    async with handing.turn(base):
        if receipt.is_done:
            return list(await handing.take_back(base, changeset, receipt))
        return to_json(await handing.carry_out(base, changeset, order, receipt))

print(json.dumps(asyncio.run(work())))
"""


@pytest.fixture
def other(copying: Lab) -> Lab:
    """Another home at the same checkout."""
    place = copying.repo.parent
    trees = GitTrees(place / "other-home", uid=copying.trees.uid, gid=copying.trees.gid)
    workspaces = CopyWorkspaces(trees, place / "other-plans")
    return Lab(repo=copying.repo, trees=trees, workspaces=workspaces)


@contextmanager
def struck(
    lab: Lab,
    base: Base,
    changeset: ChangeSet,
    receipt: Receipt,
    *,
    steps: int,
    number: int = signal.SIGSTOP,
) -> Iterator["subprocess.Popen[str]"]:
    """An engine that sends itself a signal before one of its moves; it has come there."""
    given = {
        "steps": steps,
        "signal": int(number),
        "home": str(lab.trees.home),
        "uid": lab.trees.uid,
        "base": to_json(base),
        "changeset": to_json(changeset),
        "order": to_json(order(receipt.to)),
        "receipt": to_json(receipt),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", STRUCK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(given))
    process.stdin.close()
    process.stdin = None
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        process.kill()
        ended(process)


def resumed(process: "subprocess.Popen[str]") -> Receipt:
    """What a stopped engine comes to when it goes on."""
    os.kill(process.pid, signal.SIGCONT)
    out, err = ended(process)
    assert process.returncode == 0, err
    return from_json(Receipt, json.loads(out))


async def carried_out(
    lab: Lab, base: Base, changeset: ChangeSet, to: str, *, message: str = "Mend it\n"
) -> Receipt:
    """Hand over in one's turn. Equal messages of one second are one commit, in any home."""
    async with GitHandOver(lab.trees).turn(base):
        return await lab.apply(base, changeset, replace(order(to), message=message))


@pytest.mark.parametrize(("to", "steps"), [("worktree", 0), ("worktree", 2), ("merge", 1)])
async def test_another_home_does_not_come_between_the_moves_of_one_that_is_stopped(
    copying: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch, to: str, steps: int
) -> None:
    base, changeset = await begun(copying)
    theirs = await other.base()
    same = await other.changed(theirs, EDITS)
    intent = await GitHandOver(copying.trees).plan(base, changeset, order(to))
    monkeypatch.setattr(turns, "STOPPED_S", 0.0)

    with struck(copying, base, changeset, intent, steps=steps) as first:
        halfway = bytes_below(copying.repo)
        with pytest.raises(Conflict) as caught:
            await carried_out(other, theirs, same, to)
        assert bytes_below(copying.repo) == halfway
        receipt = await asyncio.to_thread(resumed, first)

    assert f"process {first.pid}" in caught.value.message
    assert str(copying.trees.home) in caught.value.message
    assert "stopped" in caught.value.message
    assert f"kill -CONT {first.pid}" in caught.value.hint
    assert caught.value.details["pid"] == first.pid
    assert caught.value.details["home"] == str(copying.trees.home)
    assert set(receipt.touched) == set(EDITS)
    done = bytes_below(copying.repo)
    assert set(done) == {"a.txt", "b/c.txt", "new/deep.txt"}
    assert (await carried_out(other, theirs, same, "worktree")).touched == ()
    assert bytes_below(copying.repo) == done
    assert not list((copying.repo / ".git").glob("patchyard*"))


async def test_what_another_home_wrote_after_a_kill_is_not_taken_back(
    copying: Lab, other: Lab
) -> None:
    base, changeset = await begun(copying)
    before = bytes_below(copying.repo)
    theirs = await other.base()
    same = await other.changed(theirs, EDITS)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("worktree"))
    with struck(copying, base, changeset, intent, steps=1, number=signal.SIGKILL) as first:
        assert first.wait(timeout=60) == -signal.SIGKILL
    assert "gone.txt" not in bytes_below(copying.repo)  # just this one is in

    receipt = await carried_out(other, theirs, same, "worktree")
    assert set(receipt.touched) == {"a.txt", "new/deep.txt"}
    after = bytes_below(copying.repo)
    finished = await handing.carry_out(base, changeset, order("worktree"), intent)
    assert finished.touched == ("gone.txt",)
    assert bytes_below(copying.repo) == after

    await handing.take_back(base, changeset, finished)
    assert bytes_below(copying.repo) == {**after, "gone.txt": ("-", b"bye\n")}
    await GitHandOver(other.trees).take_back(theirs, same, receipt)
    assert bytes_below(copying.repo) == before


async def test_a_removal_whose_note_went_with_the_power_is_taken_back(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, changeset = await begun(copying)
    before = bytes_below(copying.repo)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("worktree"))
    with struck(copying, base, changeset, intent, steps=1, number=signal.SIGKILL) as first:
        assert first.wait(timeout=60) == -signal.SIGKILL
    assert "gone.txt" not in bytes_below(copying.repo)
    (record,) = copying.trees.home.glob("**/moves/*")
    lines = record.read_text().splitlines(keepends=True)
    assert lines[-1] == '["gone.txt"]\n'  # all that is not synced
    record.write_text("".join(lines[:-1]))
    boot = copying.repo.parent / "boot_id"
    boot.write_text("another")
    monkeypatch.setattr(clients_boot, "BOOT_ID", boot)

    finished = await handing.carry_out(base, changeset, order("worktree"), intent)

    assert set(finished.touched) == set(EDITS)
    await handing.take_back(base, changeset, finished)
    assert bytes_below(copying.repo) == before


async def test_an_apply_killed_before_its_first_move_takes_nothing_of_anothers_back(
    copying: Lab, other: Lab
) -> None:
    base, _ = await begun(copying)
    written = {path: text for path, text in EDITS.items() if text is not None}
    changeset = await copying.changed(base, written)
    theirs = await other.base()
    same = await other.changed(theirs, written)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("worktree"))
    with struck(copying, base, changeset, intent, steps=0, number=signal.SIGKILL) as first:
        assert first.wait(timeout=60) == -signal.SIGKILL

    await carried_out(other, theirs, same, "worktree")
    after = bytes_below(copying.repo)

    assert await handing.take_back(base, changeset, intent) == ()
    assert bytes_below(copying.repo) == after
    assert not list((copying.repo / ".git").glob("patchyard*"))


async def test_a_killed_merge_that_another_home_overtook_can_be_given_up(
    copying: Lab, other: Lab
) -> None:
    base, changeset = await begun(copying)
    theirs = await other.base()
    same = await other.changed(theirs, EDITS)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("merge"))
    with struck(copying, base, changeset, intent, steps=1, number=signal.SIGKILL) as first:
        assert first.wait(timeout=60) == -signal.SIGKILL

    merged = await carried_out(other, theirs, same, "merge", message="Mend it there\n")
    after = bytes_below(copying.repo)
    with pytest.raises(Conflict, match=r"cannot be finished: the checkout is on main at") as caught:
        await handing.carry_out(base, changeset, order("merge"), intent)

    assert caught.value.details["written"] == ["gone.txt"]
    assert await handing.take_back(base, changeset, intent) == ()
    assert bytes_below(copying.repo) == after
    assert git(copying.repo, "rev-parse", "HEAD").strip() == merged.commit
    assert git(copying.repo, "status", "--porcelain") == ""


async def test_apply_and_unapply_of_two_homes_cross_only_one_after_the_other(
    copying: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, changeset = await begun(copying)
    before = bytes_below(copying.repo)
    theirs = await other.base()
    same = await other.changed(theirs, EDITS)
    receipt = await carried_out(copying, base, changeset, "worktree")
    monkeypatch.setattr(turns, "STOPPED_S", 0.0)

    with struck(copying, base, changeset, receipt, steps=1) as first:
        with pytest.raises(Conflict, match=f"process {first.pid}"):
            await carried_out(other, theirs, same, "worktree")
        os.kill(first.pid, signal.SIGCONT)
        await asyncio.to_thread(ended, first)
    assert bytes_below(copying.repo) == before

    again = await carried_out(other, theirs, same, "worktree")
    assert set(again.touched) == set(EDITS)


async def test_two_homes_at_once_both_succeed(copying: Lab, other: Lab) -> None:
    base, changeset = await begun(copying)
    theirs = await other.base()
    same = await other.changed(theirs, EDITS)

    receipts = await asyncio.gather(
        carried_out(copying, base, changeset, "worktree"),
        carried_out(other, theirs, same, "worktree"),
    )

    assert sorted(len(each.touched) for each in receipts) == [0, len(EDITS)]
    assert git(copying.repo, "status", "--porcelain").count("\n") == len(EDITS)
