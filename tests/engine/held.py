"""A plan held in the middle of a call for as long as a test wants, whatever the machine does."""

import asyncio
from pathlib import Path

from engine.worksite import Worksite, call
from patchyard.engine import control
from patchyard.engine.equipment import Equipment

__all__ = ["WAITING", "release", "said"]

WAITING = call("execute_command", command="while ! test -e go; do sleep 0.02; done", timeout_s=500)
"""A scripted reply whose call waits for the file `go`."""


def release(site: Worksite, sign: str = "go") -> None:
    """Let the calls end that wait there."""
    for root in Path(site.environ["WORKSPACE_DIR"]).glob("tasks/*/root"):
        (root / sign).touch()


async def said(equipment: Equipment, plan_id: str) -> None:
    """Return once a word was said to the plan's owner."""
    heard = asyncio.Event()
    journal = equipment.store.journal
    ear = asyncio.ensure_future(control.listen(journal, plan_id, lambda _: heard.set(), after=0))
    await heard.wait()
    ear.cancel()
