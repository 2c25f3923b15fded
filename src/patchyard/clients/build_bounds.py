"""Holds the build of an image to its limits: what the engine's builder itself does not bound.

The builder takes memory and processors. Processes are bounded as soon as it names a container of
the build, and what a build writes is looked at while it runs. What it prints may be the build's own
words: a name counts only where it is of something that was not there before, and such names cannot
be guessed.
"""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox.wire import loaded

NAMED = re.compile(r"\s*-{2,3}> (?P<running>Running in )?(?P<name>[0-9a-f]{11,64})\s*")
LOOK_S = 0.25  # between two looks at what a running step has written
OVER = frozenset({"exited", "dead", "removing"})  # how a container stands
MOST_TRIES, TRY_S = 50, 0.05  # to bound one that is just about to start
LAST_LOOKS, MOST_LOOKS = 4, 40  # for what a build has left
MOST_NAMES = 4096  # a Dockerfile has fewer steps
PERIOD_US = 100_000  # of the kernel's processor bandwidth


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which an image is built."""

    label: str  # says for which resource
    limits: Limits
    is_trusted: bool = False  # whose files decide on the build
    on: tuple[str, ...] = ()  # images that we ourselves build on
    what: str = ""  # how people call it; empty: its Dockerfile


class Containers(Protocol):
    """What a watch asks of a container engine."""

    async def inspect(self, name: str, *, has_size: bool = False) -> Mapping[str, Any] | None:
        """Return all that the engine knows of a container."""
        ...

    async def bound(self, name: str, *, processes: int) -> bool:
        """Set how many processes a container may have; False where it cannot be set now."""
        ...

    async def known_image(self, name: str) -> Mapping[str, Any] | None:
        """Return what is known of an image, None where there is none."""
        ...

    async def images(self) -> Mapping[str, str]:
        """Return the ids of all images, stages of builds too, with that each was built on."""
        ...

    async def containers(self) -> frozenset[str]:
        """Return the ids of all containers, also of those that do not run."""
        ...

    async def remove(self, name: str) -> None:
        """Kill a container and take it away."""
        ...

    async def remove_image(self, name: str) -> None:
        """Take an image away."""
        ...


def bounds_of(limits: Limits, *, is_podman: bool = False) -> dict[str, str]:
    """Return the parameters of a build that its builder holds to by itself."""
    memory = str(limits.memory_bytes or 0)
    found = {"memory": memory, "memswap": memory}
    if not is_podman:  # who refuses them
        ulimits = [("nofile", limits.open_files), ("fsize", largest_file(limits))]
        said = [{"Name": name, "Soft": most, "Hard": most} for name, most in ulimits if most]
        found["ulimits"] = json.dumps(said)
    if limits.cpus:
        found["cpuperiod"] = str(PERIOD_US)
        found["cpuquota"] = str(int(limits.cpus * PERIOD_US))
    return found


def largest_file(limits: Limits) -> int | None:
    """Return how large one file may become: no larger than all of them together."""
    said = [each for each in (limits.file_bytes, limits.disk_bytes) if each]
    return min(said, default=None)


class BuildWatch:
    """One build that is watched. `begin`, then `hear` each line while `hold` runs, then `end`."""

    def __init__(self, engine: Containers, limits: Limits, *, name: str) -> None:
        """`name` is how people call what is built."""
        self._engine = engine
        self._limits = limits
        self._name = name
        self._images: Mapping[str, str] = {}  # that there were
        self._containers: frozenset[str] = frozenset()
        self._heard: dict[str, bool] = {}  # names, and whether one is of a container
        self._news: asyncio.Queue[str] = asyncio.Queue()
        self._sizes: dict[str, int] = {}  # what each new image adds
        self._running: str = ""

    async def begin(self) -> None:
        """Note what there is before the build."""
        self._images = await self._engine.images()
        self._containers = await self._engine.containers()

    def hear(self, line: bytes) -> None:
        """Take one line of the engine's answer. Raises EnvironmentUnavailable for too many."""
        try:
            said = loaded(line)
            found = NAMED.fullmatch(str(said.get("stream") or "")[:200])
        except (ValueError, AttributeError, RecursionError):
            return
        if found is None or found["name"] in self._heard:
            return
        if len(self._heard) >= MOST_NAMES:
            raise EnvironmentUnavailable(
                f"{self._name} does not build: it names more than {MOST_NAMES} steps",
                hint="let it print less that looks like the engine's own words",
            )
        self._heard[found["name"]] = bool(found["running"])
        self._news.put_nowait(found["name"])

    async def hold(self) -> None:
        """Bound what is heard of until cancelled. Raises EnvironmentUnavailable at a limit."""
        clock = asyncio.get_running_loop().time
        due = clock() + LOOK_S
        while True:
            name = await self._next()
            if name is not None:
                await self._look_at(name)
            if name is None or clock() >= due:  # also where the build prints names without end
                await self._measure()
                due = clock() + LOOK_S

    async def _next(self) -> str | None:
        """Return the next name that was heard, None where there is none for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                return await self._news.get()
        return None

    async def settle(self) -> None:
        """Look at all that was heard of, once the build is over. Raises like `hold`."""
        while not self._news.empty():
            await self._look_at(self._news.get_nowait())

    async def end(self) -> None:
        """Take away what a failed build has left: its container, and the stages so far.

        Its builder may be about to finish a step, and would name no parent that is gone: so nothing
        is taken away before no more stages come.
        """
        for name, is_container in reversed(self._heard.items()):
            if is_container and self._is_new(name):
                await self._engine.remove(name)
        own = {plain_id(found["Id"]) for found in await self._own_stages()}
        for name in await self._settled(own):
            await self._engine.remove_image(name)

    async def _settled(self, own: set[str]) -> list[str]:
        """Return the stages of this build once no more come, what lies on top first."""
        found: list[str] = []
        looks = 0
        for _ in range(MOST_LOOKS if own else 0):
            before, found = found, await self._descending(own)
            looks = looks + 1 if found == before else 0
            if looks == LAST_LOOKS:
                break
            await asyncio.sleep(LOOK_S)
        return found

    async def _own_stages(self) -> list[Mapping[str, Any]]:
        asked = [name for name, is_container in self._heard.items() if not is_container]
        found = [await self._engine.known_image(name) for name in asked]
        return [each for each in found if each and plain_id(each["Id"]) not in self._images]

    async def _descending(self, own: set[str]) -> list[str]:
        """Return those images and all that were built on them, what lies on top first."""
        found = {k: v for k, v in (await self._engine.images()).items() if k not in self._images}
        while more := {name for name, on in found.items() if on in own} - own:
            own |= more
        there = [name for name in own if name in found]
        return sorted(sorted(there), key=lambda name: _depth(name, found), reverse=True)

    async def _look_at(self, name: str) -> None:
        if not self._heard[name]:
            await self._count(name)
        elif self._is_new(name):
            self._running = name
            if self._limits.processes:
                await self._bound(name, self._limits.processes)

    async def _bound(self, name: str, processes: int) -> None:
        """Bound a container that is about to start, runs, or has ended by now."""
        for _ in range(MOST_TRIES):
            if await self._engine.bound(name, processes=processes):
                return
            found = await self._engine.inspect(name)
            if found is None or found["State"]["Status"] in OVER:
                return
            await asyncio.sleep(TRY_S)
        raise EnvironmentUnavailable(
            f"{self._name} does not build: its processes cannot be bounded",
            hint="name an `image` instead, or look into the container engine's log",
        )

    def _is_new(self, name: str) -> bool:
        return not any(each.startswith(name) for each in self._containers)

    async def _count(self, name: str) -> None:
        """Count what a stage adds to the one before it."""
        found = await self._engine.known_image(name)
        if found is None or plain_id(found["Id"]) in self._images:
            return
        parent = await self._engine.known_image(str(found.get("Parent") or "")) or {}
        self._sizes[plain_id(found["Id"])] = int(found["Size"]) - int(parent.get("Size") or 0)
        self._require_room(0)

    async def _measure(self) -> None:
        """Count what the step at work has written so far."""
        if not self._running or not self._limits.disk_bytes:
            return
        found = await self._engine.inspect(self._running, has_size=True)
        if found is None:
            self._running = ""
            return
        volumes = [Path(each["Source"]) for each in found.get("Mounts") or ()]
        size = sum([await asyncio.to_thread(_size_of, place) for place in volumes])
        self._require_room(int(found.get("SizeRw") or 0) + size)

    def _require_room(self, running: int) -> None:
        most = self._limits.disk_bytes
        used = sum(self._sizes.values()) + running
        if most and used > most:
            raise EnvironmentUnavailable(
                f"{self._name} does not build: it wrote {used} bytes, beyond `disk`: {most}",
                hint="let it write less, or raise the limit: --limit disk=SIZE",
            )


def _depth(name: str, parents: Mapping[str, str]) -> int:
    """Return how many of these images lie below one."""
    depth = 0
    while name in parents and depth <= len(parents):
        name, depth = parents[name], depth + 1
    return depth


def plain_id(name: str) -> str:
    """Return an image's id without the name of its hash, as lists and logs show it."""
    return name.removeprefix("sha256:")


def _size_of(place: Path) -> int:
    """Return what lies in a volume; nothing where this user may not look."""
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                total += os.lstat(Path(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total


__all__ = [
    "LOOK_S",
    "MOST_NAMES",
    "BuildWatch",
    "Containers",
    "Terms",
    "bounds_of",
    "largest_file",
    "plain_id",
]
