"""Commands in environments with tight limits, beside a neighbour: here, or as an ordinary user.

As a program: KIND, FOLDER and a JSON object of limits, commands and time-out; prints the answers.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.contracts.environment import Metering
from patchyard.domain.environment import EnvironmentHandle, EnvironmentSpec, Limits, Mount
from patchyard.engine.metering import Metered, as_bounded, metered, used_in_all
from patchyard.environments.host import HostEnvironment
from patchyard.environments.process import ProcessEnvironment

__all__ = ["COMMAND_S", "COUNTED", "attacked", "limited", "reporting"]

COMMAND_S = 60.0  # a busy machine gives a second of its time in many
COUNTED = ("host", "process")  # kinds of this machine that report what they use
BY_KIND = {"host": HostEnvironment, "process": ProcessEnvironment}


@contextlib.asynccontextmanager
async def limited(
    adapter: Any, spec: EnvironmentSpec
) -> AsyncIterator[tuple[EnvironmentHandle, Metered]]:
    """Start one, metered and watched as the engine has it, and end it."""
    handle = await adapter.start(spec)
    handle = replace(handle, details=as_bounded(handle, spec))
    try:
        toolbox = metered(adapter, handle, await adapter.attach(handle))
        try:
            yield handle, toolbox
        finally:
            await toolbox.close()
    finally:
        await adapter.end(handle)


def reporting(adapter: object) -> Metering:
    """Return an adapter as one that reports usage and health."""
    assert isinstance(adapter, Metering)
    return adapter


async def attacked(
    adapter: Any, spec: EnvironmentSpec, commands: Sequence[str], *, timeout_s: float = COMMAND_S
) -> dict[str, Any]:
    """Run each command; return their results, whether all lives on, and what was used."""
    async with limited(adapter, spec) as (handle, toolbox), limited(adapter, spec) as (_, other):
        results = []
        for number, command in enumerate(commands):
            args = {"command": command, "timeout_s": timeout_s}
            results.append(dict(await toolbox.call(f"c{number}", "execute_command", args)))
        after = await toolbox.call("after", "execute_command", {"command": "echo here"})
        beside = await other.call("beside", "execute_command", {"command": "echo here"})
        health = await adapter.health(handle)
        return {
            "results": results,
            "lives": [after["stdout"].strip(), beside["stdout"].strip()],
            "after": after,
            "health": asdict(health),
            "total": asdict(used_in_all(adapter, handle, toolbox.calls)),
        }


def _spec(folder: Path, limits: Mapping[str, Any]) -> EnvironmentSpec:
    return EnvironmentSpec(
        plan_id="01JPLAN",
        purpose="check",
        workspace=Mount(
            source=str(folder / "workspace"), target=str(folder / "workspace"), is_writable=True
        ),
        limits=Limits(**limits),
    )


def main() -> None:
    """See the module."""
    kind, folder, asked = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    station = Station(
        runtime=folder / "runtime",
        new_id=SystemClock().new_id,
        search_path=os.environ["PATH"],
        home=os.environ["HOME"],
        shelf=folder / "copies",
        public=folder / "copies",
    )
    work = attacked(
        BY_KIND[kind](station),
        _spec(folder, asked["limits"]),
        asked["commands"],
        timeout_s=asked["timeout_s"],
    )
    sys.stdout.write(json.dumps(asyncio.run(work)))


if __name__ == "__main__":
    main()
