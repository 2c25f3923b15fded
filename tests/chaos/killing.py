"""A repository and a home of their own, and the command line at work there, to be killed."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from endings import LONGEST_S, ended
from engine.worksite import Worksite
from patchyard.domain.codec import to_json
from patchyard.engine.finding import find_plan
from patchyard.engine.ledger import read_events
from patchyard.storage import open_storage
from services import REAL_ENVIRONMENT
from timing import IS_SOAK

__all__ = [
    "SEED",
    "agents",
    "amount",
    "answered",
    "effects",
    "environment_of",
    "journalled",
    "opened",
    "rest_of",
    "settlements",
    "started",
    "struck",
    "unsettled",
    "up_to_a_word",
]

STRUCK = """
import os, sys

CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.utime", "os.link", "os.chown",
           "os.chmod", "os.truncate", "os.setxattr"}
left, number = int(sys.argv.pop(1)), int(sys.argv.pop(1))

def changed(event, arguments):
    global left
    if event in CHANGES:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), number)

from patchyard.cli.main import main
sys.addaudithook(changed)
main()
"""
PIPE_BYTES = 1 << 20  # so that nobody waits for a reader

SEED = int(REAL_ENVIRONMENT.get("PATCHYARD_SEED", "20261121"))


def amount(name: str, *, sample: int, soak: int) -> int:
    """How many of something a test does: what the variable says, else a sample, or the whole."""
    usual = soak if IS_SOAK else sample
    return int(REAL_ENVIRONMENT.get(name, usual))


@contextmanager
def opened(folder: Path) -> Iterator[Path]:
    """A repository and a home for the plans of one test; mounts are gone after the block."""
    repository = folder / "repo"
    repository.mkdir(parents=True)
    (repository / "README").write_text("a repository\n")
    run = ["git", "-c", "user.name=T", "-c", "user.email=t@localhost"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*run, *arguments], cwd=repository, check=True)
    yield folder
    asyncio.run(Worksite(folder=folder).clear())


def environment_of(yard: Path) -> dict[str, str]:
    """The variables of commands that work in a yard."""
    return {
        **os.environ,
        "PATCHYARD_HOME": str(yard / "home"),
        "WORKSPACE_DIR": str(yard / "workspaces"),
        "HOME": str(yard),
    }


def agents(yard: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return started(yard, "-m", "patchyard", *arguments)


def struck(yard: Path, number: int, at: int, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a command that sends itself a signal just before its change `at` of the disk."""
    return started(yard, "-c", STRUCK, str(at), str(int(number)), *arguments)


def started(yard: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=yard / "repo",
        env=environment_of(yard),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=PIPE_BYTES,
    )


def answered(yard: Path, *arguments: str) -> dict[str, Any]:
    process = agents(yard, *arguments, "--format", "json")
    out, err = ended(process)
    assert out, err.decode()
    body: dict[str, Any] = json.loads(out)
    return body


def rest_of(process: "subprocess.Popen[bytes]") -> tuple[list[dict[str, Any]], bytes]:
    """What a command whose lines were read one by one says until its end, LONGEST_S at most.

    Not by `communicate`: that does not know of what the reader has in its hand already. What a
    kill cut is passed over.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    watchdog = threading.Timer(LONGEST_S, process.kill)
    watchdog.start()
    try:
        with process:
            *whole, last = process.stdout.read().split(b"\n")
            err = process.stderr.read()
    finally:
        watchdog.cancel()
    told = [json.loads(line) for line in whole if line]
    with contextlib.suppress(ValueError):
        told.append(json.loads(last))
    return told, err


def up_to_a_word(process: "subprocess.Popen[bytes]") -> list[dict[str, Any]]:
    """What a plan tells up to the next word of a command."""
    assert process.stdout is not None
    told = []
    for line in map(json.loads, process.stdout):
        told.append(line)
        if line.get("event") == "Output":
            break
    return told


def journalled(yard: Path, plan: str = "@last") -> list[dict[str, Any]]:
    """What the journal holds of a plan, as `plan events` prints it, read in this process."""
    return asyncio.run(_journalled(yard, plan))


async def _journalled(yard: Path, plan: str) -> list[dict[str, Any]]:
    async with open_storage(environment_of(yard)) as storage:
        found = await find_plan(storage.journal, plan, repository=str(yard / "repo"))
        events = await read_events(storage.journal, found)
    return [
        {"version": version, "at": at, "event": type(event).__name__, **to_json(event)}
        for version, at, event in events
    ]


def effects(yard: Path) -> list[str]:
    patch = answered(yard, "plan", "diff", "@last")["data"]["patch"]
    return [line[1:] for line in patch.splitlines() if line.startswith("+step-")]


def settlements(yard: Path) -> list[dict[str, Any]]:
    return [event for event in journalled(yard) if event["event"] == "ToolCallSettled"]


def unsettled(yard: Path) -> list[str]:
    events = journalled(yard)
    asked = {e["call_id"] for e in events if e["event"] == "ToolCallRequested"}
    settled = [e["call_id"] for e in events if e["event"] == "ToolCallSettled"]
    assert len(settled) == len(set(settled))
    return sorted(asked - set(settled))
