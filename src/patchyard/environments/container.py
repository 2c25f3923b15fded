"""The `container` kind: one warm container of an image, the toolbox as its first process.

The toolbox's listening socket is passed in over another one, so that no folder of the engine's is
ever mounted; afterwards it is reached as every local toolbox is, and outlives the engine. gVisor
lets no socket in: there a warden holds the container's standard streams.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from patchyard.clients import cgroups
from patchyard.clients.as_asked import (
    KnownLinks,
    require_as_asked,
    require_filtered,
    require_unmoved,
)
from patchyard.clients.belonging import is_own, require_own
from patchyard.clients.berths import (
    Berth,
    Station,
    agent_of,
    berth_directory,
    connect,
    first_contact,
    from_details,
    group_of,
    identify_started,
    remove_berth,
    to_details,
    try_out,
)
from patchyard.clients.carried import carried_python
from patchyard.clients.container_ends import with_ending
from patchyard.clients.container_making import made, taken_back, taken_late
from patchyard.clients.container_wardens import LedToolbox, end_warden
from patchyard.clients.containers import (
    Equipped,
    confined,
    described,
    etc_files,
    home_of,
    id_of,
    tasks_of,
)
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.docker import ContainerEngine, connected, engine_socket
from patchyard.clients.engine_groups import require_held
from patchyard.clients.freezing import frozen
from patchyard.clients.gvisors import day_of_runtime
from patchyard.clients.holding import CHECKED, GATEWAYS, SIZE, held_by
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.metering import LocalMeter
from patchyard.clients.process import kill
from patchyard.clients.seccomp_profiles import engine_profile
from patchyard.clients.trial_image import remove_left, trial_image, trial_mounts
from patchyard.clients.vitals import health_of
from patchyard.clients.ways import MONITOR, ByWarden, Handed, Way
from patchyard.contracts.environment import Meter, Toolbox
from patchyard.domain.environment import (
    TASKS,
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
    Mount,
    Readiness,
    is_gvisor,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, StartBroken
from patchyard.domain.usage import Health
from patchyard.toolbox.last_words import last_words

START_TIMEOUT_S = 30.0  # from the image to the toolbox's first answer

ELSEWHERE = "its processes are not this machine's; test_gvisor.py shows it from inside"
UNSEEN = "nobody out here sees that nothing runs in there, so all of it is kept still"
GVISOR_DEVIATIONS: Mapping[str, str] = {
    "test_ending_a_stopped_tree_works": ELSEWHERE,
    "test_ending_takes_along_what_forked_into_a_session_of_its_own": ELSEWHERE,
    "test_where_nothing_runs_nobody_is_stopped": UNSEEN,
}
"""Tests of the contract's suite that do not hold where the runtime is gVisor, with the reason."""


