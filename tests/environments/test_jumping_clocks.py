"""A clock that jumps by hours under a toolbox: no time-out and no grace time changes by it."""

import asyncio
import time

import pytest

from environments.census import Census
from environments.yards import Yard, starting
from patchyard.clients import toolbox_options
from patchyard.clients.berths import from_details
from patchyard.clients.process import wait_ended

pytestmark = [pytest.mark.anyio, pytest.mark.service("root")]

JUMPING = """
import itertools, time
hours = (2 * number * (-1) ** number for number in itertools.count())
def jumping(read, *numbers):
    return lambda *given: read(*given) + 3600 * next(hours) * (given in numbers)
time.time = jumping(time.time, ())
time.clock_gettime = jumping(time.clock_gettime, (0,), (5,))
"""


@pytest.mark.parametrize(
    "kind", ["host", pytest.param("process", marks=pytest.mark.service("bubblewrap"))]
)
async def test_a_clock_that_jumps_under_a_toolbox_changes_no_time_out(
    kind: str, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox_options, "BOOTSTRAP", JUMPING + toolbox_options.BOOTSTRAP)
    async with starting(yard.adapter(kind)) as start:
        running = await start(yard.spec(grace_s=3.0))  # it is attached to in that time
        census = Census.of(yard, running.handle, None)
        good = await running.result("sleep 0.3; echo on", timeout_s=20)
        late = await running.result("sleep 60", timeout_s=0.3)
        jumps = [abs(each["ended"] - each["started"]) for each in (good, late)]
        init = from_details(running.handle, "init") or from_details(running.handle, "root")
        assert init is not None
        began = time.monotonic()
        await running.toolbox.close()
        assert await asyncio.to_thread(wait_ended, init, timeout_s=60)
        waited_s = time.monotonic() - began
    assert (good["stdout"], late["error"]) == ("on\n", "TIMEOUT")
    assert 0.3 <= late["elapsed_s"] < 1800
    assert min(jumps) > 3600  # of the clock, which really jumped
    assert waited_s > 0.5
    assert census.left() == {}
