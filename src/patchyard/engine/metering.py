"""A toolbox whose commands are metered and watched: what they used, and which limit they hit.

Wraps any toolbox. Where nobody outside counts, the toolbox's own figures are taken and marked.
"""

import asyncio
import contextlib
import functools
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from patchyard.contracts.environment import (
    Environment,
    Listening,
    Measuring,
    Meter,
    OnOutput,
    Toolbox,
)
from patchyard.contracts.forwarding import ForwardingToolbox
from patchyard.contracts.gateway import Counting
from patchyard.domain.carrying import Carried
from patchyard.domain.codec import in_full
from patchyard.domain.environment import (
    COUNTED,
    TASKS,
    EnvironmentHandle,
    EnvironmentSpec,
    Limits,
)
from patchyard.domain.errors import EnvironmentBroken, Unavailable
from patchyard.domain.limit_hits import (
    LIMIT,
    Hit,
    fields_of,
    hit_of,
    limit_in,
    sentence,
    told,
    watched_hit,
)
from patchyard.domain.mcp import MCP_ANSWER, MCP_CALL, MCP_LIST
from patchyard.domain.meanings import restored
from patchyard.domain.tooling import COMMAND, finite
from patchyard.domain.usage import (
    NOTHING,
    Reading,
    Usage,
    of_environment,
    spent,
    together,
    usage_json,
)
from patchyard.engine.answers import COMMAND_S, shortened
from patchyard.engine.ends import health_at_end
from patchyard.engine.limit_watch import Looks, Watch

RUNNING = frozenset({COMMAND, MCP_ANSWER, MCP_CALL, MCP_LIST})  # operations that start programs
ABOUT_JOBS = frozenset({"job_output", "job_status"})
JOBS_LOOK_S = 1.0  # between two looks at what runs on
SWEPT = frozenset({"memory", "processes"})  # what is left of a command that hit one goes
WHOLE = frozenset({"disk", "memory", "processes"})  # are of jobs beside a command too
SWEEP_S = 5.0


def as_bounded(handle: EnvironmentHandle, spec: EnvironmentSpec) -> dict[str, Any]:
    """Return the details of a handle with what a later engine must know to bound it."""
    return {
        **handle.details,
        "limits": in_full(spec.limits),
        "written": spec.written or spec.workspace.source,
        "is_apart": bool(spec.written),
    }


def metered(environment: Environment, handle: EnvironmentHandle, toolbox: Toolbox) -> "Metered":
    """Return `toolbox` with its commands metered and watched; closing it closes both."""
    kind = MeteredListening if isinstance(toolbox, Listening) else Metered
    return kind(environment, handle, toolbox)


