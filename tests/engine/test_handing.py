"""Hand-over through the engine: in parts, after a failure, and after being cut short."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.worksite import ADD, Worksite, call, done
from laboratory import git
from patchyard.clients.placer import Placer
from patchyard.contracts.handover import HandOver, Order
from patchyard.domain.errors import Conflict, GuardRefused, StateRefusal
from patchyard.domain.events import ApplyIntended
from patchyard.domain.plan import Phase, State
from patchyard.engine.equipment import Equipment
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger
from patchyard.engine.rows import body_of
from patchyard.engine.workflow import Workflow
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


async def run(site: Worksite, workflow: Workflow, *execute: Any) -> str:
    plan_id = await site.made(workflow, site.asked(*execute))
    await workflow.run(plan_id)
    return plan_id


async def test_the_rest_is_applied_after_a_part_and_both_are_taken_back(site: Worksite) -> None:
    other = call("write_file", path="other.txt", content="other\n")
    new, rest = site.repository / "new.txt", site.repository / "other.txt"
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD, other)
        ledger = await site.ledger(equipment, plan_id)
        await Handing(equipment, ledger).apply("worktree", paths=("new.txt",))
        assert (new.exists(), rest.exists()) == (True, False)
        receipt = await Handing(equipment, ledger).apply("worktree")
        assert receipt is not None
        assert receipt.touched == ("other.txt",)
        assert (new.exists(), rest.exists()) == (True, True)
        assert ledger.state.state == State.APPLIED
        await Handing(equipment, ledger).unapply()
        assert (new.exists(), rest.exists()) == (True, False)
        await Handing(equipment, ledger).unapply()
        assert (new.exists(), rest.exists()) == (False, False)


async def test_a_hand_over_of_many_files_is_journalled_packed_and_taken_back(
    site: Worksite,
) -> None:
    many = call("execute_command", command="mkdir d; for n in $(seq 400); do echo $n >d/$n; done")
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, many)
        ledger = await site.ledger(equipment, plan_id)
        receipt = await Handing(equipment, ledger).apply("worktree")
        assert receipt is not None
        assert len(receipt.touched) == 400
        for body in (each.record for each in ledger.state.handed):
            assert "undo/edits" in {name for name, _ in await ledger.parts(body)}
        again = await site.ledger(equipment, plan_id)
        assert await Handing(equipment, again).apply("worktree") == receipt
        assert len(list((site.repository / "d").iterdir())) == 400
        assert (await Handing(equipment, again).unapply()) == receipt.touched
        assert not (site.repository / "d").exists()


async def test_the_same_apply_again_is_the_same_receipt_and_is_taken_back_once(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        handing = Handing(equipment, await site.ledger(equipment, plan_id))
        assert await handing.apply("worktree") == await handing.apply("worktree")
        ledger = await site.ledger(equipment, plan_id)
        assert [each.to for each in ledger.state.handed] == ["worktree"]
        await Handing(equipment, ledger).unapply()
        assert list(ledger.state.handed) == []
    assert not (site.repository / "new.txt").exists()


async def test_an_apply_that_failed_is_planned_anew_by_its_new_order(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        ledger = await site.ledger(equipment, plan_id)
        (site.repository / ".git/refs/heads/one.lock").touch()
        with pytest.raises(Conflict, match="heads/one"):
            await Handing(equipment, ledger).apply("branch", name="one")
        assert (ledger.state.phase, ledger.state.state) == (Phase.APPLY, State.ERRORED)
        receipt = await Handing(equipment, ledger).apply("branch", name="two")
    assert receipt is not None
    assert receipt.reference == "two"
    assert (site.repository / ".git/refs/heads/two").exists()


async def test_an_apply_that_was_cut_short_is_finished_before_another_begins(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        ledger = await site.ledger(equipment, plan_id)
        base, changeset = await Handing(equipment, ledger).changeset()
        order = Order(to="branch", name="one", message="m")
        intent = await equipment.handover.plan(base, changeset, order)
        record = body_of(intent)
        begun = ApplyIntended(to="branch", changeset_id=changeset.id, record=record, name="one")
        await ledger.record(begun)
        with pytest.raises(GuardRefused, match="cut short"):
            await Handing(equipment, ledger).apply("branch", name="two")
        state = await workflow.run(plan_id)
    assert (state.phase, state.state) == (Phase.APPLY, State.APPLIED)
    assert (site.repository / ".git/refs/heads/one").exists()
    assert not (site.repository / ".git/refs/heads/two").exists()


async def test_an_engine_killed_right_after_the_receipt_leaves_the_plan_applied(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = SQLiteJournal.append

    async def dying(self: SQLiteJournal, *args: Any, **options: Any) -> int:
        version = await append(self, *args, **options)
        if any(event.type == "Applied" for event in args[2]):
            raise RuntimeError("killed")
        return version

    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        handing = Handing(equipment, await site.ledger(equipment, plan_id))
        monkeypatch.setattr(SQLiteJournal, "append", dying)
        with pytest.raises(RuntimeError, match="killed"):
            await handing.apply("worktree")
        state = (await site.ledger(equipment, plan_id)).state
    assert (state.phase, state.state) == (Phase.APPLY, State.APPLIED)


async def test_an_unapply_that_is_stopped_in_the_middle_is_journalled_whole(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        ledger = await site.ledger(equipment, plan_id)
        await Handing(equipment, ledger).apply("worktree")
        done = asyncio.Event()

        async def take_back(*args: Any) -> Sequence[str]:
            paths = await equipment.handover.take_back(*args)
            done.set()
            await asyncio.sleep(0.02)  # a thread goes on when nobody waits for it
            return paths

        stub = SimpleNamespace(take_back=take_back, turn=equipment.handover.turn)
        slow = replace(equipment, handing_over=lambda: cast("HandOver", stub))
        taking = asyncio.create_task(Handing(slow, ledger).unapply())
        await done.wait()
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
    assert not (site.repository / "new.txt").exists()
    assert list(ledger.state.handed) == []


async def cut_short(site: Worksite, equipment: Equipment, workflow: Workflow) -> Ledger:
    """Begin an apply of two files of which one gets in before the engine dies."""
    other = call("write_file", path="other.txt", content="other\n")
    plan_id = await run(site, workflow, ADD, other)
    ledger = await site.ledger(equipment, plan_id)
    real = Placer.take
    with pytest.MonkeyPatch.context() as patched:

        def dying(self: Placer, place: str, path: str) -> None:
            if path == "other.txt":
                raise RuntimeError("killed")
            real(self, place, path)

        patched.setattr(Placer, "take", dying)
        with pytest.raises(RuntimeError, match="killed"):
            await Handing(equipment, ledger).apply("worktree")
    return await site.ledger(equipment, plan_id)


async def test_an_apply_cut_short_is_kept_until_newer_work_is_out_of_the_way(
    site: Worksite,
) -> None:
    new, other = site.repository / "new.txt", site.repository / "other.txt"
    async with site.open() as (equipment, workflow):
        ledger = await cut_short(site, equipment, workflow)
        other.write_text("mine\n")
        for _ in range(2):
            with pytest.raises(Conflict, match=r"cut short.*new\.txt is in already"):
                await workflow.run(ledger.plan_id)
        assert other.read_text() == "mine\n"
        other.unlink()
        state = await workflow.run(ledger.plan_id)
        assert (state.phase, state.state) == (Phase.APPLY, State.APPLIED)
        await Handing(equipment, await site.ledger(equipment, ledger.plan_id)).unapply()
    assert (new.exists(), other.exists()) == (False, False)


@pytest.mark.parametrize("is_resumed", [True, False])
async def test_an_apply_cut_short_is_taken_back_but_for_newer_work(
    site: Worksite, *, is_resumed: bool
) -> None:
    new, other = site.repository / "new.txt", site.repository / "other.txt"
    async with site.open() as (equipment, workflow):
        ledger = await cut_short(site, equipment, workflow)
        other.write_text("mine\n")
        if is_resumed:
            with pytest.raises(Conflict):
                await workflow.run(ledger.plan_id)
        ledger = await site.ledger(equipment, ledger.plan_id)
        with pytest.raises(StateRefusal, match=r"left as it is: other\.txt"):
            await Handing(equipment, ledger).unapply()
        assert (new.exists(), other.read_text()) == (False, "mine\n")
        ledger = await site.ledger(equipment, ledger.plan_id)
        assert (ledger.state.phase, ledger.state.state) == (Phase.EXECUTE, State.COMPLETE)
        with pytest.raises(GuardRefused, match="nothing of this plan is applied"):
            await Handing(equipment, ledger).unapply()
        other.unlink()
        await Handing(equipment, ledger).apply("worktree")
    assert (new.exists(), other.read_text()) == (True, "other\n")


async def test_an_apply_cut_short_without_newer_work_is_taken_back_whole(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        ledger = await cut_short(site, equipment, workflow)
        assert await Handing(equipment, ledger).unapply() == ("new.txt", "other.txt")
    assert not (site.repository / "new.txt").exists()
    assert ledger.state.failure is None


async def test_a_branch_that_a_power_cut_left_empty_is_named_by_every_command_and_made_again(
    site: Worksite,
) -> None:
    ref = site.repository / ".git/refs/heads/one"
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        ledger = await site.ledger(equipment, plan_id)
        receipt = await Handing(equipment, ledger).apply("branch", name="one")
        assert receipt is not None
        ref.write_bytes(b"")

        for act in (
            Handing(equipment, ledger).apply("branch"),
            Handing(equipment, ledger).unapply(),
        ):
            with pytest.raises(StateRefusal, match=r"refs/heads/one of .* is broken") as caught:
                await act
            assert f"rm {ref}" in caught.value.hint
        damaged, gone = await Handing(equipment, ledger).looked_after()
        assert "is broken" in damaged[0]
        assert gone == []

        ref.unlink()  # the cure that is named
        damaged, gone = await Handing(equipment, ledger).looked_after()
        assert damaged == []
        assert "branch one is gone" in gone[0]
        assert await Handing(equipment, ledger).apply("branch") == receipt
        assert ref.read_text().strip() == receipt.commit
        assert await Handing(equipment, ledger).looked_after() == ([], [])
        await Handing(equipment, ledger).unapply()
    assert not ref.exists()


async def test_a_branch_whose_objects_are_lost_gets_them_again(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        ledger = await site.ledger(equipment, plan_id)
        receipt = await Handing(equipment, ledger).apply("branch", name="one")
        assert receipt is not None
        assert receipt.commit is not None
        lost = site.repository / ".git/objects" / receipt.commit[:2] / receipt.commit[2:]
        content = lost.read_bytes()
        lost.unlink()

        assert await Handing(equipment, ledger).apply("branch") == receipt

    assert lost.read_bytes() == content


async def test_a_patch_that_is_gone_is_written_again(site: Worksite) -> None:
    place = site.repository.parent / "x.patch"
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD)
        ledger = await site.ledger(equipment, plan_id)
        await Handing(equipment, ledger).apply("patch", name=str(place))
        content = place.read_bytes()
        place.unlink()
        await Handing(equipment, ledger).apply("patch", name=str(place))
    assert place.read_bytes() == content


async def test_a_summary_that_git_would_refuse_is_committed_all_the_same(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await run(site, workflow, ADD, done("Made\0 it.\x1b[2J"))
        ledger = await site.ledger(equipment, plan_id)
        await Handing(equipment, ledger).apply("branch", name="made")

    said = git(site.repository, "log", "-1", "--format=%b", "made")
    assert said.strip() == "Made\ufffd it.\ufffd[2J"
