"""Many sandboxes of one engine at once, each call journalled with full sync before it is sent.

Each place is a `process` environment with a plan of its own in the journal; a call is what the
engine's tool runner does for one: the intent on disk, the toolbox, the result noted and forgotten.
"""

import asyncio
import itertools
import json
import sys
import time
from dataclasses import dataclass, field

from benchmarks.yard import opened
from density import calls_per_s

from patchyard.contracts.environment import Toolbox
from patchyard.domain.budget import PlanLimits
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount
from patchyard.domain.events import ToolCallRequested
from patchyard.domain.plan import PlanSpec
from patchyard.domain.tooling import result_from_wire
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.rows import body_of
from patchyard.engine.tool_runner import settled_event

UNBOUNDED = PlanLimits(steps=None, tokens=None, seconds=None, usd=None)
KIND = ExecutionEnvironment.PROCESS


@dataclass(kw_only=True)
class Place:
    """One sandbox and the plan it belongs to."""

    toolbox: Toolbox
    ledger: Ledger
    environment_id: str
    arguments: dict
    numbers: itertools.count = field(default_factory=itertools.count)


async def started(yard, number):
    """Start a sandbox on a folder of its own, and a plan for it."""
    process = yard.equipment.environment(KIND)
    folder = yard.folder / str(number)
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    mount = Mount(source=str(folder), target="/srv/bench", is_writable=True)
    handle = await process.start(
        EnvironmentSpec(plan_id=f"bench{number}", purpose="check", workspace=mount)
    )
    spec = PlanSpec(task="calls", repository=str(folder), environment=KIND, limits=UNBOUNDED)
    return handle, Place(
        toolbox=await process.attach(handle),
        ledger=await PlanLifecycleService(yard.equipment).create(spec),
        environment_id=handle.environment_id,
        arguments={"command": "echo made", "timeout_s": 30},
    )


async def call(place):
    """Carry out one call as the engine does."""
    call_id = f"{place.environment_id}-{next(place.numbers)}"
    requested = ToolCallRequested(
        call_id=call_id,
        turn=1,
        ref=call_id,
        name="execute_command",
        arguments=body_of(place.arguments),
        environment_id=place.environment_id,
        kind=KIND,
    )
    await place.ledger.record(requested)
    payload = await place.toolbox.call(call_id, "execute_command", place.arguments)
    if payload.get("stdout", "").strip() != "made":
        raise RuntimeError(str(payload))
    place.ledger.note(settled_event(result_from_wire(call_id, payload)))
    await place.toolbox.forget((call_id,))


async def main(count, seconds):
    """Print the figures as JSON."""
    async with opened() as yard:
        began = time.monotonic()
        running = await asyncio.gather(*(started(yard, number) for number in range(count)))
        places = [place for _, place in running]
        figures = {"ready_s": time.monotonic() - began}
        figures["alone"] = await calls_per_s(places, call, seconds)
        for place in places:
            place.arguments["session"] = "bench"
            await call(place)
        figures["shell"] = await calls_per_s(places, call, seconds)
        for handle, place in running:
            await place.toolbox.close()
            await yard.equipment.environment(KIND).end(handle)
        print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
