"""Small tasks of a scripted model over HTTP, each with faults from a seed, and what came of them.

The model's replies are written by hand: it takes its steps in order, and takes one again that the
conversation does not show as done. A person is at hand who resumes what stopped.
"""

import asyncio
import contextlib
import json
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.matrix import badly_settled, left_mounted, left_running, lost
from chaos.victims import TARGETS, hit
from endings import LONGEST_S
from models.scenes import PLAN, Scene, set_up
from patchyard.models.scripted import ScriptedReply

__all__ = ["CAUSES", "Outcome", "carried_out", "faults_of", "figures"]

MODEL = "scripted by hand, over loopback HTTP"  # what `_answering` stands for
RESUMES = 4  # after which the person gives up
PROVIDER = ("cut", "drop", "late-error", "empty", "silent", "mute", "status:429", "status:503")
SLIPS: Mapping[str, ScriptedReply] = {
    "unknown tool": ScriptedReply(calls=(("open_browser", {"url": "x"}),)),
    "no JSON": ScriptedReply(calls=(("read_file", '{"path": "gre'),)),
    "no call": ScriptedReply(text="I would now go on."),
    "too early": ScriptedReply(calls=(("finish", {"summary": "done, I think"}),)),
    "hanging command": ScriptedReply(
        calls=(("execute_command", {"command": "sleep 60", "timeout_s": 0.3}),)
    ),
    "failing command": ScriptedReply(calls=(("execute_command", {"command": "exit 3"}),)),
}
KILLS = ("both killed", "engine killed")  # after which a command more is needed
HOPELESS = ("no provider", "red gate")
CAUSES = {  # of what ends a plan, by the code of its error; all else is the engine's
    "failed": "the model's",
    "limit": "a limit's",
    "model_failed": "the provider's",
    "model_unavailable": "the provider's",
    "validation_failed": "the gate's",
}


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong with one task."""

    provider: Mapping[int, str] = field(default_factory=dict)  # by number of the request
    slips: Mapping[int, str] = field(default_factory=dict)  # replies that are wrong, likewise
    blows: tuple[tuple[str, int], ...] = ()  # who is hit in a life, after how many events
    hopeless: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called, sorted."""
        hit = (
            f"{target} {'stopped' if target == 'owner' else 'killed'}" for target, _ in self.blows
        )
        wrong = [*self.provider.values(), *self.slips.values(), *hit, self.hopeless]
        return tuple(sorted(filter(None, wrong)))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one task ended."""

    faults: tuple[str, ...]
    lives: int  # commands it took
    cause: str  # whose fault it was that it did not complete; empty when it did
    words: str = ""  # the error's
    wrong: tuple[str, ...] = ()  # promises that were broken whatever it came to

    @property
    def is_complete(self) -> bool:
        """Whether it came to its end with no more commands than kills of the engine call for."""
        kills = sum(name in KILLS for name in self.faults)
        return not self.cause and self.lives <= 1 + kills

    @property
    def is_hopeless(self) -> bool:
        """Whether it could not come to its end, by what was made to go wrong."""
        return bool({*HOPELESS} & {*self.faults})


def figures(ended: Sequence[Outcome]) -> dict[str, object]:
    """Count how tasks ended: `model` says who did them, `completed` of `tasks` came to their end.

    `faults` and `causes` are counts by name; `resumed` took more than one command. `helped` came to
    their end by more of them than kills call for, and do not count as completed.
    """
    causes = Counter(outcome.cause for outcome in ended if outcome.cause)
    return {
        "model": MODEL,
        "tasks": len(ended),
        "faults": dict(Counter(name for outcome in ended for name in outcome.faults)),
        "resumed": sum(outcome.lives > 1 for outcome in ended),
        "completed": sum(outcome.is_complete for outcome in ended),
        "helped": sum(not outcome.is_complete and not outcome.cause for outcome in ended),
        "causes": dict(causes),
    }


def faults_of(rng: random.Random) -> Faults:
    """Return what goes wrong with one task: one to three things, in one of 25 a hopeless one."""
    provider, slips, blows = dict[int, str](), dict[int, str](), list[tuple[str, int]]()
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("provider", "slip", "blow", "blow"))
        if kind == "provider":
            provider[rng.randint(1, 8)] = rng.choice(PROVIDER)
        elif kind == "slip":
            slips[rng.randint(2, 8)] = rng.choice([*SLIPS])
        else:
            blows.append((rng.choice((*TARGETS, "owner")), rng.randint(1, 45)))
    hopeless = rng.choice(HOPELESS) if rng.random() < 1 / 25 else ""
    return Faults(provider=provider, slips=slips, blows=tuple(blows), hopeless=hopeless)


def _steps(rng: random.Random) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """The calls of one task; each can be made twice without harm."""
    more = rng.randint(0, 5)
    return (
        ("read_file", {"path": "greet.py"}),
        ("write_file", {"path": "greet.py", "content": "print('hello')\n"}),
        *(
            ("execute_command", {"command": f"sleep 0.1; python3 greet.py > out-{number}.txt"})
            for number in range(more)
        ),
        ("write_file", {"path": "NOTES.md", "content": "It greets right now.\n"}),
        ("finish", {"summary": "greets right"}),
    )


def _next(steps: Sequence[tuple[str, Mapping[str, Any]]], request: Mapping[str, Any]) -> int:
    """The first step that the conversation does not show as done."""
    asked = {
        made["id"]: (made["function"]["name"], made["function"]["arguments"])
        for message in request["messages"]
        for made in message.get("tool_calls") or ()
    }
    done = {
        asked.get(message["tool_call_id"])
        for message in request["messages"]
        if message["role"] == "tool" and not str(message["content"]).startswith("failed")
    }
    known = [(name, json.loads(arguments)) for name, arguments in filter(None, done)]
    left = (at for at, step in enumerate(steps) if tuple(step) not in known)
    return next(left, len(steps) - 1)


def _answering(
    scene: Scene, faults: Faults, steps: Sequence[tuple[str, Mapping[str, Any]]]
) -> Callable[[int], ScriptedReply]:
    def answer(_turn: int) -> ScriptedReply:
        request = scene.server.requests[-1]
        if "write_file" not in {tool["function"]["name"] for tool in request["tools"]}:
            return PLAN
        slip = faults.slips.get(len(scene.server.requests))
        return SLIPS[slip] if slip else ScriptedReply(calls=(steps[_next(steps, request)],))

    return answer


async def carried_out(folder: Path, seed: int) -> Outcome:
    """Carry one task out with its faults, a person resuming it when it stops."""
    rng = random.Random(seed)
    faults, steps = faults_of(rng), _steps(rng)
    scene = set_up("chat", folder)
    scene.server.answering = _answering(scene, faults, steps)
    last = max([*faults.provider, 0])
    scene.server.faults = [faults.provider.get(number, "") for number in range(1, last + 1)]
    if faults.hopeless == "no provider":
        scene.server.faults += ["status:500"] * 1000
    async with scene.server.running() as url:
        environ = scene.configure(url, retries=1, idle_s=0.5, first_byte_s=1.0)
        outcome = await _lives(scene, environ, faults)
    await scene.site.clear()
    return outcome


async def _lives(scene: Scene, environ: Mapping[str, str], faults: Faults) -> Outcome:
    gate = "false" if faults.hopeless == "red gate" else "grep -q hello greet.py"
    run = ("run", "greet right", "--in", "process", "--model", "house:tiny", "--rounds", "1")
    words: tuple[str, ...] = (*run, "--validate", gate)
    told: list[dict[str, Any]] = []
    blows = list(faults.blows)
    lives, end = 0, dict[str, Any]()
    while lives <= RESUMES:
        lives += 1
        blow = blows.pop(0) if blows else None
        heard = await _life(scene, environ, (*words, "--stream"), blow)
        told += heard
        end = next((line for line in heard if "exit_code" in line and "command" in line), {})
        if end.get("exit_code") == 0:
            break
        if any(
            "plan_id" in each for each in (await _said(scene, environ, "plan", "list"))["plans"]
        ):
            words = ("plan", "resume", "@last")
    error = end.get("error") or {}
    code = error.get("code", "" if end.get("exit_code") == 0 else "died")
    return Outcome(
        faults=faults.names,
        lives=lives,
        cause=CAUSES.get(code, f"the engine's ({code})") if code else "",
        words=error.get("message", ""),
        wrong=tuple(await _broken(scene, environ, told)),
    )


async def _broken(
    scene: Scene, environ: Mapping[str, str], told: Sequence[Mapping[str, Any]]
) -> list[str]:
    events = (await _said(scene, environ, "plan", "events", "@last"))["events"]
    folder = scene.site.folder
    found = [*lost(told, events), *badly_settled(events), *left_mounted(folder)]
    return [*found, *await asyncio.to_thread(left_running, folder, events)]


async def _said(scene: Scene, environ: Mapping[str, str], *words: str) -> dict[str, Any]:
    lines = await _life(scene, environ, words, None)
    data: dict[str, Any] = lines[-1]["data"]
    return data


async def _life(
    scene: Scene,
    environ: Mapping[str, str],
    words: Sequence[str],
    blow: tuple[str, int] | None,
) -> list[dict[str, Any]]:
    """Run a command, hit somebody in it, and return the lines that it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "patchyard", *words, "--format", "json"),
        cwd=scene.site.repository,
        env={**environ, "HOME": str(scene.site.folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2**24,
    )
    assert process.stdout is not None
    told: list[dict[str, Any]] = []
    if "--stream" not in words:
        out, _ = await asyncio.wait_for(process.communicate(), LONGEST_S)
        return [json.loads(out)]
    async with asyncio.timeout(LONGEST_S):
        async for line in process.stdout:
            with contextlib.suppress(ValueError):  # what a kill cut
                told.append(json.loads(line))
            if blow is not None and len(told) == blow[1]:
                await _struck(process, blow[0], told)
        await process.wait()
    return told


async def _struck(
    process: asyncio.subprocess.Process, target: str, told: Sequence[Mapping[str, Any]]
) -> None:
    if target != "owner":
        hit(target, process.pid, told)
        return
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(1.0)
        process.send_signal(signal.SIGCONT)
