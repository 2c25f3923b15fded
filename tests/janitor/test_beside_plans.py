"""A janitor in a hurry, beside plans of other processes that begin, work and end."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.worksite import Worksite, call, done
from patchyard.domain.retention import Retention
from patchyard.engine.equipment import Equipment
from patchyard.engine.janitor import Janitor

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

HASTY = Retention(workspaces=0.0, journals=90 * 86_400.0, caches=2.0)
ROUNDS, AT_ONCE = 3, 3


def start(site: Worksite, script: Path) -> subprocess.Popen[bytes]:
    """Start a run in a process of its own."""
    words = ["run", "x", "--model", f"scripted:{script}", "--validate", "test -e new.txt"]
    return subprocess.Popen(
        [sys.executable, "-m", "patchyard", *words, "--format", "json"],
        cwd=site.repository,
        env=site.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def test_every_plan_comes_to_its_end(site: Worksite) -> None:
    adding = call("write_file", path="new.txt", content="new\n")
    waiting = call("execute_command", command="sleep 0.5; cat a.txt new.txt")
    script = site.folder / "plan.json"
    script.write_text(json.dumps({"execute": [adding, waiting, done()]}))
    stopping = asyncio.Event()
    async with site.open() as (equipment, _):
        sweeping = asyncio.ensure_future(_sweeping(equipment, stopping))
        ended = [
            await asyncio.to_thread(process.communicate)
            for _ in range(ROUNDS)
            for process in [start(site, script) for _ in range(AT_ONCE)]
        ]
        stopping.set()
        passes, returned, obstacles = await sweeping
    answers = [json.loads(out) for out, _ in ended]
    said = [(each["exit_code"], each["error"]) for each in answers]
    assert said == [(0, None)] * ROUNDS * AT_ONCE
    assert {each["data"]["changeset"]["files"][0]["path"] for each in answers} == {"new.txt"}
    assert all(gate["passed"] for each in answers for gate in each["data"]["validation"])
    assert passes > ROUNDS
    assert returned > 0
    assert obstacles == set()


async def _sweeping(equipment: Equipment, stopping: asyncio.Event) -> tuple[int, int, set[str]]:
    """Pass again and again; return how often, what was returned, and what was in the way."""
    passes, returned, obstacles = 0, 0, set[str]()
    while not stopping.is_set():
        sweep = await Janitor(equipment, kept=HASTY, weighs=False).sweep()
        passes += 1
        returned += sum(each.is_done for each in sweep.things)
        obstacles |= {each.obstacle for each in sweep.things if each.obstacle}
        await asyncio.sleep(0.05)
    return passes, returned, {one for one in obstacles if "made use of" not in one}
