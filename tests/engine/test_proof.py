"""The proof: what an actor arranged has no part in it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.worksite import Worksite, call
from patchyard.domain.errors import ProofFailed
from patchyard.engine.report import plan_data

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"check.sh": "exit 1\n"})
    yield made
    await made.clear()


async def test_what_one_gate_runs_cannot_turn_the_next_one_green(site: Worksite) -> None:
    plant = call("write_file", path="build.sh", content="echo exit 0 > check.sh\n")
    async with site.open() as (equipment, workflow):
        asked = site.asked(plant, validate=("sh build.sh", "sh check.sh"), rounds=0)
        plan_id = await site.made(workflow, asked)
        with pytest.raises(ProofFailed, match="1 of 2"):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert [gate["passed"] for gate in data["validation"]] == [True, False]
