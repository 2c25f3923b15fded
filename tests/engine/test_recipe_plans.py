"""Plans of actions, whole: a recipe in the sandbox, invariants of all scopes, protected paths."""

from collections.abc import Mapping
from typing import Any

import pytest

from engine.worksite import Worksite
from patchyard.domain.action import parse_action
from patchyard.domain.decision import DecisionKind
from patchyard.domain.errors import PatchyardError, ProofFailed, StateRefusal
from patchyard.domain.events import ToolCallRequested
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.plan import Phase, State
from patchyard.domain.project import Project
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, take_in

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

FILES = {"src/a.py": "x = 1\n", "src/b.py": "y = 1\n", "db/1.sql": "select 1\n"}
STEPS: list[Mapping[str, Any]] = [
    {"replace": {"files": "src/*.py", "pattern": "= (\\d)$", "with": "= {by}\\1"}},
    {"when": {"run": "grep -q 91 src/a.py", "then": [{"run": "echo {by} > said.txt"}]}},
]


@pytest.fixture
def files() -> dict[str, str]:
    return FILES


async def used(site: Worksite, workflow: Workflow, catalogue: Catalogue, **body: Any) -> str:
    """Make a plan of an action, as `plan use` does."""
    action = parse_action(
        {"name": "a", "arguments": {"by": {"default": "9"}}, "steps": STEPS, **body}
    )
    asked = Asked(action=action, repository=str(site.repository), kind="process", validate=("",))
    if "validate" in body:
        asked = Asked(action=action, repository=str(site.repository), kind="process")
    intake = take_in(asked, site.environ, await catalogue.holdings())
    return await workflow.create(intake.spec)


def found(site: Worksite) -> dict[str, str]:
    return {name: (site.repository / name).read_text() for name in FILES}


async def test_a_recipe_becomes_a_change_set_and_the_checkout_is_untouched(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        catalogue = Catalogue(equipment.store.journal, equipment.clock)
        plan_id = await used(site, workflow, catalogue, validate=["grep -q 91 src/b.py"])
        state = await workflow.strategize(plan_id)
        planned = [e for e in site.heard if isinstance(e, ToolCallRequested)]
        assert {call.name for call in planned} == {"search_files"}
        (root,) = [d for d in state.decisions if d.parent_id is None]
        assert root.kind == DecisionKind.PROMPT_DEFINITION
        choices = [d for d in state.decisions if d.kind == DecisionKind.STRATEGY_CHOICE]
        assert "src/a.py, src/b.py" in choices[0].rationale
        assert len(choices[1].alternatives) == 2
        state = await workflow.execute(plan_id)
        assert (state.phase, state.state) == (Phase.EXECUTE, State.COMPLETE)
        ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
        _, changeset = await Handing(equipment, ledger).changeset()
    paths = [change.path for change in changeset.changes]
    assert paths == ["said.txt", "src/a.py", "src/b.py"]
    assert all(change.call_id for change in changeset.changes)
    assert found(site) == FILES


async def test_a_recipe_that_fails_the_proof_leaves_the_plan_constrained(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        catalogue = Catalogue(equipment.store.journal, equipment.clock)
        plan_id = await used(site, workflow, catalogue, validate=["grep -q 77 src/b.py"])
        with pytest.raises(ProofFailed):
            await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
    assert (state.phase, state.state) == (Phase.EXECUTE, State.CONSTRAINED)
    assert state.strategy
    assert found(site) == FILES


async def test_a_failing_step_errors_the_plan_with_its_place(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        catalogue = Catalogue(equipment.store.journal, equipment.clock)
        plan_id = await used(site, workflow, catalogue, steps=[{"run": "exit 7"}])
        with pytest.raises(PatchyardError, match=r"steps\[0\].*ended with 7"):
            await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
    assert (state.phase, state.state) == (Phase.EXECUTE, State.ERRORED)


async def test_invariants_of_every_scope_are_enforced_and_recorded(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        catalogue = Catalogue(equipment.store.journal, equipment.clock)
        await catalogue.create_project(Project(name="p", repository=str(site.repository)))
        for scope, target in ((Scope.GLOBAL, ""), (Scope.PROJECT, "p"), (Scope.ACTION, "a")):
            await catalogue.add_invariant(
                Invariant(
                    invariant_id=equipment.clock.new_id(),
                    text=f"of {scope}",
                    scope=scope,
                    target=target,
                    check="test -e src/a.py" if scope == Scope.PROJECT else None,
                )
            )
        plan_id = await used(site, workflow, catalogue, invariants=["of the file"])
        state = await workflow.run(plan_id)
    enforced = [d for d in state.decisions if d.kind == DecisionKind.INVARIANT_ENFORCED]
    assert {d.choice for d in enforced} == {"of global", "of project", "of action", "of the file"}
    checked = [(event.text, event.when, event.passed) for event in state.invariants]
    assert checked == [("of project", "before", True), ("of project", "after", True)]


async def test_a_path_that_the_project_protects_is_not_handed_over_unasked(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        catalogue = Catalogue(equipment.store.journal, equipment.clock)
        await catalogue.create_project(Project(name="p", repository=str(site.repository)))
        await catalogue.set_context("p", "protected_paths", ["db/*"])
        plan_id = await used(site, workflow, catalogue, steps=[{"run": "echo 2 >> db/1.sql"}])
        await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        with pytest.raises(StateRefusal, match=r"db/1\.sql"):
            await Handing(equipment, ledger).apply("worktree")
        assert found(site) == FILES
        ledger = await site.ledger(equipment, plan_id)
        await Handing(equipment, ledger).apply("worktree", allow_paths=("db/1.sql",))
    assert found(site)["db/1.sql"] == "select 1\n2\n"


async def test_closed_folders_that_a_replacement_passed_over_are_told(site: Worksite) -> None:
    shut = "mkdir shut && echo x = 1 >shut/c.py && chmod 0 shut"
    steps: list[dict[str, Any]] = [
        {"run": shut},
        {"replace": {"files": "**/*.py", "pattern": "= 1", "with": "= 2"}},
        {"run": "chmod 755 shut"},
    ]
    action = parse_action({"name": "a", "steps": steps})
    asked = Asked(action=action, repository=str(site.repository), kind="process")
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, asked)
        state = await workflow.run(plan_id)
    assert "1 closed folder was passed over: **/*.py" in state.summary
    assert "replaced 2 in 2 of 2 files" in state.summary