class Metered(ForwardingToolbox):
    """contracts.environment.Toolbox over another one."""

    def __init__(
        self, environment: Environment, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> None:
        self._environment = environment
        self._handle = handle
        super().__init__(toolbox)
        self._limits = restored(Limits, handle.details.get("limits") or {})
        self._meter: Meter | None = None
        if isinstance(environment, Measuring):
            self._meter = environment.meter(handle)
        self._looks = Looks(self._meter) if self._meter else None
        self._last = self._meter.read() if self._meter else Reading()
        self._counting: Counting | None = None  # of the gateways, once they are open
        self._guard: asyncio.Task[None] | None = None  # over what runs on
        self._between: Hit | None = None  # what was hit while no command was waited for
        self._usages: list[Usage] = []  # of each command

    @property
    def handle(self) -> EnvironmentHandle:
        """Of which environment it is."""
        return self._handle

    def count_network(self, counting: Counting) -> None:
        """Take what `counting` says of the gateways into the use of commands from here on."""
        self._take_over()
        self._counting = counting

    def _take_over(self) -> None:
        """Keep what passed the gateways since the last command."""
        left = self._passed_on(NOTHING, self._carried())
        if left.network_bytes:
            self._usages.append(left)

    def _carried(self) -> Carried | None:
        return None if self._counting is None else self._counting.read()

    @staticmethod
    def _passed_on(usage: Usage, carried: Carried | None) -> Usage:
        if carried is None:
            return usage
        return replace(usage, network_bytes=carried.network_bytes, connections=carried.connections)

    @property
    def calls(self) -> Usage:
        """What all commands came to."""
        return functools.reduce(together, self._usages, NOTHING)

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op`; see the contract. What ended the environment is told where it is known.

        Raises Unavailable where nothing can be looked at any more, so that no limit holds what was
        started there: it was ended.
        """
        self._require_guard()
        try:
            if op in RUNNING:
                return await self._command(call_id, op, self._bounded(args), on_output)
            said = await self.wrapped.call(call_id, op, args, on_output=on_output)
        except EnvironmentBroken as error:
            raise await self._explained(error) from error
        if "usage" in said:  # of commands alone
            said = {name: value for name, value in said.items() if name != "usage"}
        return told(said, self._news()) if op in ABOUT_JOBS else said

    async def close(self) -> None:
        """Drop the connection, and stop looking."""
        if self._guard is not None:
            self._guard.cancel()
            await asyncio.gather(self._guard, return_exceptions=True)
        if self._meter is not None:
            self._meter.close()
        self._take_over()
        await self.wrapped.close()

    def _bounded(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a command with no more time than the limit leaves it."""
        wall_s = self._limits.wall_s
        if wall_s is None:
            return args
        timeout_s = min(finite(args.get("timeout_s"), COMMAND_S), wall_s)
        shortened(timeout_s)
        return {**args, "timeout_s": timeout_s, "wall_s": wall_s}

    async def _command(
        self, call_id: str, op: str, args: Mapping[str, Any], on_output: OnOutput | None
    ) -> Mapping[str, Any]:
        watched = self._limits
        if self._guard is not None:  # the time of jobs beside it cannot be told from its own
            watched = replace(watched, cpu_seconds=None)
        watch = Watch(self.wrapped, self._looks, watched, call_id, began=self._last)
        try:
            said = await self.wrapped.call(call_id, op, args, on_output=on_output)
        finally:
            await watch.end()
        if watch.failed is not None:
            await self._sweep(jobs=True)
            raise watch.failed
        before, after = self._last, await self._counted(watch)
        self._last = after
        carried = self._carried()
        usage = self._passed_on(spent(before, after, said), carried)
        self._usages.append(usage)
        gateway = carried.hit if carried else None
        asked = {"timeout_s": finite(args.get("timeout_s"), COMMAND_S), **said}
        found = hit_of(
            asked,
            self._limits,
            before=before,
            after=after,
            usage=usage,
            gateway=gateway,
            is_alone=self._guard is None,
        )
        hit = self._named(watch.hit or found or self._news())
        is_watched = watch.hit is not None and watch.hit.limit in WHOLE
        if is_watched or limit_in(said) == "disk":  # what there is no room for goes on growing
            await self._sweep(jobs=True)
        elif hit is not None and hit.limit in SWEPT:
            await self._sweep(jobs=False)
        if op != COMMAND or said.get("is_background") or said.get("left_running"):
            self._keep_watch()
        return {**told(said, hit), "usage": usage_json(usage)}

    def _named(self, hit: Hit | None) -> Hit | None:
        """Return a hit with what was counted, where its limit's name does not say it."""
        counted = self._handle.details.get(COUNTED, {}).get(hit.limit) if hit else None
        return replace(hit, counted=counted) if hit and counted else hit

    async def _counted(self, watch: Watch) -> Reading:
        """Return the counters after a command, with a look at the workspace where that is due."""
        if self._meter is None or self._looks is None:
            return Reading()
        reading = self._meter.read()
        if reading.is_due:
            now = await self._looks.insist()
            watch.judge(now)
            reading = replace(reading, disk_bytes=now.disk_bytes)
        if not watch.has_seen:
            return reading
        return replace(reading, memory_now=watch.memory_bytes, processes_now=watch.processes)

    def _news(self) -> Hit | None:
        """Return what was hit while nobody waited, once."""
        hit, self._between = self._between, None
        return hit

    def _keep_watch(self) -> None:
        if self._guard is None and self._looks is not None:
            self._guard = asyncio.create_task(self._guarding(self._looks))

    async def _guarding(self, looks: Looks) -> None:
        """Look at what runs on until the toolbox is closed; end it when it passes a limit.

        Where nothing can be looked at it is ended too, and the next call tells.
        """
        try:
            while True:
                await asyncio.sleep(JOBS_LOOK_S)
                if (now := await looks.look()) is not None:
                    await self._guard_against(now)
        except Unavailable:
            await self._sweep(jobs=True)
            raise

    def _require_guard(self) -> None:
        """Raise, once, what ended the look at jobs."""
        if self._guard is not None and self._guard.done() and not self._guard.cancelled():
            guard, self._guard = self._guard, None
            guard.result()

    async def _guard_against(self, now: Reading) -> None:
        # their processor time is not bounded: that limit is of one command
        hit = watched_hit(self._limits, replace(now, disk_bytes=None), now)
        if hit is not None and self._between is None:
            self._between = hit
            await self._sweep(jobs=True)

    async def _sweep(self, *, jobs: bool) -> None:
        """End what commands have left running. A toolbox that is gone has nothing left."""
        call_id = f"sweep-{os.urandom(8).hex()}"
        with contextlib.suppress(EnvironmentBroken, TimeoutError):
            async with asyncio.timeout(SWEEP_S):
                await self.wrapped.call(call_id, "sweep", {"jobs": jobs})
                await self.wrapped.forget((call_id,))

    async def _explained(self, error: EnvironmentBroken) -> EnvironmentBroken:
        """Return the error with how the environment ended, and by which limit, where known."""
        health = await health_at_end(self._environment, self._handle)
        if health is None:
            return error
        hit = self._ending_hit(health.limit)
        if hit is None and not health.ending:
            return error
        words = (error.message, health.ending, sentence(hit) if hit else "")
        said = "; ".join(filter(None, words))
        details = fields_of(hit) if hit else error.details
        return EnvironmentBroken(said, hint=error.hint, details=details)

    def _ending_hit(self, limit: str) -> Hit | None:
        """Return what ended the environment: `limit`, or in gVisor a task that was refused it."""
        now = self._meter.read() if self._meter else Reading()
        tasks = self._handle.details.get(TASKS)
        if not limit and tasks and now.refused_processes:
            needs = f"tasks of this machine, which gVisor needs for {self._limits.processes} inside"
            return Hit(
                limit="processes", used=tasks, allowed=tasks, seen_by="cgroup", counted=needs
            )
        allowed = self._limits.memory_bytes or 0
        used = now.memory_bytes or allowed
        return Hit(limit=limit, used=used, allowed=allowed, seen_by="cgroup") if limit else None


def bare(toolbox: Toolbox) -> Toolbox:
    """Return the kind's own toolbox, which its own methods expect."""
    return toolbox.wrapped if isinstance(toolbox, Metered) else toolbox


class MeteredListening(Metered):
    """The same over a toolbox that can listen."""

    async def listen(self) -> tuple[int, socket.socket]:
        """See contracts.environment.Listening."""
        return await cast("Listening", self.wrapped).listen()


def ended_by_limit(error: EnvironmentBroken) -> Mapping[str, Any] | None:
    """Return the result of a call whose environment a limit has ended; None for another end."""
    if "limit" not in error.details:
        return None
    return {"success": False, "error": LIMIT, "message": error.message, **error.details}


def used_in_all(environment: Environment, handle: EnvironmentHandle, calls: Usage) -> Usage:
    """Return what an environment used that is about to end; `calls` is what its commands did."""
    if not isinstance(environment, Measuring):
        return calls
    meter = environment.meter(handle)
    try:
        return of_environment(meter.read(), calls)
    finally:
        meter.close()


__all__ = [
    "ABOUT_JOBS",
    "JOBS_LOOK_S",
    "RUNNING",
    "SWEEP_S",
    "SWEPT",
    "WHOLE",
    "Metered",
    "MeteredListening",
    "as_bounded",
    "bare",
    "ended_by_limit",
    "metered",
    "used_in_all",
]
