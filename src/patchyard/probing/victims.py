"""Bait processes: of the agent's own user, so that a wall is tried and not a permission."""

import asyncio
import contextlib
import ctypes
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.process import identify
from patchyard.probing.scripting import words

ANSWER_S = 20.0
DYING_S, LOOK_S = 0.25, 0.005  # for one that was signalled, and between two looks at it
IPC_RMID = 0


@dataclass(kw_only=True)
class Victim:
    """One bait process."""

    process: asyncio.subprocess.Process
    facts: Mapping[str, Any]  # pid, address of the canary, open descriptor, ...

    @property
    def is_alive(self) -> bool:
        """Whether it still runs. One that was killed a moment ago gets the time to end."""
        process = None if self.process.returncode is not None else identify(self.process.pid)
        deadline = time.monotonic() + DYING_S
        while process is not None and process.is_alive:
            if time.monotonic() > deadline:
                return True
            time.sleep(LOOK_S)
        return False

    @property
    def is_limited(self) -> bool:
        """Whether somebody lowered its bound of open files."""
        try:
            rows = Path(f"/proc/{self.process.pid}/limits").read_text(encoding="ascii")
        except OSError:
            return False
        soft = next(line for line in rows.splitlines() if line.startswith("Max open files"))
        return soft.split()[3] == str(self.facts["descriptors"])

    async def end(self) -> None:
        """Let it go, and wait for it."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            async with asyncio.timeout(1):
                await self.process.wait()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        _forget_shared(int(self.facts["key"]))


def _forget_shared(key: int) -> None:
    """Take away what one that was killed left shared."""
    libc = ctypes.CDLL(None)
    libc.shmctl(libc.shmget(key, 0, 0), IPC_RMID, None)
    libc.msgctl(libc.msgget(key, 0), IPC_RMID, None)


async def start_victim(
    given: Mapping[str, Any], *, canary: str, identity: tuple[int, int] | None
) -> Victim:
    """Start one; it says by itself where its secrets lie. `identity` is whose it is."""
    token = str(given["token"])
    process = await asyncio.create_subprocess_exec(
        toolbox_interpreter().path,
        *words("victim", "live", {**given, "key": int(token[:7], 16) + 1}),
        f"victim:{token}",
        canary,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": os.defpath, "PROBE_CANARY": canary},
        user=None if identity is None else identity[0],
        group=None if identity is None else identity[1],
        extra_groups=None if identity is None else [],
        start_new_session=True,
    )
    if process.stdout is None:
        raise AssertionError
    async with asyncio.timeout(ANSWER_S):
        await process.stdout.readline()  # that it began
        facts = json.loads(await process.stdout.readline() or b"{}")
    return Victim(process=process, facts={**facts, "mark": ["victim", token]})


__all__ = ["ANSWER_S", "IPC_RMID", "Victim", "start_victim"]
