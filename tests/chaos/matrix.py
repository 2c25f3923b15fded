"""Plans of 5 to 60 steps, killed at seeded instants wherever they can be: the kill matrix.

A case is one script, run once undisturbed for the change set it makes, then again and again with
kills. What comes out must not show that anything was killed.
"""

import asyncio
import itertools
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.killing import agents, answered, environment_of, journalled, rest_of
from chaos.victims import FAR_TARGETS, TARGETS, hit
from images import WITH_PYTHON, image
from patchyard.clients.process import all_processes
from patchyard.domain.project import Project
from patchyard.domain.resource import CONTAINER_INSTANCE, SSH_HOST, Resource
from patchyard.engine.catalogue import Catalogue
from patchyard.storage import open_storage
from sshds import HOST, SshServer
from timing import promised

__all__ = [
    "MOST",
    "Case",
    "Report",
    "badly_settled",
    "case",
    "furnish",
    "left_mounted",
    "left_running",
    "left_there",
    "lost",
    "running_in",
    "undisturbed",
    "wrongs",
]

FEWEST, MOST = 5, 60  # steps of a plan
EVENTS_A_STEP = 4
LIVES = 12  # after which a plan must have come to its end


@dataclass(frozen=True, kw_only=True)
class Case:
    """One plan to be killed."""

    steps: tuple[Mapping[str, Any], ...]

    @property
    def script(self) -> str:
        replies = [{"calls": [step]} for step in self.steps]
        body = {"note": "written by hand", "execute": [*replies, {"finish": "all is done"}]}
        return json.dumps(body)


@dataclass(kw_only=True)
class Report:
    """What a killed plan came to."""

    kills: list[str] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)


def case(seed: int) -> Case:
    """Steps whose effects show when one is lost or done twice."""
    rng = random.Random(seed)
    count = rng.randint(FEWEST, MOST)
    return Case(steps=tuple(_step(number, rng) for number in range(count)))


def _step(number: int, rng: random.Random) -> Mapping[str, Any]:
    pause = f"sleep {rng.choice(('0.02', '0.1', '0.2'))}; "
    commands = (
        f"echo step-{number} >> effects.log",
        f"{pause}echo step-{number} >> effects.log",
        f"echo begun-{number} >> effects.log; {pause}echo ended-{number} >> effects.log",
        f"mkdir -p kept/{number % 3} && echo {number} > kept/{number % 3}/{number}.txt",
        "test -d kept && mv kept moved-$(ls -d moved-* 2>/dev/null | wc -l); true",
        "rm -f $(ls kept/*/*.txt 2>/dev/null | head -1)",
        f"echo ignored-{number} >> out.tmp; wc -l < out.tmp >> counts.log",
    )
    tools = (
        {
            "name": "write_file",
            "arguments": {"path": f"new/{number}.txt", "content": f"{number}\n"},
        },
        {
            "name": "write_file",
            "arguments": {"path": "README", "content": f"written by step {number}\n"},
        },
        {"name": "read_file", "arguments": {"path": "README"}},
    )
    if rng.random() < len(tools) / (len(tools) + len(commands)):
        return rng.choice(tools)
    return _call("execute_command", command=rng.choice(commands))


def _call(name: str, **arguments: str) -> Mapping[str, Any]:
    return {"name": name, "arguments": arguments}


def undisturbed(yard: Path, script: Path) -> str:
    """The tree that the plan makes when nobody kills anything."""
    end = answered(yard, *_run(script))
    assert end["exit_code"] == 0, end["error"]
    return str(end["data"]["changeset"]["tree"])


def _run(script: Path) -> tuple[str, ...]:
    return ("run", "steps", "--model", f"scripted:{script}")


def furnish(yard: Path, kind: str, server: SshServer | None = None) -> None:
    """Let the yard's plans run in `kind`; a container or a host is linked where that is one.

    In this process: by commands it would take longer than the plan.
    """
    linked: Resource | None = None
    if kind == "container":
        linked = Resource(name="box", type=CONTAINER_INSTANCE, image=image(WITH_PYTHON))
    if server is not None:
        server.configure(yard)
        linked = Resource(name="far", type=SSH_HOST, address=HOST)
    project = Project(name="yard", repository=str(yard / "repo"))
    asyncio.run(_furnished(environment_of(yard), project, kind, linked))


async def _furnished(
    environ: Mapping[str, str], project: Project, kind: str, linked: Resource | None
) -> None:
    async with open_storage(environ) as storage:
        catalogue = Catalogue(storage.journal, storage.clock)
        await catalogue.create_project(project)
        await catalogue.set_context(project.name, "execution_environment", kind)
        if linked is not None:
            await catalogue.add_resource(linked)
            await catalogue.link(project.name, linked.name)


