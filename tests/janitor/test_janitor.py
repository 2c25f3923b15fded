"""What the janitor returns, and what it leaves."""

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.worksite import Worksite
from janitor.passing import Later, bodies, gone, left, running, stopped, swept, tree, worked
from patchyard.clients.berths import from_details
from patchyard.clients.mounts import is_mounted, unmount
from patchyard.clients.process import kill, wait_ended
from patchyard.contracts.trees import whole
from patchyard.domain.events import Moved
from patchyard.domain.plan import Phase, State
from patchyard.domain.retention import DAY_S, Family, Found
from patchyard.engine.handing import Handing
from patchyard.engine.janitor import Janitor
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.verifying import verify
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

needs_root = pytest.mark.service("root")


async def test_a_finished_plan_loses_its_workspace_after_a_week_and_keeps_its_result(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await worked(site, workflow)
        assert gone(await swept(equipment, days=6)) == {}

        returned = gone(await swept(equipment, days=8))

        assert returned[Family.WORKSPACE] == [plan_id]
        assert len(returned[Family.BASE]) == 2
        assert Family.STORE not in returned
        assert left(site) == []
        ledger = await site.ledger(equipment, plan_id)
        base, changeset = await Handing(equipment, ledger).changeset()
        assert b"new.txt" in await whole(equipment.trees.diff(base, changeset))
        assert (await verify(equipment.store.journal, plan_id)).problems == ()
        assert gone(await swept(equipment, days=8)) == {}


async def test_a_plan_that_stopped_keeps_its_work_for_resume(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await stopped(site, workflow)
        await swept(equipment, days=80)
        assert left(site) == [plan_id]

    async with site.open() as (_, workflow):
        state = await workflow.run(plan_id)

        assert state.state == State.COMPLETE
        assert state.changeset is not None
        assert state.changeset.files == 1


async def test_after_the_retention_nothing_of_a_plan_is_left_but_a_note(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        old = await worked(site, workflow)
        head = await (await site.ledger(equipment, old)).head()

        returned = gone(await swept(equipment, days=91))

        assert returned[Family.JOURNAL] == [old]
        assert await equipment.store.summaries.summaries() == []
        assert await equipment.store.journal.read(old) == []
        (removed,) = await equipment.pruning.removed()
        assert (removed.plan_id, removed.head) == (old, head)
        assert left(site) == []
        assert returned[Family.CHECKPOINTS] == [old]
        assert tree(site.folder / "home/checkpoints") == []
        assert tree(site.folder / "home/trees") == []
        (owner, *hints) = tree(site.folder / "home/bases")
        assert [hint for hint in hints if not hint.startswith(f"{owner}/.near-")] == []


async def test_the_bodies_of_others_stay_when_a_journal_goes(site: Worksite) -> None:
    large = {"calls": [{"name": "write_file", "arguments": {"path": "l", "content": "x" * 9000}}]}
    async with site.open() as (equipment, _):
        plans = []
        for days in (-100, -20):  # ago
            then = replace(equipment, clock=Later(equipment.clock, days * DAY_S))
            plans.append(await site.made(Workflow(then), site.asked(large)))
            await Workflow(then).run(plans[-1])
        old, new = plans

        returned = gone(await swept(equipment, days=0))

        assert returned[Family.JOURNAL] == [old]
        checked = await verify(equipment.store.journal, new)
        assert checked.problems == ()
        assert checked.blobs > 0
        await swept(equipment, days=100)
        assert await bodies(equipment) == 0


async def test_what_another_process_works_on_is_left(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await worked(site, workflow)
        async with site.open() as (other, _), PlanLifecycleService(other).owned(plan_id):
            assert gone(await swept(equipment, days=91)) == {}
        assert left(site) == [plan_id]


async def test_a_plan_under_way_keeps_all_however_long_nobody_works_on_it(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await stopped(site, workflow)
        ledger = await site.ledger(equipment, plan_id)
        await ledger.record(Moved(phase=Phase.EXECUTE, state=State.PROCESSING))
        before = tree(site.folder / "home/bases"), tree(site.folder / "home/trees")
        assert set(gone(await swept(equipment, days=400))) == {Family.TOOLBOX}  # is no plan's
        assert (tree(site.folder / "home/bases"), tree(site.folder / "home/trees")) == before


async def test_a_dry_run_says_the_same_and_returns_nothing(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await worked(site, workflow)
        before = tree(site.folder / "home"), left(site)

        sweep = await swept(equipment, days=91, is_dry=True)

        assert (tree(site.folder / "home"), left(site)) == before
        assert sweep.freed > 0
        going = {e.verdict.found.family for e in sweep.things if e.verdict.may_go}
        assert going == {
            *(Family.WORKSPACE, Family.CHECKPOINTS, Family.JOURNAL),
            *(Family.BASE, Family.STORE, Family.TOOLBOX),
        }
        assert set(gone(await swept(equipment, days=91))) == going
        assert plan_id not in left(site)


async def test_a_clock_that_went_back_lets_nothing_go(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        await worked(site, workflow)
        assert gone(await swept(equipment, days=-400)) == {}


async def test_what_a_killed_engine_left_running_stays_until_it_has_ended(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await stopped(site, workflow)
        name = await running(equipment, plan_id)
        berth = site.folder / "home/run" / name

        assert gone(await swept(equipment, days=1)) == {}

        live = (await site.ledger(equipment, plan_id)).state.environments[name]
        for part in ("init", "monitor"):
            process = from_details(live.handle, part)
            assert process is not None
            kill(process)
            wait_ended(process, timeout_s=60)
        returned = gone(await swept(equipment, days=1))
        assert returned[Family.ENVIRONMENT] == [name]
        assert not berth.exists()
        assert (await site.ledger(equipment, plan_id)).state.environments == {}
        assert left(site) == [plan_id]
        root = site.folder / "workspaces/tasks" / plan_id / "root"
        assert not is_mounted(root)
    async with site.open() as (_, workflow):
        state = await workflow.run(plan_id)
        assert state.state == State.COMPLETE


async def test_an_environment_of_a_plan_that_was_given_up_is_ended(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await stopped(site, workflow)
        name = await running(equipment, plan_id)
        ledger = await site.ledger(equipment, plan_id)
        await ledger.record(Moved(phase=Phase.EXECUTE, state=State.CANCELLED))
        assert gone(await swept(equipment, days=0))[Family.ENVIRONMENT] == [name]


async def test_the_folder_of_an_environment_that_no_plan_knows_is_returned_when_it_is_old(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, _):
        name = equipment.clock.new_id()
        berth = site.folder / "home/run" / name
        berth.mkdir(parents=True)
        assert gone(await swept(equipment, days=0)) == {}
        assert gone(await swept(equipment, days=1)) == {Family.ENVIRONMENT: [name]}
        assert not berth.exists()


async def test_trees_for_one_purpose_go_as_soon_as_nobody_works_on_their_plan(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await stopped(site, workflow)
        state = (await site.ledger(equipment, plan_id)).state
        assert state.base is not None
        await equipment.workspaces.create(state.base, workspace_id=f"{plan_id}-proof")
        returned = gone(await swept(equipment, days=0))
        assert returned[Family.WORKSPACE] == [f"{plan_id}-proof"]
        assert left(site) == [plan_id]


async def test_what_others_keep_beside_our_workspaces_is_never_touched(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        folder = site.folder / "workspaces/tasks"
        plan_id = equipment.clock.new_id()
        for name in (plan_id, f"{plan_id}-proof", "tmp12345678", "notes"):
            (folder / name / "own").mkdir(parents=True)
            (folder / name / "own/label").write_text("/somebody/elses/home")
        (folder / "file").write_text("mine")
        before = tree(folder)
        assert gone(await swept(equipment, days=400)) == {}
        assert tree(folder) == before


def bind(source: Path, target: Path) -> None:
    """Show a folder at another place too."""
    subprocess.run(["mount", "--bind", source, target], check=True)


@needs_root
async def test_what_is_mounted_in_a_workspace_keeps_it_and_is_named(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await worked(site, workflow)
        mine = site.folder / "mine"
        mine.mkdir()
        (mine / "file").write_text("mine")
        inside = site.folder / "workspaces/tasks" / plan_id / "own/inside"
        inside.mkdir()
        await asyncio.to_thread(bind, mine, inside)
        try:
            sweep = await swept(equipment, days=91)
            (stuck,) = [each for each in sweep.things if each.obstacle and each.bytes]
            assert str(inside) in stuck.obstacle
            assert (mine / "file").read_text() == "mine"
            assert Family.JOURNAL not in gone(sweep)
        finally:
            unmount(inside)
        assert gone(await swept(equipment, days=91))[Family.WORKSPACE] == [plan_id]
        assert (mine / "file").read_text() == "mine"


async def test_a_base_that_is_asked_for_again_is_made_again(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        first = await worked(site, workflow)
        await swept(equipment, days=8)
        second = await worked(site, workflow)
        one, two = [(await site.ledger(equipment, p)).state for p in (first, second)]
        assert one.changeset is not None
        assert two.changeset is not None
        assert one.changeset.tree == two.changeset.tree


async def test_two_janitors_at_once_return_each_thing_once(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        for _ in range(3):
            await worked(site, workflow)
        async with site.open() as (other, _):
            sweeps = await asyncio.gather(swept(equipment, days=91), swept(other, days=91))
        names = [name for sweep in sweeps for name in gone(sweep).get(Family.JOURNAL, [])]
        assert len(names) == len(set(names)) == 3
        stuck = [each for sweep in sweeps for each in sweep.things if each.obstacle]
        assert [each.obstacle for each in stuck if "made use of" not in each.obstacle] == []
        assert left(site) == []


async def test_half_made_things_of_the_dead_go_and_those_of_the_living_stay(
    site: Worksite,
) -> None:
    home = site.folder / "home"
    for name in ("999999999-index-x", f"{os.getpid()}-index-x"):
        (home / "scratch" / name).mkdir(parents=True)
    (home / "bases/0/.abc0.new").mkdir(parents=True)
    (home / "trees/0123/history/abc0.git.new-5").mkdir(parents=True)
    async with site.open() as (equipment, _):
        assert gone(await swept(equipment, days=0)) == {}
        returned = gone(await swept(equipment, days=1))
        assert sorted(returned[Family.TEMPORARY]) == [
            ".abc0.new",
            "999999999-index-x",
            "abc0.git.new-5",
        ]
    assert (home / "scratch" / f"{os.getpid()}-index-x").is_dir()


async def test_among_everybodys_temporary_folders_only_our_own_go(
    site: Worksite, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    names = ("patchyard-check-abc12345", "patchyard-demo-abc12345", "patchyard-notes", "other")
    build, stand_in = "patchyard-build-abc12345", "patchyard-git-abc_1234"
    for name in (*names, build, stand_in):
        (folder / name).mkdir(mode=0o700)
    (folder / "patchyard-demo-other123").mkdir(mode=0o700)
    (folder / "patchyard-demo-other123/.patchyard-home").write_text("/elsewhere")
    (folder / names[1] / ".patchyard-home").write_text(str(site.folder / "home"))
    open_to_all = folder / "patchyard-check-open1234"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (folder / "patchyard-check-link1234").symlink_to(folder / "other")
    async with site.open() as (equipment, _):
        assert gone(await swept(equipment, days=0.9)) == {}
        assert gone(await swept(equipment, days=2)) == {
            Family.TEMPORARY: [build, names[0], stand_in]
        }
        assert gone(await swept(equipment, days=8)) == {Family.TEMPORARY: [names[1]]}
    assert sorted(place.name for place in folder.iterdir()) == sorted(
        ["other", names[2], open_to_all.name, "patchyard-check-link1234", "patchyard-demo-other123"]
    )


async def test_a_damaged_journal_keeps_what_plans_share_and_stops_nothing_else(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        broken, sound = [await worked(site, workflow) for _ in range(2)]
    database = site.folder / "home/patchyard.db"
    break_it = "UPDATE events SET body = 'x' || body WHERE stream = ? AND version = 2"
    mend_it = "UPDATE events SET body = substr(body, 2) WHERE stream = ? AND version = 2"
    changed(database, break_it, broken)

    async with site.open() as (equipment, _):
        sweep = await swept(equipment, days=91)
        returned = gone(sweep)

    (said,) = sweep.damaged
    assert broken in said
    assert returned[Family.JOURNAL] == [sound]
    assert left(site) == [broken]
    assert Family.STORE not in returned
    assert Family.BASE not in returned
    changed(database, mend_it, broken)


async def test_a_defect_in_one_plan_keeps_what_plans_share_and_hides_no_other(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = Janitor._plan
    async with site.open() as (equipment, workflow):
        bad, sound = [await worked(site, workflow) for _ in range(2)]

        async def broken(own: Janitor, plan_id: str, things: Sequence[Found]) -> None:
            if plan_id == bad:
                raise LookupError("a defect")
            await judged(own, plan_id, things)

        monkeypatch.setattr(Janitor, "_plan", broken)
        sweep = await swept(equipment, days=91)
    (said,) = sweep.damaged
    assert said.startswith(f"plan {bad}: LookupError: a defect")
    assert gone(sweep)[Family.JOURNAL] == [sound]
    assert Family.STORE not in gone(sweep)
    assert left(site) == [bad]


async def test_a_damaged_line_of_the_list_keeps_what_plans_share(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        broken = await worked(site, workflow)
    database = site.folder / "home/patchyard.db"
    changed(database, "UPDATE summaries SET summary = '{' WHERE stream = ?", broken)

    async with site.open() as (equipment, _):
        returned = gone(await swept(equipment, days=8))

    assert Family.STORE not in returned
    assert Family.BASE not in returned


def changed(database: Path, statement: str, plan_id: str) -> None:
    """Change the database behind everybody's back."""
    connection = sqlite3.connect(database)
    connection.execute(statement, (plan_id,))
    connection.commit()
    connection.close()


async def test_a_plan_with_nothing_to_return_is_not_owned_even_for_a_moment(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as (equipment, workflow):
        await worked(site, workflow)

        def owned(*_: object, **__: object) -> None:
            raise AssertionError("it was owned")

        monkeypatch.setattr(PlanLifecycleService, "owned", owned)
        assert gone(await swept(equipment, days=1)) == {}
