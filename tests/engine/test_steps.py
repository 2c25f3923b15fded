"""The seven steps as the journal tells of them: in order, timed, cleanup always."""

from dataclasses import replace

import pytest

from engine.worksite import ADD, Worksite, call, done
from patchyard.domain.action import parse_action
from patchyard.domain.budget import PlanLimits
from patchyard.domain.errors import LimitReached, ProofFailed
from patchyard.domain.events import LimitsChanged
from patchyard.domain.plan import Phase
from patchyard.domain.receipt import receipt_markdown
from patchyard.domain.steps import Step, StepEnded, Steps, workflow_line
from patchyard.engine.report import plan_data
from patchyard.intake import Asked

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
def files() -> dict[str, str]:
    return {"a.txt": "one\n"}


def ended(site: Worksite, phase: Phase = Phase.EXECUTE) -> list[tuple[str, bool]]:
    """The steps of a phase as they ended, and whether each was done."""
    events = [event for event in site.heard if isinstance(event, StepEnded)]
    return [(str(event.step), event.is_done) for event in events if event.phase == phase]


async def test_a_task_takes_the_seven_steps_in_order_and_the_receipt_says_how_long(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        slow = call("execute_command", command="sleep 0.2")
        plan_id = await site.made(workflow, site.asked(slow, ADD, validate=("true",)))
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    planned = ["analysis", "environment", "repository", "model", "analysis", "cleanup"]
    worked = ["environment", "repository", "model", "execution", "validation", "cleanup"]
    assert ended(site, Phase.STRATEGIZE) == [(step, True) for step in planned]
    assert ended(site) == [(step, True) for step in worked]
    analysed = next(event for event in site.heard if isinstance(event, StepEnded))
    assert analysed.came_to == "unknown, unknown; 1 file"
    rows = {row["step"]: row for row in data["workflow"]}
    assert list(rows) == [str(step) for step in Step]
    assert {row["status"] for row in rows.values()} == {"done"}
    assert rows["execution"]["seconds"] >= 0.2
    assert rows["execution"]["came_to"] == "done"
    assert rows["validation"]["came_to"] == "proven in round 1"
    assert rows["model"]["came_to"].endswith("script.json (named)")
    assert rows["repository"]["came_to"].startswith("main@")
    assert rows["cleanup"]["came_to"] == "a change set, gate reports, a strategy"
    assert data["receipt"]["workflow"] == data["workflow"]
    assert "- took: analysis" in receipt_markdown(data["receipt"])


async def test_each_round_is_a_step_more_and_cleanup_comes_after_a_failure_too(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, done(), validate=("false",), rounds=1))
        with pytest.raises(ProofFailed):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert ended(site)[3:] == [
        ("execution", True),
        ("validation", True),
        ("execution", True),
        ("validation", False),
        ("cleanup", True),
    ]
    rows = {row["step"]: row for row in data["workflow"]}
    assert (rows["execution"]["times"], rows["validation"]["status"]) == (2, "cut short")
    assert not data["execution"].get("environments")


async def test_a_limit_cuts_a_step_short_and_a_resumed_plan_takes_it_anew(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, ADD, steps=2))
        with pytest.raises(LimitReached):
            await workflow.run(plan_id)
        assert ended(site)[-2:] == [("execution", False), ("cleanup", True)]
        state = (await site.ledger(equipment, plan_id)).state
        assert state.steps.rows()[4]["status"] == "cut short"
        assert "execution" in workflow_line(state.steps.rows())
        assert state.steps.rows()[5]["status"] == "open"
        ledger = await site.ledger(equipment, plan_id)
        await ledger.record(LimitsChanged(limits=PlanLimits()))
        resumed = await workflow.run(plan_id)
    execution = resumed.steps.rows()[4]
    assert (execution["status"], execution["times"]) == ("done", 2)


async def test_a_recipe_says_that_no_model_is_asked(site: Worksite) -> None:
    action = parse_action({"name": "a", "steps": [{"run": "true"}]})
    asked = Asked(action=action, repository=str(site.repository), kind="process")
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, asked)
        await workflow.strategize(plan_id)
    (event,) = [e for e in site.heard if isinstance(e, StepEnded) and e.step == Step.MODEL]
    assert event.came_to == "none: recipe asks no model"


def test_what_took_no_time_is_left_out_of_the_line() -> None:
    steps = Steps()
    assert workflow_line(steps.rows()) == ""
    quick = StepEnded(step=Step.MODEL, phase=Phase.EXECUTE, seconds=0.01, is_done=True)
    slow = replace(quick, step=Step.EXECUTION, seconds=2.04, is_done=False, came_to="a word")
    steps = steps.after(quick).after(slow).after(replace(slow, is_done=True, came_to=""))
    assert workflow_line(steps.rows()) == "execution 4.1 s"
    assert steps.rows()[4]["came_to"] == "a word"
