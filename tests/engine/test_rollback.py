"""Plans taken back to a checkpoint: files and conversation together, and on from there."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.checkpoint import CheckpointMade, FilesRestored, RolledBack, Trigger
from patchyard.domain.codec import from_json
from patchyard.domain.errors import (
    Conflict,
    GuardRefused,
    JournalBroken,
    UnknownName,
    UsageError,
)
from patchyard.domain.events import (
    Noted,
    ToolCallRequested,
    ToolCallSettled,
    TurnTaken,
    WorkspaceRemoved,
)
from patchyard.domain.plan import Phase, State
from patchyard.domain.state import PlanState
from patchyard.engine import checkpoints, rolling_back
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import working_ground
from patchyard.engine.handing import Handing
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.report import plan_data
from patchyard.engine.reverting import revert
from patchyard.engine.rolling_back import find_mark, roll_back
from patchyard.engine.rows import body_of
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of
from patchyard.toolbox.freezing import LONGEST_S

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


def append(word: str) -> dict[str, Any]:
    """One reply: a command that shows how often it ran."""
    return call("execute_command", command=f"echo {word} >> log; echo {word} >> .git/seen")


async def taken_back(equipment: Equipment, site: Worksite, plan_id: str, number: int) -> PlanState:
    """Roll back to the checkpoint of that number and return the state."""
    ledger = await site.ledger(equipment, plan_id)
    return await roll_back(equipment, ledger, ledger.state.checkpoints[number])


async def files_of(equipment: Equipment, plan_id: str) -> dict[str, str]:
    """What the plan's tree differs in from its base, by path."""
    async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
        base = ledger.state.base
        assert base is not None
        async with working_ground(equipment, ledger, base, ()) as workspace:
            changed = await equipment.workspaces.capture(base, workspace)
            paths = [each.path for each in changed.changes]
            return {path: _text(workspace.root, path) for path in paths}


def _text(root: str, path: str) -> str:
    return Path(root, path).read_text()


