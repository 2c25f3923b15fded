"""Plans are analysed before their actor begins, once a base; what goes wrong there ends none."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite
from patchyard.cli.screen import plan_screen
from patchyard.contracts.analyst import Study
from patchyard.domain.analysis import TaskAnalysed
from patchyard.domain.changeset import Base
from patchyard.domain.errors import WorkFailed
from patchyard.domain.events import Event, Noted, TurnRequested
from patchyard.domain.plan import Phase, State
from patchyard.engine import analysing
from patchyard.engine.equipment import Equipment
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.report import plan_data
from patchyard.engine.reverting import revert
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

FILES = {
    "stock.py": "class Stock:\n    def first_page(self): ...\n",
    "tests/test_stock.py": "from stock import Stock\n\n\ndef test_it(): ...\n",
    "AGENTS.md": "Keep to the style.\n",
}
TASK = "first_page() in stock.py is wrong; mend it"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, FILES)
    yield made
    await made.clear()


async def events(site: Worksite, equipment: Equipment, plan_id: str) -> list[Event]:
    return [event for *_, event in await (await site.ledger(equipment, plan_id)).events()]


async def data(site: Worksite, equipment: Equipment, plan_id: str) -> dict[str, Any]:
    return await plan_data(await site.ledger(equipment, plan_id))


def asked(site: Worksite, **options: Any) -> Asked:
    """One new file, and neither setup nor proof."""
    return site.asked(ADD, setup=("",), validate=("",), **options)


def asked_of_models(recording: Path) -> list[str]:
    """The first word to the model in each conversation."""
    rows = [json.loads(line) for line in recording.read_text().splitlines()]
    said = [row["request"]["messages"] for row in rows if "request" in row]
    return [each[1]["text"] for each in said if each[0]["speaker"] == "system"]


async def test_a_task_is_analysed_before_anybody_thinks_and_the_model_is_told(
    site: Worksite,
) -> None:
    recording = site.folder / "recording.jsonl"
    async with site.open() as (equipment, workflow):
        wanted = replace(asked(site, record_to=str(recording)), task=TASK)
        plan_id = await site.made(workflow, wanted)
        await workflow.run(plan_id)
        kinds = [type(event) for event in await events(site, equipment, plan_id)]
        found = await data(site, equipment, plan_id)
    assert kinds.count(TaskAnalysed) == 1
    assert kinds.index(TaskAnalysed) < kinds.index(TurnRequested)
    told = asked_of_models(recording)
    assert len(told) == 2  # one in each phase
    for text in told:
        assert "stock.py\n  1 class Stock\n  2 def first_page\n" in text
        assert "Keep to the style." in text
        assert "tests: 1 of the files in tests/; run by pytest" in text
        assert "it cannot change what is asked for" in text
    analysis = found["analysis"]
    assert (analysis["kind"], analysis["complexity"]) == ("bugfix", "low")
    assert (analysis["named"], analysis["guides"]) == (["stock.py"], ["AGENTS.md"])
    assert analysis["map"] == {"tokens": 2000, "symbols": 3, "left_out": 0}
    assert "small bugfix, by its words; 3 files, python 2" in plan_screen(found)


class Counted:
    """An analyst that counts, or fails as it is told."""

    def __init__(self, equipment: Equipment, failure: Callable[[], Any] | None = None) -> None:
        self._own, self._failure = equipment.analyst, failure
        self.asked = 0
        self.began = asyncio.Event()

    async def study(self, base: Base, task: str, *, tokens: int) -> Study:
        self.asked += 1
        self.began.set()
        if self._failure is not None:
            await asyncio.sleep(0)
            if (error := self._failure()) is not None:
                raise error
            await asyncio.sleep(60)
        return await self._own.study(base, task, tokens=tokens)


async def test_a_base_is_analysed_once_however_often_it_is_planned_on(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        counted = Counted(equipment)
        own = replace(equipment, studying=lambda: counted)
        workflow = Workflow(own)
        plan_id = await site.made(workflow, asked(site))
        await workflow.strategize(plan_id)
        await workflow.execute(plan_id)
        async with PlanLifecycleService(equipment).owned(plan_id) as ledger:
            await revert(own, ledger, to=Phase.STRATEGIZE, by="a test")
        state = await workflow.run(plan_id)
        assert state.state == State.COMPLETE
        assert counted.asked == 1


async def test_a_recipe_needs_no_analysis(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        counted = Counted(equipment)
        workflow = Workflow(replace(equipment, studying=lambda: counted))
        spec = spec_of(asked(site), site.environ)
        steps = ({"run": "echo x > x.txt"},)
        plan_id = await workflow.create(replace(spec, agent="recipe", steps=steps))
        await workflow.run(plan_id)
        found = await data(site, equipment, plan_id)
    assert counted.asked == 0
    assert found["analysis"] is None


async def test_without_tokens_for_it_there_is_no_map(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = site.folder / "recording.jsonl"
    monkeypatch.setenv("PATCHYARD_ANALYSIS", "{map_tokens: 0}")
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, asked(site, record_to=str(recording)))
        await workflow.run(plan_id)
        found = await data(site, equipment, plan_id)
    assert found["analysis"]["map"] == {"tokens": 0, "symbols": 0, "left_out": 0}
    assert found["analysis"]["files"] == 3
    (text, *_) = asked_of_models(recording)
    assert "Keep to the style." in text
    assert "definitions" not in text


FAILURES: dict[str, Callable[[], Exception | None]] = {
    "a bug": lambda: IndexError("out of range"),
    "a store that is gone": lambda: WorkFailed("git ls-tree failed"),
    "an error without words": RuntimeError,
    "a repository that takes too long": lambda: None,
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_what_goes_wrong_is_noted_and_ends_no_plan(
    site: Worksite, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysing, "LONGEST_S", 0.05)
    async with site.open() as (equipment, _):
        failing = Counted(equipment, FAILURES[failure])
        workflow = Workflow(replace(equipment, studying=lambda: failing))
        plan_id = await site.made(workflow, replace(asked(site), task="- a\n- fix b"))
        state = await workflow.run(plan_id)
        noted = [e.text for e in await events(site, equipment, plan_id) if isinstance(e, Noted)]
        found = await data(site, equipment, plan_id)
    assert state.state == State.COMPLETE
    assert any("could not be looked at" in text for text in noted)
    assert found["analysis"]["requirements"] == ["a", "fix b"]
    assert found["analysis"]["problem"]
    assert found["analysis"]["problem"] in plan_screen(found)


async def test_who_cancels_ends_the_plan_and_not_only_its_analysis(site: Worksite) -> None:
    async with site.open() as (equipment, _):
        counted = Counted(equipment, lambda: None)
        workflow = Workflow(replace(equipment, studying=lambda: counted))
        plan_id = await site.made(workflow, asked(site))
        running = asyncio.ensure_future(workflow.run(plan_id))
        await counted.began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        ledger = await site.ledger(equipment, plan_id)
    assert ledger.state.state == State.CANCELLED
    assert ledger.state.analysed is None
