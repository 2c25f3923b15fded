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
from pathlib import Path
from typing import Any

from patchyard.clients import cgroups
from patchyard.clients.berths import (
    Berth,
    Station,
    agent_of,
    berth_directory,
    connect,
    first_contact,
    from_details,
    identify_started,
    remove_berth,
    to_details,
    try_out,
)
from patchyard.clients.containers import (
    PYTHON,
    accounts_of,
    confined,
    described,
    home_of,
    require_as_asked,
)
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.docker import ContainerEngine, connected, engine_socket
from patchyard.clients.freezing import frozen
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.passing import Passing
from patchyard.clients.process import kill
from patchyard.clients.trial_image import trial_image, trial_mounts
from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
    Readiness,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable

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
        name, archive = trial_image()
        async with self._engine() as engine:
            await engine.load(name, archive)
            facts = {"engine": await engine.version(), "socket": engine.socket}
        with tempfile.TemporaryDirectory(prefix="patchyard-check-") as folder:
            workspace = Mount(source=folder, target="/srv/patchyard-check")
            spec = EnvironmentSpec(
                plan_id="", purpose="check", image=name, workspace=workspace, mounts=trial_mounts()
            )
            await self.end(await self.start(spec))
        return {**facts, "visible": described(spec)}

    async def programs(self, checkout: str, *, image: str = "") -> Mapping[str, str]:  # noqa: ARG002 - all of it is the image's
        """Return the image by its digest; see contracts.environment.Furnished."""
        async with self._engine() as engine:
            return {"image": str((await engine.image(image))["Id"])}

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one of `spec.image`. Raises EnvironmentUnavailable, and leaves nothing then."""
        identity = agent_of(spec, self._station)
        environment_id = self._station.new_id()
        async with self._engine() as engine, contextlib.AsyncExitStack() as undo:
            image = await engine.image(spec.image)
            berth = Berth(self._station, environment_id, plan_id=spec.plan_id)
            undo.callback(berth.discard)
            name = f"patchyard-{environment_id}"
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
                toolbox=str(self._toolbox()),
                passing=str(passing.path),
                accounts=_accounts(berth.directory, accounts_of(identity, home_of(spec))),
            )
            undo.push_async_callback(engine.remove, name)
            await engine.create(name, asked.config)
            require_as_asked(await engine.inspect(name), asked)
            await _answering(engine, name, passing, berth)
            details |= await _running(engine, name)
            undo.pop_all()
            passing.close()
        return berth.handle(self.kind, spec.workspace.target, details)

    def _toolbox(self) -> str:
        """Return the folder of the toolbox's code, for whatever Python the image has."""
        return str(
            compiled_toolbox(self._station.prepare(), toolbox_interpreter().path) / "toolbox"
        )

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started one. Raises EnvironmentBroken when it is gone."""
        cgroups.thaw(_group_of(handle))  # an engine that froze it may have died
        return await connect(self._station, handle, "init")

    def frozen(
        self, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> AbstractAsyncContextManager[bool]:
        """Keep it still; see contracts.environment.Freezing."""
        return frozen(handle, "init", toolbox)

    async def end(self, handle: EnvironmentHandle) -> None:
        """Take the container away with all that runs there. Raises EnvironmentBroken.

        Its first process is killed from here, and so all in it, whatever its engine is at.
        """
        directory = berth_directory(self._station, handle.environment_id)
        init = from_details(handle, "init")
        if init is not None:
            kill(init)
        cgroups.thaw(_group_of(handle))
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
            await engine.start(name, needed=PYTHON)
            await _sooner(passing.passed(), engine.ended(name))
            berth.close_listener()
            await first_contact(berth.path)
    except (EnvironmentBroken, TimeoutError) as error:
        said = await engine.said(name)
        raise EnvironmentUnavailable(
            f"the toolbox did not start in the container: {said or error}",
            hint="the image needs Python 3.8 or newer as `python3`",
        ) from error


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


async def _running(engine: ContainerEngine, name: str) -> Mapping[str, Any]:
    """Return how its first process and its control groups are found from here."""
    found = await engine.inspect(name) or {}
    pid = int(found.get("State", {}).get("Pid") or 0)
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


def _group_of(handle: EnvironmentHandle) -> tuple[str, ...]:
    return tuple(str(place) for place in handle.details.get("group", ()))


__all__ = ["START_TIMEOUT_S", "ContainerEnvironment"]