async def test_files_and_conversation_go_back_and_a_resume_thinks_on_from_there(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        asked = site.asked(append("one"), append("two"), append("three"))
        plan_id = await site.made(workflow, asked)
        state = await workflow.run(plan_id)
        befores = [m for m in state.checkpoints if m.trigger == Trigger.BEFORE_TOOL]
        assert [mark.turn for mark in befores] == [1, 2, 3]
        assert await files_of(equipment, plan_id) == {"log": "one\ntwo\nthree\n"}

        state = await taken_back(equipment, site, plan_id, 1)

        assert (state.phase, state.state, state.turn) == (Phase.EXECUTE, State.QUEUED, 1)
        assert state.changeset is None
        assert len(state.checkpoints) == 2
        assert await files_of(equipment, plan_id) == {"log": "one\n"}
        site.script(
            [append("one"), append("other"), call("read_file", path="log"), {"finish": "x"}]
        )
        spent = state.spent.steps
    async with site.open() as (equipment, workflow):
        state = await workflow.run(plan_id)
        assert (state.phase, state.state) == (Phase.EXECUTE, State.COMPLETE)
        assert await files_of(equipment, plan_id) == {"log": "one\nother\n"}
        assert state.spent.steps == spent + 3


async def test_it_can_go_back_to_before_anything_and_to_the_end_of_a_round(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one"), append("two")))
        state = await workflow.run(plan_id)
        last = state.checkpoints[-1]
        assert last.trigger == Trigger.PHASE

        state = await taken_back(equipment, site, plan_id, -1)
        state = await Workflow(equipment).run(plan_id)
        assert state.state == State.COMPLETE
        assert await files_of(equipment, plan_id) == {"log": "one\ntwo\n"}

        state = await taken_back(equipment, site, plan_id, 0)
        assert (state.turn, state.checkpoints[0].files > 0) == (0, True)
        assert await files_of(equipment, plan_id) == {}
        state = await Workflow(equipment).run(plan_id)
        assert await files_of(equipment, plan_id) == {"log": "one\ntwo\n"}


async def test_of_a_turn_with_several_calls_what_was_done_stays_and_the_rest_is_told(
    site: Worksite,
) -> None:
    several = {"calls": [*append("one")["calls"], *append("two")["calls"]]}
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(several))
        await workflow.run(plan_id)
        state = await taken_back(equipment, site, plan_id, 1)
        assert state.turn == 1
        site.heard.clear()
        watched = Workflow(equipment, watching=Watching(on_event=site.heard.append))
        state = await watched.run(plan_id)
        assert state.state == State.COMPLETE
        assert await files_of(equipment, plan_id) == {"log": "one\n"}
        taken = [each.error for each in site.heard if isinstance(each, ToolCallSettled)]
        assert taken == ["ROLLED_BACK"]


async def test_a_rollback_of_a_rollback_finds_the_right_conversation(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        words = [append(word) for word in ("one", "two", "three", "four")]
        plan_id = await site.made(workflow, site.asked(*words))
        await workflow.run(plan_id)
        for number, left in ((3, "one\ntwo\nthree\n"), (1, "one\n"), (1, "one\n")):
            await taken_back(equipment, site, plan_id, number)
            assert await files_of(equipment, plan_id) == {"log": left}
        state = await Workflow(equipment).run(plan_id)
        assert state.state == State.COMPLETE
        assert await files_of(equipment, plan_id) == {"log": "one\ntwo\nthree\nfour\n"}
        ledger = await site.ledger(equipment, plan_id)
        taken = [each for _, _, each in await ledger.events() if isinstance(each, TurnTaken)]
        assert len(taken) == 1 + 5 + 4  # strategize, the first way, and what was thought anew


async def test_checkpoints_are_listed_and_found_by_a_part_of_their_name(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one"), append("two")))
        state = await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
        listed = data["execution"]["checkpoints"]
        assert [row["checkpoint_id"] for row in listed] == [
            mark.checkpoint_id for mark in state.checkpoints
        ]
        assert (listed[0]["tool"], listed[0]["turn"]) == ("execute_command", 1)
        first = state.checkpoints[0]
        assert find_mark(state, first.checkpoint_id.lower()) == first
        assert find_mark(state, first.checkpoint_id[-9:]) == first
        with pytest.raises(UnknownName, match="no checkpoint 'NONE'") as caught:
            find_mark(state, "NONE")
        assert first.checkpoint_id in caught.value.hint
        with pytest.raises(UnknownName, match="name a checkpoint"):
            find_mark(state, "")
        with pytest.raises(UsageError, match="fits 3"):
            find_mark(state, "01")


async def test_what_is_handed_over_is_taken_back_first(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one"), apply_to="worktree"))
        await workflow.run(plan_id)
        with pytest.raises(GuardRefused, match="handed over") as caught:
            await taken_back(equipment, site, plan_id, 0)
        assert "unapply" in caught.value.hint
        ledger = await site.ledger(equipment, plan_id)
        await Handing(equipment, ledger).unapply()
        state = await taken_back(equipment, site, plan_id, 0)
        assert (state.phase, state.state) == (Phase.EXECUTE, State.QUEUED)


async def test_what_was_given_up_by_a_revert_can_be_gone_back_to(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one"), append("two")))
        await workflow.run(plan_id)
        async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
            await revert(equipment, ledger, to=Phase.STRATEGIZE, by="test")
        state = await taken_back(equipment, site, plan_id, 1)
        assert (state.phase, state.state) == (Phase.EXECUTE, State.QUEUED)
        state = await Workflow(equipment).run(plan_id)
        assert state.state == State.COMPLETE
        assert await files_of(equipment, plan_id) == {"log": "one\ntwo\n"}


async def test_a_plan_that_somebody_works_on_is_not_rolled_back(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one")))
        await workflow.run(plan_id)
        with pytest.raises(Conflict):
            async with (
                PlanLifecycleService(equipment).owned(plan_id),
                PlanLifecycleService(equipment).owned(plan_id),
            ):
                raise AssertionError


async def test_a_lost_content_is_told_before_anything_is_changed(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one"), append("two")))
        state = await workflow.run(plan_id)
        contents = [p for p in (site.folder / "home/checkpoints").rglob("*") if p.is_file()]
        for place in contents:
            place.unlink()
        with pytest.raises(JournalBroken, match="missing"):
            await taken_back(equipment, site, plan_id, -1)
        after = (await site.ledger(equipment, plan_id)).state
        assert (after.version, after.restoring) == (state.version, "")


async def test_a_list_of_files_that_the_journal_lost_is_said_and_made_anew(site: Worksite) -> None:
    many = call("execute_command", command="for n in $(seq 100); do echo $n > file$n; done")
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(many, append("one"), append("two")))
        await workflow.run(plan_id)
        await taken_back(equipment, site, plan_id, 2)
    with closing(sqlite3.connect(site.folder / "home/patchyard.db")) as database:
        made = "SELECT body FROM events WHERE type = 'CheckpointMade'"
        digests = [json.loads(row[0])["manifest"].get("digest") for row in database.execute(made)]
        database.executemany(
            "DELETE FROM bodies WHERE digest = ?", [(each,) for each in digests if each]
        )
        database.commit()
    async with site.open() as (equipment, workflow):
        state = await workflow.run(plan_id)
        assert state.state == State.COMPLETE
        assert (await files_of(equipment, plan_id))["log"] == "one\ntwo\n"
        noted = [each.text for each in site.heard if isinstance(each, Noted)]
        assert any("the next one holds all files" in text for text in noted)
        await taken_back(equipment, site, plan_id, -1)
        assert (await files_of(equipment, plan_id))["log"] == "one\ntwo\n"


class Killed(BaseException):
    """The engine died here."""


async def test_a_rollback_killed_in_the_middle_is_finished_by_the_next_start(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one"), append("two")))
        await workflow.run(plan_id)

        async def dies(*_arguments: object) -> None:
            raise Killed

        monkeypatch.setattr(rolling_back, "bring_back", dies)
        with pytest.raises(Killed):
            await taken_back(equipment, site, plan_id, 1)
        monkeypatch.undo()
    async with site.open() as (equipment, _):
        state = (await site.ledger(equipment, plan_id)).state
        assert state.restoring == state.checkpoints[-1].checkpoint_id
        assert await files_of(equipment, plan_id) == {"log": "one\n"}
        assert (await site.ledger(equipment, plan_id)).state.restoring == ""


async def test_checkpoints_are_made_when_it_is_said(site: Worksite) -> None:
    async with site.open() as (_, workflow):
        failing = call("execute_command", command="echo x > made; exit 3")
        made: dict[tuple[Trigger, ...], list[Trigger]] = {}
        for wanted in ((), (Trigger.AFTER_TOOL,), (Trigger.ON_ERROR,)):
            spec = spec_of(site.asked(append("one"), failing, append("two")), site.environ)
            plan_id = await workflow.create(replace(spec, checkpoints=wanted))
            state = await workflow.run(plan_id)
            made[wanted] = [mark.trigger for mark in state.checkpoints]
        assert made == {
            (): [Trigger.PHASE],
            (Trigger.AFTER_TOOL,): [Trigger.AFTER_TOOL] * 3,
            (Trigger.ON_ERROR,): [Trigger.ON_ERROR, Trigger.PHASE],
        }


async def test_what_only_reads_makes_none(site: Worksite) -> None:
    async with site.open() as (_, workflow):
        read = call("read_file", path="a.txt")
        plan_id = await site.made(workflow, site.asked(read, append("one"), read, read))
        state = await workflow.run(plan_id)
        assert [mark.turn for mark in state.checkpoints] == [2, 5]


async def test_a_manifest_is_the_sum_of_its_differences(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "FEWEST_ROWS", 3)
    async with site.open() as (equipment, workflow):
        steps = [append(str(number)) for number in range(12)]  # a copy's first manifest has 17 rows
        plan_id = await site.made(workflow, site.asked(*steps))
        state = await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        made = [each for _, _, each in await ledger.events() if isinstance(each, CheckpointMade)]
        wholes = [each for each in made if not each.previous]
        assert 1 < len(wholes) < len(made)
        for mark in state.checkpoints:
            manifest = await checkpoints.manifest_of(ledger, mark.checkpoint_id)
            assert len(manifest) == mark.files


async def test_what_happened_is_told_in_order(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one")))
        await workflow.run(plan_id)
        await taken_back(equipment, site, plan_id, 0)
        ledger = await site.ledger(equipment, plan_id)
        told = [type(each) for _, _, each in await ledger.events()]
        assert told[-2:] == [RolledBack, FilesRestored]


async def test_before_a_declared_install_and_at_the_end_of_a_round_bulk_is_kept(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as (equipment, workflow):
        kept: list[bool] = []
        checkpoint: Any = equipment.workspaces.checkpoint

        async def noted(*arguments: object, **options: object) -> object:
            kept.append(bool(options["has_bulk"]))
            return await checkpoint(*arguments, **options)

        monkeypatch.setattr(equipment.workspaces, "checkpoint", noted)
        install = call("execute_command", command="echo install > .git/done")
        asked = site.asked(append("one"), install, append("two"))
        spec = replace(spec_of(asked, site.environ), setup=("echo install > .git/done",))
        await workflow.run(await workflow.create(spec))
        assert kept == [False, True, False, True]


async def test_a_plan_without_a_workspace_goes_back_once_it_has_one_again(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one")))
        state = await workflow.run(plan_id)
        mark = state.checkpoints[0]
        ledger = await site.ledger(equipment, plan_id)
        await equipment.workspaces.remove(from_json(WorkspaceRef, state.workspace))
        await ledger.record(WorkspaceRemoved(workspace_id=plan_id))
        state = await roll_back(equipment, ledger, mark)
        assert (state.workspace, state.restoring) == (None, mark.checkpoint_id)
        with pytest.raises(JournalBroken, match="missing in the journal"):
            await checkpoints.manifest_of(ledger, "01J00000000000000000000000")


async def test_an_open_call_is_settled_before_the_plan_goes_back(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(append("one"), append("two")))
        state = await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        event = ToolCallRequested(
            call_id="01J00000000000000000000000",
            turn=state.turn,
            ref="r",
            name="execute_command",
            arguments=body_of({"command": "true"}),
            environment_id="gone",
        )
        await ledger.record(event)
        after = await roll_back(equipment, ledger, state.checkpoints[1])
        assert after.open_calls == {}
        settled = [e for _, _, e in await ledger.events() if isinstance(e, ToolCallSettled)]
        assert (settled[-1].call_id, settled[-1].error) == (event.call_id, "CANCELLED")


async def test_what_takes_longer_than_anything_is_held_is_fuzzy(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checkpoints.HELD_S == LONGEST_S
    monkeypatch.setattr(checkpoints, "HELD_S", 0.0)
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, site.asked(append("one"), append("two")))
        state = await workflow.run(plan_id)
        assert [mark.is_fuzzy for mark in state.checkpoints] == [True, True, False]  # at the end
