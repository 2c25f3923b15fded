"""The `container` kind: one warm container of an image, the toolbox as its first process.

The toolbox's listening socket is passed in over another one, so that no folder of the engine's is
ever mounted; afterwards it is reached as every local toolbox is, and outlives the engine.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchyard.clients import cgroups
from patchyard.clients.as_asked import require_as_asked, require_walled
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
from patchyard.clients.containers import (
    Equipped,
    accounts_of,
    confined,
    described,
    home_of,
)
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.docker import ContainerEngine, connected, engine_socket
from patchyard.clients.freezing import frozen
from patchyard.clients.holding import CHECKED, GATEWAYS, SIZE, held_by
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.metering import LocalMeter
from patchyard.clients.passing import Passing
from patchyard.clients.process import kill
from patchyard.clients.trial_image import trial_image, trial_mounts
from patchyard.clients.vitals import health_of
from patchyard.contracts.environment import Meter, Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
    Readiness,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.domain.usage import Health

NOTICE_S = 3.0  # until its engine knows that one has ended
START_TIMEOUT_S = 30.0  # from the image to the toolbox's first answer


class ContainerEnvironment:
    """Containers of this machine's engine. Stateless."""

    kind = ExecutionEnvironment.CONTAINER

    def __init__(self, station: Station) -> None:
        self._station = station

    async def check(self) -> Readiness:
        """Start one of an empty image over this machine's programs and end it."""
        return await try_out(self.kind, self._try_out())

    async def _try_out(self) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(prefix="patchyard-check-") as folder:
            spec = await self.trial(Mount(source=folder, target="/srv/patchyard-check"))
            await self.end(await self.start(spec))
        async with self._engine() as engine:
            facts = {"engine": await engine.version(), "socket": engine.socket}
        held = held_by((), in_memory=SIZE, network=GATEWAYS, engine=True)
        return {**facts, "visible": described(spec), "limits": held}

    async def trial(self, workspace: Mount) -> EnvironmentSpec:
        """Load an empty image, to be filled with this machine's programs; see Trying."""
        name, archive = trial_image()
        async with self._engine() as engine:
            await engine.load(name, archive)
        return EnvironmentSpec(
            plan_id="",
            purpose="check",
            image=name,
            workspace=workspace,
            mounts=trial_mounts(),
            limits=CHECKED,
        )

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
            image = await engine.image(spec.image)
            berth = Berth(
                self._station, environment_id, plan_id=spec.plan_id, resource=spec.resource
            )
            name = f"patchyard-{environment_id}"
            undo.push_async_callback(_taken_back, engine, name, berth)
            details = {"container": name, "engine": engine.socket}
            berth.handle(self.kind, spec.workspace.target, details)
            passing = undo.enter_context(
                contextlib.closing(Passing(berth.directory, berth.listener))
            )
            asked = confined(
                spec,
                identity,
                image=image,
                environment_id=environment_id,
                equipped=self._equipped(
                    spec, identity, passing, is_podman=await engine.is_podman()
                ),
            )
            await engine.create(name, asked.config)
            require_as_asked(await engine.inspect(name), asked)
            await _answering(engine, name, passing, berth)
            details |= await _running(engine, name, is_podman=asked.is_podman)
            undo.pop_all()
            passing.close()
        return berth.handle(self.kind, spec.workspace.target, details)

    def _equipped(
        self, spec: EnvironmentSpec, identity: AgentIdentity, passing: Passing, *, is_podman: bool
    ) -> Equipped:
        """Return what it is given beside its image."""
        shelf, python = self._station.prepare(), toolbox_interpreter().path
        return Equipped(
            toolbox=str(compiled_toolbox(shelf, python) / "toolbox"),
            python=carried_python(shelf, python),
            passing=str(passing.path),
            is_podman=is_podman,
            accounts=_accounts(
                passing.path.parent, accounts_of(identity, home_of(spec), user=spec.user)
            ),
        )

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started one. Raises EnvironmentBroken when it is gone."""
        cgroups.thaw(group_of(handle))  # an engine that froze it may have died
        return await connect(self._station, handle, "init")

    def frozen(
        self, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> AbstractAsyncContextManager[bool]:
        """Keep it still; see contracts.environment.Freezing."""
        return frozen(handle, "init", toolbox)

    def meter(self, handle: EnvironmentHandle) -> Meter:
        """Count what it uses; see contracts.environment.Metering."""
        return LocalMeter(handle, "init")

    async def health(self, handle: EnvironmentHandle) -> Health:
        """Return how it is; the engine knows of one that has ended whether memory was why."""
        found = await health_of(self._station, handle, "init")
        if found.is_alive or found.limit:
            return found
        with contextlib.suppress(EnvironmentUnavailable, TimeoutError):
            async with connected(str(handle.details.get("engine"))) as engine:
                name = f"patchyard-{handle.environment_id}"
                async with asyncio.timeout(NOTICE_S):
                    await engine.ended(name)
                made = await engine.inspect(name) or {}
                if made.get("State", {}).get("OOMKilled"):
                    return replace(found, limit="memory")
        return found

    async def end(self, handle: EnvironmentHandle) -> None:
        """Take the container away with all that runs there. Raises EnvironmentBroken.

        Its first process is killed from here, and so all in it, whatever its engine is at.
        """
        directory = berth_directory(self._station, handle.environment_id)
        init = from_details(handle, "init")
        if init is not None:
            kill(init)
        cgroups.thaw(group_of(handle))
        name = f"patchyard-{handle.environment_id}"
        try:
            place = str(handle.details.get("engine") or engine_socket(os.environ))
            async with connected(place) as engine:
                await engine.remove(name)
        except EnvironmentUnavailable as error:
            raise EnvironmentBroken(
                f"container {name} cannot be ended: {error.message}", hint=error.hint
            ) from error
        remove_berth(directory)

    @contextlib.asynccontextmanager
    async def _engine(self) -> AsyncIterator[ContainerEngine]:
        async with connected(engine_socket(os.environ)) as engine:
            yield engine


async def _taken_back(engine: ContainerEngine, name: str, berth: Berth) -> None:
    """Take away what a start that failed has made.

    Where the engine does not answer any more its folder stays: so the janitor finds it again.
    """
    try:
        await engine.remove(name)
    except EnvironmentUnavailable:
        berth.close_listener()
    else:
        berth.discard()


def _require_sources(spec: EnvironmentSpec) -> None:
    """Raise EnvironmentUnavailable for a mount of nothing; some engines make a folder then."""
    for mount in (spec.workspace, *spec.mounts):
        if not os.path.lexists(mount.source):
            raise EnvironmentUnavailable(
                f"{mount.source} is to be shown in the container, and is not there",
                hint="make it, or leave it out",
            )


def _accounts(directory: Path, files: Mapping[str, str]) -> Mapping[str, str]:
    """Write the files of users and groups, and return where each lies."""
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
        (directory / name).chmod(0o644)
    return {name: str(directory / name) for name in files}


async def _answering(engine: ContainerEngine, name: str, passing: Passing, berth: Berth) -> None:
    """Run it until its toolbox has answered. Raises EnvironmentUnavailable with the cause."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            await engine.start(name)
            await _sooner(passing.passed(), engine.ended(name))
            berth.close_listener()
            hello = await first_contact(berth.path)
    except (EnvironmentBroken, TimeoutError) as error:
        said = await engine.said(name)
        raise EnvironmentUnavailable(
            f"the toolbox did not start in the container: {said or error}",
            hint="look at the container engine, and whether the machine is busy",
        ) from error
    if not hello.get("shell"):
        raise EnvironmentUnavailable(
            "the image has no shell, and commands need one",
            hint="take an image that has /bin/sh",
        )


