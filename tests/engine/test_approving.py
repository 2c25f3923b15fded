"""Plans that go on when somebody says so: with exactly what was approved."""

from dataclasses import replace

import pytest

from engine.told import ENDING, Recorder, heard, with_actor, writing
from engine.worksite import ADD, Worksite, call, done
from patchyard.contracts.approver import Verdict
from patchyard.domain.errors import ApprovalNeeded, GuardRefused
from patchyard.domain.events import ToolCallRequested, ToolCallSettled
from patchyard.domain.plan import Phase, State
from patchyard.domain.steering import ApprovalAsked
from patchyard.engine.directing import Directing
from patchyard.engine.handing import Handing
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.outlook import outlook
from patchyard.engine.waiting import waiting
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


class Person:
    """Somebody who answers in order."""

    def __init__(self, *verdicts: Verdict | None) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[ApprovalAsked] = []

    async def ask(self, asked: ApprovalAsked) -> Verdict | None:
        self.asked.append(asked)
        return self.verdicts.pop(0)


YES = Verdict(is_approved=True, by="test")


async def test_a_supervised_plan_stops_for_each_phase_and_command_until_somebody_says_yes(
    site: Worksite,
) -> None:
    run = call("execute_command", command="echo ran >> log", timeout_s=20)
    async with site.open() as (equipment, workflow):
        asked = site.asked(ADD, run, automation_profile="supervised")
        plan_id = await site.made(workflow, asked)
        directing = Directing(equipment)
        with pytest.raises(ApprovalNeeded, match="execute waits for approval") as stopped:
            await workflow.run(plan_id)
        assert f"agents plan approve {plan_id}" in stopped.value.hint
        assert stopped.value.exit_code == 3
        with pytest.raises(ApprovalNeeded):  # asking again changes nothing
            await workflow.resume(plan_id)
        assert (await directing.approve(plan_id)).name == "execute"
        with pytest.raises(ApprovalNeeded, match="execute_command waits"):
            await workflow.resume(plan_id)
        assert [event.name for event in heard(site, ToolCallRequested)] == ["write_file"]
        assert "echo ran" in (await directing.approve(plan_id)).shown
        with pytest.raises(GuardRefused, match="waits for no approval"):
            await directing.approve(plan_id)
        ended = await workflow.resume(plan_id)
    assert ended.state == State.COMPLETE
    assert [event.name for event in heard(site, ToolCallRequested)][-1] == "execute_command"
    assert len(ended.steered.verdicts) == 1  # of the phase; the call's is used up


async def test_a_refused_call_is_a_result_for_the_actor(site: Worksite) -> None:
    asked = site.asked(ADD, done(), automation_profile="review")
    async with site.open() as (equipment, _):
        person = Person(YES, Verdict(is_approved=False, by="test", reason="not that file"))
        workflow = Workflow(equipment, approver=person)
        plan_id = await site.made(workflow, asked)
        ended = await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        events = [event for _, _, event in await ledger.events()]
    (settled,) = [event for event in events if isinstance(event, ToolCallSettled)]
    assert (settled.success, settled.error) == (False, "REJECTED")
    assert "not that file" in settled.message
    assert ended.changeset is not None
    assert ended.changeset.files == 0
    assert [asked.name for asked in person.asked] == ["execute", "write_file"]


async def test_an_approval_counts_for_the_very_call_and_no_other(site: Worksite) -> None:
    recorder = Recorder([writing(1), ENDING])
    async with site.open() as (equipment, _):
        equipped = with_actor(equipment, recorder)
        workflow = Workflow(equipped)
        asked = site.asked(ADD)
        spec = replace(spec_of(asked, site.environ), approvals=("write",))
        plan_id = await workflow.create(spec)
        with pytest.raises(ApprovalNeeded):
            await workflow.run(plan_id)
        first = await Directing(equipped).approve(plan_id)
        await Directing(equipped).revert(plan_id, to=Phase.EXECUTE)  # then another way is taken
        recorder.turns = [writing(2), ENDING]
        with pytest.raises(ApprovalNeeded) as again:
            await workflow.resume(plan_id)
    assert again.value.details["digest"] != first.digest
    assert "2.txt" in again.value.details["shown"]


async def test_a_rejected_phase_goes_on_only_when_somebody_begins_it(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, automation_profile="manual"))
        directing = Directing(equipment)
        with pytest.raises(ApprovalNeeded):
            await workflow.run(plan_id)
        await directing.reject(plan_id, "not today")
        with pytest.raises(GuardRefused, match="execute was rejected: not today"):
            await workflow.resume(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        assert (
            "stop there: execute was rejected: not today"
            in (await outlook(equipment, ledger)).steps
        )
        assert "execute was rejected: not today" in (waiting(ledger.state) or {})["for"]
        ended = await workflow.execute(plan_id)
        assert waiting(ended) is None
    assert ended.state == State.COMPLETE


async def test_the_result_is_handed_over_only_when_it_is_good_enough(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        asked = site.asked(ADD, automation_profile="trusted", apply_to="worktree")
        plan_id = await site.made(workflow, asked)  # nothing proves it
        with pytest.raises(ApprovalNeeded, match=r"confidence 0.30, 0.70 is needed"):
            await workflow.run(plan_id)
        assert not (site.repository / "new.txt").exists()
        await Directing(equipment).approve(plan_id)
        ended = await workflow.resume(plan_id)
    assert ended.state == State.APPLIED
    assert (site.repository / "new.txt").read_text() == "new\n"


async def test_a_rejected_hand_over_is_a_persons_to_make(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        asked = site.asked(ADD, automation_profile="ci", apply_to="worktree")
        plan_id = await site.made(workflow, asked)  # nothing proves it
        with pytest.raises(ApprovalNeeded, match="apply waits for approval"):
            await workflow.run(plan_id)
        await Directing(equipment).reject(plan_id)
        with pytest.raises(GuardRefused, match="apply was rejected") as refused:
            await workflow.resume(plan_id)
        assert f"agents plan apply {plan_id}" in refused.value.hint
        async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
            receipt = await Handing(equipment, ledger).apply("worktree")
    assert receipt is not None
    assert (site.repository / "new.txt").exists()


async def test_ci_asks_nobody_although_somebody_is_there(site: Worksite) -> None:
    person = Person(YES)
    async with site.open() as (equipment, _):
        workflow = Workflow(equipment, approver=person)
        asked = site.asked(ADD, automation_profile="ci", apply_to="worktree")
        with pytest.raises(ApprovalNeeded):
            await workflow.run(await site.made(workflow, asked))
    assert person.asked == []
