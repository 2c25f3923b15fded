"""`plan watch` and `plan tail`: a plan is followed until it stops for good."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.worksite import ADD, Worksite, done
from patchyard.cli import plan_show
from patchyard.domain.plan import Phase, State
from patchyard.intake import spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    yield made
    await made.clear()


async def test_a_plan_between_two_phases_is_followed_on(
    site: Worksite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan_show, "FOLLOW_S", 0)
    async with site.open() as (equipment, workflow):
        plan_id = await workflow.create(spec_of(site.asked(ADD, done()), site.environ))
        state = await workflow.strategize(plan_id)
        assert (state.phase, state.state) == (Phase.STRATEGIZE, State.COMPLETE)
        holder = equipment.claims.holder

        async def goes_on(_plan: str) -> object:
            monkeypatch.setattr(equipment.claims, "holder", holder)
            await workflow.run(plan_id)
            return "its owner"

        monkeypatch.setattr(equipment.claims, "holder", goes_on)
        ledger = await site.ledger(equipment, plan_id)
        await plan_show._tail(equipment, ledger, is_json=True, after=0)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    moves = [(each["phase"], each["state"]) for each in told if each["event"] == "Moved"]
    assert moves[-1] == ("execute", "complete")


async def test_a_plan_that_its_owner_keeps_at_rest_is_not_followed_without_end(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_show, "FOLLOW_S", 0)
    async with site.open() as (equipment, workflow):
        plan_id = await workflow.create(spec_of(site.asked(ADD, done()), site.environ))
        await workflow.strategize(plan_id)
        asked = []

        async def held(plan: str) -> object:
            asked.append(plan)
            return "its owner"

        monkeypatch.setattr(equipment.claims, "holder", held)
        ledger = await site.ledger(equipment, plan_id)
        await plan_show._tail(equipment, ledger, is_json=True, after=0)
    assert asked == [plan_id]