class ContainerEnvironment:
    """Containers of this machine's engine. Keeps nothing but what it learned of images."""

    kind = ExecutionEnvironment.CONTAINER

    def __init__(self, station: Station) -> None:
        self._station = station
        self._links = KnownLinks()

    async def check(self) -> Readiness:
        """Start one of an empty image over this machine's programs and end it."""
        return await try_out(self.kind, self._try_out())

    async def _try_out(self) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(prefix="patchyard-check-") as folder:
            workspace = Mount(source=folder, target="/srv/patchyard-check")
            async with self.trial(workspace) as spec:
                await self.end(await self.start(spec))
                return await self.described(spec)

    async def described(self, spec: EnvironmentSpec) -> Mapping[str, Any]:
        """See contracts.environment.Describing."""
        async with self._engine() as engine:
            facts = {"engine": await engine.version(), "socket": engine.socket}
            if is_gvisor(spec.runtime):
                facts["gvisor"] = await day_of_runtime(engine, spec.runtime)
        held = held_by((), in_memory=SIZE, network=GATEWAYS, engine=True)
        return {**facts, "visible": described(spec), "limits": held}

    @contextlib.asynccontextmanager
    async def trial(self, workspace: Mount) -> AsyncIterator[EnvironmentSpec]:
        """Load an empty image, to be filled with this machine's programs; see Trying."""
        name, archive = trial_image(own := self._station.new_id())
        async with self._engine() as engine:
            await remove_left(engine, own)
            await engine.load(name, archive)
            try:
                yield EnvironmentSpec(
                    plan_id="",
                    purpose="check",
                    image=name,
                    workspace=workspace,
                    mounts=trial_mounts(),
                    limits=CHECKED,
                )
            finally:
                with contextlib.suppress(EnvironmentUnavailable):  # it went away: so did its use
                    await engine.remove_image(name)

    async def foresee(
        self,
        *,
        image: str,
        runtime: str = "",
        limits: Limits | None = None,  # noqa: ARG002 - any that can be asked for will do
    ) -> None:
        """See contracts.environment.Foreseeing."""
        async with self._engine() as engine:
            if runtime:
                await engine.require_runtime(runtime)
            await engine.require_groups()
            await engine.image(image)

    async def programs(self, checkout: str, *, image: str = "") -> Mapping[str, str]:  # noqa: ARG002 - all of it is the image's
        """Return the image by its digest; see contracts.environment.Furnished."""
        async with self._engine() as engine:
            return {"image": str((await engine.image(image))["Id"])}

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one of `spec.image`. Raises EnvironmentUnavailable, and leaves nothing then."""
        _require_sources(spec)
        identity = agent_of(spec, self._station)
        environment_id = self._station.new_id()
        async with self._engine() as engine, contextlib.AsyncExitStack() as undo:
            if spec.runtime:
                await engine.require_runtime(spec.runtime)
            await engine.require_groups()
            image = await engine.image(spec.image)
            berth = Berth(
                self._station, environment_id, plan_id=spec.plan_id, resource=spec.resource
            )
            name = f"patchyard-{environment_id}"
            undo.push_async_callback(taken_back, engine, name, berth)
            details: dict[str, Any] = {"container": name, "engine": engine.socket}
            if is_gvisor(spec.runtime) and tasks_of(spec):
                details[TASKS] = tasks_of(spec)
            berth.handle(self.kind, spec.workspace.target, details)
            is_podman = await engine.is_podman()
            way = self._way(spec, berth, is_podman=is_podman)
            undo.callback(way.undo)
            asked = confined(
                spec,
                identity,
                image=image,
                environment_id=environment_id,
                equipped=self._equipped(spec, identity, berth, way, is_podman=is_podman),
            )
            await require_unmoved(engine, name, asked, self._links, berth.directory)
            await made(engine, name, asked.config, berth.directory)
            found = await engine.inspect(name)
            require_as_asked(found, asked)
            _require_no_surprise(spec, found)
            details["id"] = str((found or {}).get("Id") or "")  # which no `docker rename` changes
            details |= await way.prepare(engine, name)
            berth.handle(self.kind, spec.workspace.target, details)
            told = await _answering(engine, name, way, berth, asked.variables)
            details |= await _running(engine, name, way, identity, told)
            require_held(int(details["init"]["pid"]), asked)
            undo.pop_all()
            way.close()
        return berth.handle(self.kind, spec.workspace.target, details)

    def _way(self, spec: EnvironmentSpec, berth: Berth, *, is_podman: bool) -> Way:
        """Return how the toolbox will be reached."""
        if not is_gvisor(spec.runtime):
            return Handed(berth, is_podman=is_podman)
        python = toolbox_interpreter().path
        return ByWarden(
            berth=berth,
            code=compiled_toolbox(self._station.prepare(), python),
            python=python,
            grace_s=spec.orphan_grace_s,
            timeout_s=START_TIMEOUT_S,
        )

    def _equipped(
        self,
        spec: EnvironmentSpec,
        identity: AgentIdentity,
        berth: Berth,
        way: Way,
        *,
        is_podman: bool,
    ) -> Equipped:
        """Return what it is given beside its image."""
        shelf, python = self._station.prepare(), toolbox_interpreter().path
        return Equipped(
            toolbox=str(compiled_toolbox(shelf, python) / "toolbox"),
            python=carried_python(shelf, python),
            passing=way.socket,
            is_podman=is_podman,
            profile=""
            if is_gvisor(spec.runtime)
            else _profile(berth.directory, is_podman=is_podman),
            is_watched=True,
            etc=_written(berth.directory, etc_files(identity, home_of(spec), user=spec.user)),
        )

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started one. Raises EnvironmentBroken when it is gone."""
        require_own(self._station, handle)
        cgroups.thaw(group_of(handle))  # an engine that froze it may have died
        toolbox = await connect(self._station, handle, "init")
        if MONITOR not in handle.details:
            return toolbox
        return LedToolbox(toolbox, berth_directory(self._station, handle.environment_id))

    def frozen(
        self, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> AbstractAsyncContextManager[bool]:
        """Keep it still; see contracts.environment.Freezing."""
        return frozen(handle, "init", toolbox, hides_processes=MONITOR in handle.details)

    def meter(self, handle: EnvironmentHandle) -> Meter:
        """Count what it uses; see contracts.environment.Measuring."""
        return LocalMeter(handle, "init")

    async def health(self, handle: EnvironmentHandle) -> Health:
        """Return how it is; the engine knows how one that has ended did so."""
        found = await health_of(self._station, handle, "init")
        return found if found.is_alive else await with_ending(found, handle)

    async def end(self, handle: EnvironmentHandle) -> None:
        """Take the container away with all that runs there. Raises EnvironmentBroken.

        Its first process is killed from here, and so all in it, whatever its engine is at.
        """
        directory = berth_directory(self._station, handle.environment_id)
        if not is_own(self._station, handle):
            remove_berth(directory)
            return
        init, monitor = from_details(handle, "init"), from_details(handle, MONITOR)
        if init is not None:
            kill(init)
        cgroups.thaw(group_of(handle))
        try:
            place = str(handle.details.get("engine") or engine_socket(os.environ))
            async with connected(place) as engine:
                if not handle.details.get("id"):
                    await taken_late(engine, id_of(handle), directory)
                await engine.remove(id_of(handle))
        except EnvironmentUnavailable as error:
            raise EnvironmentBroken(
                f"container patchyard-{handle.environment_id} cannot be ended: {error.message}",
                hint=error.hint,
            ) from error
        if monitor is not None:
            await asyncio.to_thread(end_warden, monitor)
        remove_berth(directory)

    @contextlib.asynccontextmanager
    async def _engine(self) -> AsyncIterator[ContainerEngine]:
        async with connected(engine_socket(os.environ)) as engine:
            yield engine


def _require_sources(spec: EnvironmentSpec) -> None:
    """Raise EnvironmentUnavailable for a mount of nothing; some engines make a folder then."""
    for mount in (spec.workspace, *spec.mounts):
        if not os.path.lexists(mount.source):
            raise EnvironmentUnavailable(
                f"{mount.source} is to be shown in the container, and is not there",
                hint="make it, or leave it out",
            )


def _written(directory: Path, files: Mapping[str, str]) -> Mapping[str, str]:
    """Write what lies in /etc of a container, and return where each file lies here."""
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
        (directory / name).chmod(0o644)
    return {name: str(directory / name) for name in files}


async def _answering(
    engine: ContainerEngine, name: str, way: Way, berth: Berth, variables: Mapping[str, str]
) -> Mapping[str, Any]:
    """Run it until its toolbox has answered, and has `variables`; return what it saw of its walls.

    Raises EnvironmentUnavailable with the cause.
    """
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            await engine.start(name)
            await way.arrived(engine, name)
            berth.close_listener()
            hello = await first_contact(berth.path, variables)
    except (EnvironmentBroken, TimeoutError) as error:
        words = last_words(await way.said(engine, name) or str(error))
        kind = EnvironmentUnavailable if isinstance(error, TimeoutError) else StartBroken
        raise kind(
            f"the toolbox did not start in the container: {words}",
            hint="look at the container engine, and whether the machine is busy",
        ) from error
    if not hello.get("shell"):
        raise EnvironmentUnavailable(
            "the image has no shell, and commands need one",
            hint="take an image that has /bin/sh",
        )
    told = hello.get("walls")
    return told if isinstance(told, dict) else {}


async def _running(
    engine: ContainerEngine,
    name: str,
    way: Way,
    identity: AgentIdentity,
    told: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return how its first process and its control groups are found from here.

    Raises EnvironmentUnavailable where the kernel says that it has less walls than asked.
    """
    found = await engine.inspect(name) or {}
    pid = int(found.get("State", {}).get("Pid") or 0)
    init = identify_started(pid)
    await way.require_walls(init, identity, told)
    require_filtered(told)
    membership = _read(f"/proc/{pid}/cgroup")
    return {"init": to_details(init), "group": list(cgroups.groups_of(membership))}


def _profile(directory: Path, *, is_podman: bool) -> str:
    """Return the filter as the engine takes it: Docker its text, Podman the name of a file."""
    if not is_podman:
        return engine_profile()
    return _written(directory, {"seccomp.json": engine_profile()})["seccomp.json"]


def _require_no_surprise(spec: EnvironmentSpec, made: Mapping[str, Any] | None) -> None:
    """Raise EnvironmentUnavailable for an engine whose own default is gVisor: that must be said."""
    runtime = str((made or {}).get("HostConfig", {}).get("Runtime") or "")
    if is_gvisor(runtime) and not spec.runtime:
        raise EnvironmentUnavailable(
            f"the container engine's own default is {runtime}, which has to be named",
            hint=f"`agents resource add container-instance NAME --runtime {runtime}`",
        )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


__all__ = ["GVISOR_DEVIATIONS", "START_TIMEOUT_S", "ContainerEnvironment"]
