"""Regular expressions at work in a process of their own, so that a bad one holds nobody up."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from patchyard.toolbox.wire import loaded

DEADLINE_S = 20.0  # for one text
MEMORY_BYTES = 2 * 1024**3
LINE_BYTES = 256 * 1024 * 1024  # of one answer; a file has 50 MiB at most

# Runs in a bare interpreter: one JSON object a line in, one a line out, until the input ends.
WORKER = """
import json, os, re, resource, sys

resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
for line in sys.stdin.buffer:
    resource.setrlimit(resource.RLIMIT_CPU, (int(sum(os.times()[:2])) + 60, -1))
    wanted = json.loads(line)
    try:
        pattern = re.compile(wanted["pattern"], wanted["flags"])
        text, count = pattern.subn(wanted["replacement"], wanted["text"])
        answer = {"text": text, "count": count}
    except (re.error, IndexError, RecursionError, MemoryError, OverflowError) as error:
        answer = {"problem": type(error).__name__ + ": " + str(error)}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""


@dataclass(frozen=True, kw_only=True)
class Substitution:
    """One text and what is to be replaced in it."""

    text: str
    pattern: str  # Python's syntax
    replacement: str  # with groups as \\1
    flags: int = 0  # of the `re` module


@dataclass(frozen=True, kw_only=True)
class Substituted:
    """What came of it."""

    text: str = ""
    count: int = 0  # matches replaced
    problem: str = ""  # why it could not be done; the text is empty then


class Substituter:
    """Starts its process when it is first needed. Close it."""

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._process: asyncio.subprocess.Process | None = None

    async def replace(self, wanted: Substitution) -> Substituted:
        """Replace every match. A pattern that takes too long is a problem, not an exception."""
        process = self._process or await self._started()
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await _ask(process, vars(wanted))
        except TimeoutError:
            await self.close()
            return Substituted(problem=f"the pattern took longer than {self._deadline_s:g} s")
        except asyncio.CancelledError:
            await asyncio.shield(self.close())
            raise
        if answer is None:
            await self.close()
            return Substituted(problem="the pattern took more memory or time than it may")
        return Substituted(**answer)

    async def close(self) -> None:
        """End the process. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            process.kill()
        stdin = cast("asyncio.StreamWriter", process.stdin)
        stdin.close()
        await process.communicate()
        with contextlib.suppress(ConnectionError):  # else Python 3.11.2 prints what nobody took
            await stdin.wait_closed()

    async def _started(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", WORKER, str(MEMORY_BYTES),
            process_group=0,  # Ctrl-C is for us
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LINE_BYTES,
            env={},
        )  # fmt: skip
        return self._process


async def _ask(
    process: asyncio.subprocess.Process, wanted: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Send one line and return the answer; None when the process ended instead."""
    stdin = cast("asyncio.StreamWriter", process.stdin)  # both were asked for
    stdout = cast("asyncio.StreamReader", process.stdout)
    try:
        stdin.write(json.dumps(wanted).encode("ascii") + b"\n")
        await stdin.drain()
        line = await stdout.readline()
        answer: Mapping[str, Any] | None = loaded(line) if line.endswith(b"\n") else None
    except (ConnectionError, ValueError):
        return None
    return answer


__all__ = [
    "DEADLINE_S",
    "LINE_BYTES",
    "MEMORY_BYTES",
    "WORKER",
    "Substituted",
    "Substituter",
    "Substitution",
]
