"""What a plan comes to in the less usual cases: limits, empty proofs, second names, reach."""

from dataclasses import replace
from typing import cast

import pytest

from engine.worksite import ADD, Worksite, call
from patchyard.contracts.workspace import CheckpointingWorkspaces
from patchyard.domain.changeset import ChangeSet
from patchyard.domain.errors import (
    GuardRefused,
    LimitReached,
    ProofFailed,
    ReconciliationBlockedError,
    Unavailable,
)
from patchyard.domain.events import Noted
from patchyard.domain.invariant import Invariant, Scope
from patchyard.engine import plan_executor
from patchyard.engine.handing import Handing
from patchyard.engine.lifecycle import declare
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


async def test_an_included_folder_is_seen_read_only_and_is_no_change(site: Worksite) -> None:
    folder = site.repository / "deps"
    folder.mkdir()
    (folder / "lib.txt").write_text("library\n")
    (site.repository / ".gitignore").write_text("deps/\n")
    look = call("execute_command", command="cat deps/lib.txt && ! touch deps/x && touch new.txt")
    leave = call("execute_command", command="mkdir -p __pycache__ .venv && touch .venv/x && echo 1")
    async with site.open() as (equipment, workflow):
        spec = spec_of(site.asked(look, leave, validate=("test -e deps/lib.txt",)), site.environ)
        plan_id = await workflow.create(replace(spec, include=("deps",)))
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert [f["path"] for f in data["changeset"]["files"]] == ["new.txt"]
    assert sorted(path.name for path in folder.iterdir()) == ["lib.txt"]


async def test_a_proof_that_ran_no_test_proves_nothing(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        asked = site.asked(ADD, validate=("echo; echo 'Ran 0 tests in 0.000s'; echo OK",), rounds=0)
        plan_id = await site.made(workflow, asked)
        with pytest.raises(ProofFailed):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert "no test ran" in data["validation"][0]["output"]


async def test_a_plan_stopped_by_a_limit_keeps_its_change_set(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, ADD, ADD, steps=3))
        with pytest.raises(LimitReached):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert [f["path"] for f in data["changeset"]["files"]] == ["new.txt"]
    assert data["proven_tree"] is None


class Unreadable:
    """Workspaces that cannot be captured."""

    def __init__(self, workspaces: CheckpointingWorkspaces) -> None:
        self._workspaces = workspaces

    def __getattr__(self, name: str) -> object:
        return getattr(self._workspaces, name)

    async def capture(self, *_: object, **__: object) -> ChangeSet:
        raise Unavailable("the disk is full")


async def test_a_limit_stays_the_reason_when_nothing_can_be_captured(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        blind = cast("CheckpointingWorkspaces", Unreadable(equipment.workspaces))
        workflow = Workflow(replace(equipment, workspaces=blind))
        plan_id = await site.made(workflow, site.asked(ADD, ADD, ADD, steps=3))
        with pytest.raises(LimitReached):
            await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        notes = [event.text for _, _, event in await ledger.events() if isinstance(event, Noted)]
    assert ledger.state.failure is not None
    assert ledger.state.failure.code == "limit"
    assert notes[-1] == "it could not be captured: the disk is full"


async def test_a_capture_after_the_limit_is_not_waited_for_without_end(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_executor, "KEEPING_S", 0.2)
    large = call("execute_command", command="head -c 300M /dev/urandom > large.bin")
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(large, ADD, ADD, steps=3))
        with pytest.raises(LimitReached, match="steps"):
            await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        notes = [event.text for _, _, event in await ledger.events() if isinstance(event, Noted)]
    assert notes[-1] == "it could not be captured within 0.2 s"
    assert ledger.state.changeset is None


async def test_a_second_branch_is_made_when_another_name_is_asked_for(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD))
        await workflow.run(plan_id)
        handing = Handing(equipment, await site.ledger(equipment, plan_id))
        first = await handing.apply("branch", name="one")
        again = await handing.apply("branch", name="one")
        second = await handing.apply("branch", name="two")
    assert first == again
    assert second is not None
    assert second.reference == "two"


async def test_what_runs_on_host_is_said_to_reach_what_the_machine_does(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, kind="host"))
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert data["reach"]["network"]["summary"] == "all that this machine reaches"


async def test_an_invariant_of_the_plan_itself_is_checked_and_can_come_too_late(
    site: Worksite,
) -> None:
    invariant = Invariant(
        invariant_id="I", text="no new file", scope=Scope.PLAN, check="test ! -e new.txt"
    )
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, rounds=0))
        await declare(await site.ledger(equipment, plan_id), invariant)
        with pytest.raises(ReconciliationBlockedError, match="no new file"):
            await workflow.run(plan_id)
        with pytest.raises(GuardRefused, match="settled"):
            await declare(await site.ledger(equipment, plan_id), invariant)