async def _sooner(wanted: Coroutine[Any, Any, None], feared: Coroutine[Any, Any, None]) -> None:
    """Wait until one of them is done. Raises EnvironmentBroken when it is the feared one."""
    good, bad = asyncio.ensure_future(wanted), asyncio.ensure_future(feared)
    try:
        await asyncio.wait((good, bad), return_when=asyncio.FIRST_COMPLETED)
        if not good.done():
            raise EnvironmentBroken("it ended as soon as it was started")
        await good
    finally:
        for task in (good, bad):
            task.cancel()
        await asyncio.gather(good, bad, return_exceptions=True)


async def _running(engine: ContainerEngine, name: str, *, is_podman: bool) -> Mapping[str, Any]:
    """Return how its first process and its control groups are found from here.

    Raises EnvironmentUnavailable where the kernel says that it has less walls than asked.
    """
    found = await engine.inspect(name) or {}
    pid = int(found.get("State", {}).get("Pid") or 0)
    require_walled(pid, is_podman=is_podman)
    membership = _read(f"/proc/{pid}/cgroup")
    return {
        "init": to_details(identify_started(pid)),
        "group": list(cgroups.groups_of(membership)),
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


__all__ = ["NOTICE_S", "START_TIMEOUT_S", "ContainerEnvironment"]
