"""Many places of SWE-ReX at once: its local deployment in one process, or a server for each.

`local` is its deployment of that name; `served` is what its other deployments talk to: one
swerex-remote each, over HTTP.
"""

import asyncio
import contextlib
import json
import socket
import sys
import time
from pathlib import Path

from density import calls_per_s
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest
from swerex.runtime.local import LocalRuntime
from swerex.runtime.remote import RemoteRuntime

START_S = 300
TOKEN = "made-up"  # noqa: S105 - of a server on loopback


async def in_shell(runtime):
    """One call in the place's shell."""
    result = await runtime.run_in_session(BashAction(command="echo made", timeout=30))
    if result.output.strip() != "made":
        raise RuntimeError(repr(result))


async def alone(runtime):
    """One call in a shell of its own."""
    wanted = Command(command="echo made", shell=True, timeout=30)  # noqa: S604 - an agent's call
    result = await runtime.execute(wanted)
    if result.stdout.strip() != "made":
        raise RuntimeError(repr(result))


def free_port():
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def served(stack):
    """Start a server; return the runtime that talks to it, which need not be there yet."""
    program = Path(sys.executable).parent / "swerex-remote"
    port = free_port()
    words = ("--host", "127.0.0.1", "--port", str(port), "--auth-token", TOKEN)
    quiet = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
    process = await asyncio.create_subprocess_exec(program, *words, **quiet)
    stack.callback(process.kill)
    return RemoteRuntime(host="http://127.0.0.1", port=port, auth_token=TOKEN, timeout=60)


async def main(way, count, seconds):
    """Print the figures as JSON."""
    with contextlib.ExitStack() as stack:
        started = time.monotonic()
        if way == "local":
            places = [LocalRuntime() for _ in range(count)]
        else:
            places = [await served(stack) for _ in range(count)]
            for place in places:  # not together: its wait blocks the event loop
                await place.wait_until_alive(timeout=START_S)
        figures = {"ready_s": time.monotonic() - started}
        figures["alone"] = await calls_per_s(places, alone, seconds)
        for place in places:
            await place.create_session(CreateBashSessionRequest())
        figures["shell"] = await calls_per_s(places, in_shell, seconds)
        print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