def wrongs(
    yard: Path,
    script: Path,
    *,
    tree: str,
    seed: int,
    kills: int,
    server: SshServer | None = None,
) -> tuple[list[str], int]:
    """Kill one plan `kills` times at most, let it end, and say all that is wrong then.

    Also how often something was killed. `server` is the host that the plan works on.
    """
    report = _killed(
        yard,
        script,
        random.Random(seed),
        kills,
        server,
    )
    if report.end.get("exit_code") != 0:
        return [f"it ended with {report.end.get('error')} after {report.kills}"], len(report.kills)
    events = journalled(yard)
    found = [
        *lost(report.told, events),
        *badly_settled(events),
        *left_running(yard, events),
        *left_mounted(yard),
        *(left_there(server, events) if server else ()),
    ]
    made = report.end["data"]["changeset"]["tree"]
    if made != tree:
        found.append(f"the change set is {made}, undisturbed it is {tree}")
    return [f"{text} (after {report.kills})" for text in found], len(report.kills)


def _killed(
    yard: Path, script: Path, rng: random.Random, kills: int, server: SshServer | None
) -> Report:
    report = Report()
    words = _run(script)
    targets = FAR_TARGETS if server else TARGETS
    for _ in range(LIVES):
        target = rng.choice(targets) if len(report.kills) < kills else None
        report.end = _life(yard, words, rng, target, report, server)
        if report.end:
            return report
        words = ("plan", "resume", "@last") if _is_known(yard, report) else _run(script)
    return report


def _is_known(yard: Path, report: Report) -> bool:
    """Whether there is a plan to resume; who was killed early may not have told of it."""
    return bool(report.told) or bool(answered(yard, "plan", "list")["data"]["plans"])


def _life(
    yard: Path,
    words: Sequence[str],
    rng: random.Random,
    target: str | None,
    report: Report,
    server: SshServer | None,
) -> dict[str, Any]:
    """Run a command and kill `target` in it; the final object where there was one."""
    process = agents(yard, *words, "--stream", "--format", "json")
    assert process.stdout is not None
    told: list[dict[str, Any]] = []
    if target is not None:
        after = rng.randint(1, int(EVENTS_A_STEP * rng.choice((5, 20, 60))))
        told += map(json.loads, itertools.islice(process.stdout, after))
        threading.Event().wait(rng.choice((0, rng.uniform(0, 0.02), rng.uniform(0, 0.3))))
        cut = server.cut if server else int
        if process.poll() is None and hit(target, process.pid, told, cut):
            report.kills.append(f"{target} after {len(told)} events")
    told += rest_of(process)[0]
    report.told += told
    return next((line for line in told if "exit_code" in line and "command" in line), {})


INTENTS = {"PlanCreated", "Moved", "TurnRequested", "ToolCallRequested", "EnvironmentStarted"}


def lost(told: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Intents that were told of and are not in the journal, calls whose outcome was told."""
    kept = Counter(map(_name, events))
    intents = Counter(_name(event) for event in told if event.get("event") in INTENTS)
    settled = {event["call_id"] for event in events if event["event"] == "ToolCallSettled"}
    outcomes = {event["call_id"] for event in told if event.get("event") == "ToolCallSettled"}
    return [
        *(f"lost: {name}, {count} times" for name, count in (intents - kept).items()),
        *(f"lost: the outcome of {call_id}" for call_id in sorted(outcomes - settled)),
    ]


def _name(event: Mapping[str, Any]) -> tuple[Any, ...]:
    fields = ("event", "call_id", "turn", "phase", "state")
    handle = event.get("handle") or {}
    return (*(event.get(field) for field in fields), handle.get("environment_id"))


def badly_settled(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Calls that were settled twice, or never though no rollback took them back."""
    asked: dict[str, int] = {}  # the version of its event by call
    for version, event in enumerate(events, start=1):
        if event["event"] == "ToolCallRequested":
            asked[event["call_id"]] = version
        elif event["event"] == "RolledBack":
            asked = {call: at for call, at in asked.items() if at <= event["version"]}
    settled = [event["call_id"] for event in events if event["event"] == "ToolCallSettled"]
    twice = sorted({call for call in settled if settled.count(call) > 1})
    found = [f"settled twice: {twice}"] if twice else []
    open_calls = sorted(asked.keys() - set(settled))
    return [*found, f"never settled: {open_calls}"] if open_calls else found


def left_running(yard: Path, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Processes of this yard that outlive their plan, a moment granted."""
    deadline = time.monotonic() + promised(3)
    while (found := running_in(yard)) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    ended = {e["environment_id"] for e in events if e["event"] == "EnvironmentEnded"}
    begun = {e["handle"]["environment_id"] for e in events if e["event"] == "EnvironmentStarted"}
    open_ones = sorted(begun - ended)
    return [
        *([f"left running: {found}"] if found else []),
        *([f"environments never ended: {open_ones}"] if open_ones else []),
    ]


def left_there(server: SshServer, events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Environments of the plan that lie on its host still."""
    begun = {e["handle"]["environment_id"] for e in events if e["event"] == "EnvironmentStarted"}
    left = sorted(begun.intersection(server.environments()))
    return [f"left on the host: {left}"] if left else []


def running_in(yard: Path) -> list[str]:
    """Command lines that name the yard, which those of a toolbox do too."""
    needle = f"{yard}/".encode()
    found = []
    for process in all_processes():
        try:
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if needle in line and process.pid != os.getpid():
            found.append(f"{process.pid}: {line[:200]!r}")
    return found


def left_mounted(yard: Path) -> list[str]:
    mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    found = [line.split(" ")[4] for line in mounts.splitlines() if f"{yard}/" in line]
    return [f"left mounted: {found}"] if found else []
