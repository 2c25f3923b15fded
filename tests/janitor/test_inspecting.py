"""What `doctor` and `plan verify` say of the journal around a plan's events."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, done
from janitor.passing import gone, stopped, swept, worked
from patchyard.domain.checkpoint import RolledBack
from patchyard.domain.plan import Phase, State
from patchyard.domain.retention import Family
from patchyard.engine.inspecting import doubts, inspect, inspect_around
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.restarts import RESTARTED
from patchyard.engine.rolling_back import roll_back
from patchyard.intake import spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


def changed(site: Worksite, statement: str, plan_id: str) -> None:
    """Change the database behind everybody's back."""
    connection = sqlite3.connect(site.folder / "home/patchyard.db")
    connection.execute(statement, (plan_id,) if "?" in statement else ())
    connection.commit()
    connection.close()


async def agents(site: Worksite, *words: str) -> dict[str, Any]:
    """What a command answers."""
    command = [sys.executable, "-m", "patchyard", *words, "--format", "json"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=site.repository, env=site.environ, capture_output=True
    )
    body: dict[str, Any] = json.loads(done.stdout)
    return body


async def test_what_is_wrong_around_a_plan_is_named_and_a_sound_one_says_nothing(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await worked(site, workflow)
        assert await inspect(equipment) == []
        assert await inspect_around(equipment, plan_id) == []

        changed(site, "UPDATE summaries SET summary = replace(summary, 'do', 'di')", plan_id)
        assert await inspect(equipment) == []
        (said,) = await inspect_around(equipment, plan_id)
        assert "not what its events say" in said
        await swept(equipment, days=0)
        assert await inspect_around(equipment, plan_id) == []

        changed(site, "UPDATE summaries SET summary = json_set(summary, '$.updated', 9.5)", plan_id)
        (said,) = await inspect_around(equipment, plan_id)
        assert "not what its events say" in said
        await swept(equipment, days=0)
        assert await inspect_around(equipment, plan_id) == []

        changed(site, "DELETE FROM summaries WHERE stream = ?", plan_id)
        (said,) = await inspect(equipment)
        assert "is lost" in said
        assert await inspect_around(equipment, plan_id) == [said]
        unknown = equipment.clock.new_id()
        (site.folder / "home/checkpoints" / unknown).mkdir()
        assert [said for said in await inspect(equipment) if unknown in said]

    answer = await agents(site, "plan", "verify", plan_id)
    assert (answer["exit_code"], answer["error"]["code"]) == (1, "journal_broken")


async def test_a_plan_that_goes_on_during_a_look_is_not_called_damaged(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await workflow.create(spec_of(site.asked(ADD, done()), site.environ))
        await workflow.strategize(plan_id)
        real = Ledger.open

        async def amid(*given: Any) -> Ledger:
            opened = await real(*given)
            monkeypatch.undo()
            await workflow.run(plan_id)
            return opened

        monkeypatch.setattr(Ledger, "open", amid)
        assert await inspect_around(equipment, plan_id) == []
        assert await inspect_around(equipment, plan_id) == []


async def test_a_plan_that_another_engine_begins_during_a_look_is_not_called_lost(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as (equipment, workflow):
        begun: list[str] = []
        summaries = equipment.store.summaries.summaries
        removed = equipment.pruning.removed

        async def amid_the_list() -> Any:
            listed = [*await summaries()]
            if not begun:
                begun.append(await worked(site, workflow))
            return listed

        async def amid_the_removed() -> Any:
            monkeypatch.undo()
            gone = await removed()
            begun.append(await worked(site, workflow))
            return gone

        monkeypatch.setattr(equipment.store.summaries, "summaries", amid_the_list)
        assert await inspect(equipment) == []
        monkeypatch.setattr(equipment.pruning, "removed", amid_the_removed)
        assert await inspect(equipment) == []
        begun.clear()
        monkeypatch.setattr(equipment.store.summaries, "summaries", amid_the_list)
        assert (await swept(equipment, days=0)).damaged == ()
        monkeypatch.setattr(equipment.pruning, "removed", amid_the_removed)
        assert (await swept(equipment, days=0)).damaged == ()
        assert len(begun) == 2


async def test_a_disk_that_was_mounted_anew_is_known_before_a_plan_goes_on(site: Worksite) -> None:
    """So is what goes on then: from the last checkpoint."""
    async with site.open() as (equipment, workflow):
        plan_id = await stopped(site, workflow)
        assert await doubts(equipment) == {}
        (noted,) = (site.folder / "workspaces").rglob("own/boot")
        boot, mount = noted.read_text().splitlines()
        device, *numbers = mount.split()
        earlier = [str(int(number) - 1) for number in numbers]
        if not earlier:
            pytest.skip("the kernel numbers no mounts of this file system")
        noted.write_text(f"{boot}\n{' '.join([device, *earlier])}\n")
        assert await doubts(equipment) == {plan_id: RESTARTED}

    (row,) = [
        each
        for each in (await agents(site, "doctor"))["data"]["findings"]
        if each["name"] == "plan files"
    ]
    assert plan_id in row["said"]
    verified = await agents(site, "plan", "verify", plan_id)
    assert (verified["exit_code"], verified["data"]["doubted"]) == (0, RESTARTED)

    async with site.open() as (equipment, workflow):
        await workflow.run(plan_id)
        assert [each.reason for each in site.heard if isinstance(each, RolledBack)] == [RESTARTED]
        assert await doubts(equipment) == {}
    assert (await agents(site, "plan", "verify", plan_id))["data"]["doubted"] == ""


async def test_the_doctor_says_that_the_database_was_lost(site: Worksite) -> None:
    async with site.open() as (_, workflow):
        await worked(site, workflow)
    database = site.folder / "home/patchyard.db"
    shutil.move(database, site.folder / "kept.db")

    for words in (["doctor"], ["gc"]):
        answer = await agents(site, *words)
        assert answer["exit_code"] == 1, words
        assert str(database) in json.dumps(answer), words

    shutil.move(site.folder / "kept.db", database)


async def test_a_store_is_kept_by_what_events_say_whatever_a_line_of_the_list_does(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await worked(site, workflow)
        await swept(equipment, days=8)
        shutil.rmtree(site.folder / "home/checkpoints" / plan_id)
        changed(site, "UPDATE summaries SET summary = replace(summary, '/repo', '/rep0')", plan_id)

        assert Family.STORE not in gone(await swept(equipment, days=9))


async def test_the_list_says_at_once_where_a_plan_stands_that_went_back(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await worked(site, workflow)
        async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
            await roll_back(equipment, ledger, ledger.state.checkpoints[0])

        assert await inspect_around(equipment, plan_id) == []
        listed = dict(await equipment.store.summaries.summaries())[plan_id]
        assert (listed["phase"], listed["state"]) == (Phase.EXECUTE, State.QUEUED)
