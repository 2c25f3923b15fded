"""Workers and a repository at a path that is not UTF-8."""

import os
from pathlib import Path

import pytest

from crews import crewed
from engine.held import WAITING, release
from engine.worksite import Worksite, call, done
from patchyard.domain.events import ToolCallRequested, WorkSummarised

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap"), pytest.mark.slow]

ODD = os.fsdecode(b"caf\xe9")
EDIT = call("execute_command", command="for file in caf*/*; do echo x >>$file; done")


async def test_a_worker_carries_on_what_was_killed_there_and_takes_what_is_queued(
    tmp_path: Path,
) -> None:
    site = Worksite.make(tmp_path / ODD, {"a.txt": "one\n", f"{ODD}/{ODD}.txt": "two\n"})
    with crewed(site) as crew:
        model = site.script([EDIT, WAITING, done()])
        run = crew.spawn("run", "one", "--model", model, "--validate", "", "--format", "json")
        killed = ""
        while not killed:
            async with site.open() as (equipment, _):
                found = await equipment.store.summaries.summaries()
            killed = found[0][0] if found else ""
        await crew.until(killed, ToolCallRequested, count=2)
        run.kill()
        crew.start("w")
        release(site)
        await crew.until(killed, WorkSummarised)
        model = site.script([EDIT, done()])
        body = crew.agents("run", "two", "--model", model, "--validate", "", "-d")
        assert body["exit_code"] == 0, body
        await crew.until(body["data"]["plan_id"], WorkSummarised)
        for plan_id in (killed, body["data"]["plan_id"]):
            assert "\n+x\n" in crew.agents("plan", "diff", plan_id)["data"]["patch"]
    await site.clear()
