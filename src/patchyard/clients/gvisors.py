"""How old the gVisor of a container engine is: its program is asked for its version."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from patchyard.clients.docker import ContainerEngine
from patchyard.domain.environment import is_gvisor
from patchyard.domain.gvisor import day_of, is_old

ANSWER_S = 5.0


async def day_of_runtime(engine: ContainerEngine, runtime: str) -> str:
    """Return the day that the version of a runtime names; empty where nothing tells it."""
    return await _day((await engine.runtimes()).get(runtime, ""))


async def old_gvisors(engine: ContainerEngine) -> Mapping[str, str]:
    """Return the engine's runtimes that are an old gVisor, each with its day."""
    programs = await engine.runtimes()
    days = {name: await _day(programs[name]) for name in programs if is_gvisor(name)}
    return {name: day for name, day in days.items() if is_old(day)}


async def _day(program: str) -> str:
    """Return the day of a program, which lies on this machine where its engine runs here."""
    if not Path(program).is_absolute():
        return ""
    try:
        said = await asyncio.to_thread(
            subprocess.run,
            [program, "--version"],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=ANSWER_S,
            env={"PATH": os.defpath},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return day_of(said.stdout.decode("utf-8", "replace"))


__all__ = ["day_of_runtime", "old_gvisors"]
