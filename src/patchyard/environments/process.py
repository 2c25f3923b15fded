"""The `process` kind: bubblewrap behind an allow-list, the toolbox as PID 1 of its namespace."""

import asyncio
import contextlib
import tempfile
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from patchyard.clients import cgroups
from patchyard.clients.belonging import is_own, require_own
from patchyard.clients.berths import (
    LISTEN_FD,
    MARK,
    Berth,
    Pipe,
    Station,
    agent_of,
    berth_directory,
    connect,
    first_contact,
    from_details,
    group_of,
    identify_started,
    read_child_pid,
    read_said,
    remove_berth,
    require_filtered,
    serving,
    to_details,
    try_out,
)
from patchyard.clients.bubblewrap import (
    INFO_FD,
    INFO_READER_FD,
    SIZED,
    Launch,
    find_bubblewrap,
    launch,
)
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.freezing import frozen
from patchyard.clients.holding import CHECKED, GATEWAYS, NOTHING, SIZE, held_by, unheld
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import Interpreter, toolbox_interpreter
from patchyard.clients.metering import LocalMeter
from patchyard.clients.obstacles import diagnose, read_obstacles
from patchyard.clients.process import (
    ProcessRef,
    kill,
    kill_tree,
    kill_while_starting,
    wait_ended,
)
from patchyard.clients.programs import programs
from patchyard.clients.rlimits import resource_limits
from patchyard.clients.toolchains import ToolchainFinder
from patchyard.clients.vitals import health_of
from patchyard.clients.walls import (
    SYSTEM_PATH,
    TOOLBOX_PLACE,
    Machine,
    View,
    build_view,
    describe,
    read_machine,
)
from patchyard.contracts.environment import Meter, Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
    Readiness,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, StartBroken
from patchyard.domain.usage import Health
from patchyard.toolbox.spawning import spawn_detached

TOOLBOX_VARIABLES = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
"""Of bubblewrap and the toolbox themselves; commands get the view's."""

START_TIMEOUT_S = 20.0  # of one attempt; on an idle machine it takes some 30 ms
STARTS = 2  # a silent attempt is ended whole and made once more
CHECK_TIMEOUT_S = 50.0
END_TIMEOUT_S = 3.0  # the design's bound for ending a tree


class ProcessEnvironment:
    """Bubblewrap environments of this machine. Stateless but for caches of facts."""

    kind = ExecutionEnvironment.PROCESS

    def __init__(self, station: Station) -> None:
        self._station = station
        self._machine: Machine | None = None
        self._finder = ToolchainFinder(
            search_path=station.search_path, home=station.home, private=station.private
        )

    async def check(self) -> Readiness:
        """Start one on an empty folder and end it; say what was in the way."""
        return await try_out(self.kind, self._try_out())

    async def _try_out(self) -> Mapping[str, Any]:
        bubblewrap = find_bubblewrap()
        with tempfile.TemporaryDirectory(prefix="patchyard-check-") as folder:
            workspace = Mount(source=folder, target="/srv/patchyard-check")
            spec = EnvironmentSpec(plan_id="", purpose="check", workspace=workspace, limits=CHECKED)
            try:
                async with asyncio.timeout(CHECK_TIMEOUT_S):
                    handle = await self.start(spec)
                    in_memory = SIZE if bubblewrap.version >= SIZED else NOTHING
                    held = held_by(group_of(handle), in_memory=in_memory, network=GATEWAYS)
                    await self.end(handle)
            except TimeoutError as error:
                raise EnvironmentUnavailable(
                    "it did not start in time", hint="look at the machine's load"
                ) from error
        version = ".".join(map(str, bubblewrap.version))
        return {
            "bubblewrap": bubblewrap.path,
            "version": version,
            "visible": self.describe(spec),
            "limits": held,
        }

    def describe(self, spec: EnvironmentSpec) -> list[dict[str, str]]:
        """Return a row (path, access, source) for each place that `spec` shows or leaves out."""
        left_out = self._finder.find(spec.workspace.target).skipped
        return [
            *(
                {"path": p, "access": f"not shown: {why}", "source": p}
                for p, why in left_out.items()
            ),
            *describe(self._view(spec, self._identity(spec))),
        ]

    async def programs(self, checkout: str, *, image: str = "") -> Mapping[str, str]:  # noqa: ARG002 - it shows this machine's
        """Return marks of the programs found there; see contracts.environment.Furnished."""
        found = self._finder.find(checkout)
        return programs((*found.path, *SYSTEM_PATH), found.variables)

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one. Raises EnvironmentUnavailable with the cause, and leaves nothing then."""
        for _ in range(STARTS - 1):
            with contextlib.suppress(_Silent):
                return await self._start(spec)
        return await self._start(spec)

    async def _start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        bubblewrap = find_bubblewrap()
        identity = self._identity(spec)
        view = self._view(spec, identity)
        environment_id = self._station.new_id()
        with contextlib.ExitStack() as undo:
            berth = Berth(self._station, environment_id, plan_id=spec.plan_id)
            undo.callback(berth.discard)
            likely = list(cgroups.own_places(environment_id))  # it may be killed in between
            berth.handle(self.kind, spec.workspace.target, {"group": likely})
            group = cgroups.own_group(environment_id, spec.limits)
            undo.callback(cgroups.remove_group, group)
            berth.handle(self.kind, spec.workspace.target, {"group": list(group)})
            mark = f"{MARK}={environment_id}"  # a confined toolbox shows no environment
            command = [*_toolbox_command(spec, identity, group), mark]
            with contextlib.ExitStack() as stack:
                attempt = _Attempt(stack, group, view.variables)
                undo.callback(attempt.kill)
                with launch(
                    view, command, bubblewrap=bubblewrap, is_root=identity.is_switched
                ) as prepared:
                    attempt.spawn(prepared, berth)
                await attempt.succeed(berth)
            undo.pop_all()
        details = {
            "init": to_details(attempt.init),
            "monitor": to_details(attempt.monitor),
            "group": list(group),
            "unheld": list(unheld(spec.limits, group)),
        }
        return berth.handle(self.kind, spec.workspace.target, details)

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started one. Raises EnvironmentBroken when it is gone."""
        require_own(self._station, handle)
        cgroups.thaw(group_of(handle))  # an engine that froze it may have died
        return await connect(self._station, handle, "init")

    def frozen(
        self, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> AbstractAsyncContextManager[bool]:
        """Keep it still; see contracts.environment.Freezing."""
        return frozen(handle, "init", toolbox)

    def meter(self, handle: EnvironmentHandle) -> Meter:
        """Count what it uses; see contracts.environment.Measuring."""
        return LocalMeter(handle, "init")

    async def health(self, handle: EnvironmentHandle) -> Health:
        """Return how it is; see contracts.environment.Metering."""
        return await health_of(self._station, handle, "init")

    async def end(self, handle: EnvironmentHandle) -> None:
        """Kill PID 1 of its namespace, and so all in it. Raises EnvironmentBroken if it stays."""
        directory = berth_directory(self._station, handle.environment_id)
        if not is_own(self._station, handle):
            remove_berth(directory)
            return
        init, monitor = from_details(handle, "init"), from_details(handle, "monitor")
        group = group_of(handle)
        if init is None and monitor is None:  # its engine was killed before it knew them
            mark = f"{MARK}={handle.environment_id}"
            await asyncio.to_thread(kill_tree, None, marker=mark, timeout_s=END_TIMEOUT_S)
        if not await asyncio.to_thread(_kill, init, monitor, group):
            raise EnvironmentBroken(
                f"environment {handle.environment_id} did not end within {END_TIMEOUT_S:g} s",
                hint=f"process {init.pid if init else '?'} waits inside the kernel; try again",
            )
        await asyncio.to_thread(cgroups.remove_group, group)
        remove_berth(directory)

    def _identity(self, spec: EnvironmentSpec) -> AgentIdentity:
        workspace = spec.workspace
        is_moved = workspace.source != workspace.target
        owner = _owner(workspace.target) if is_moved else None
        return agent_of(spec, self._station, checkout_owner=owner)

    def _view(self, spec: EnvironmentSpec, identity: AgentIdentity) -> View:
        interpreter, shelf = toolbox_interpreter(), self._station.prepare()
        toolbox = str(compiled_toolbox(shelf, interpreter.path) / "toolbox")  # a janitor may pass
        if self._machine is None or self._machine.toolbox != toolbox:
            self._machine = read_machine(toolbox, interpreter)
        self._refuse_exposure(self._machine.interpreter, spec.workspace.target)
        toolchains = self._finder.find(spec.workspace.target)
        return build_view(spec, identity=identity, machine=self._machine, toolchains=toolchains)

    def _refuse_exposure(self, interpreter: Interpreter, checkout: str) -> None:
        """Refuse a Python that lies among what no agent may see; it is the engine's own."""
        for mount in interpreter.mounts:
            exposure = self._finder.exposure(mount.source, checkout)
            if exposure:
                raise EnvironmentUnavailable(
                    f"the Python for the toolbox lies in {mount.source}, which cannot be shown: "
                    f"{exposure}",
                    hint="install Python 3.8 or newer as /usr/bin/python3",
                )


class _Silent(EnvironmentUnavailable):
    """The sandbox did not answer in time, and nothing was said."""


class _Attempt:
    """One start of bubblewrap: what runs so far, and how to undo it."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        group: tuple[str, ...],
        variables: Mapping[str, str],
    ) -> None:
        self.monitor: ProcessRef | None = None  # bubblewrap outside; ends by itself after `init`
        self.init: ProcessRef | None = None  # PID 1 inside: killing it kills all there
        self._group = group
        self._variables = variables  # of commands
        self._report, self._said = Pipe(stack), Pipe(stack)

    def spawn(self, prepared: Launch, berth: Berth) -> None:
        """Start it; afterwards only the toolbox holds the listening socket."""
        pid = spawn_detached(
            prepared.argv,
            env=TOOLBOX_VARIABLES | {MARK: berth.directory.name},
            descriptors={
                **prepared.descriptors,
                LISTEN_FD: berth.listener.fileno(),
                INFO_FD: self._report.writing,
                INFO_READER_FD: self._report.reading,
                2: self._said.writing,
            },
        )
        self.monitor = identify_started(pid)
        self._report.close_writing()
        self._said.close_writing()
        berth.close_listener()

    async def succeed(self, berth: Berth) -> None:
        """Wait for the toolbox's first answer. Raises EnvironmentUnavailable with the cause."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                child = await read_child_pid(self._report.reading)
                self.init = identify_started(child)
                # writing there takes some ms in the kernel: meanwhile the toolbox comes up
                joining = asyncio.to_thread(cgroups.join_group, self._group, self.init.pid)
                contact = first_contact(berth.path, self._variables)
                hello, _ = await asyncio.gather(contact, joining)
            require_filtered(hello, "the sandbox")
        except (EnvironmentBroken, OSError, TimeoutError) as error:
            await asyncio.to_thread(self.kill)
            said = read_said(self._said.reading)
            if isinstance(error, TimeoutError) and not said:
                raise _Silent(
                    f"the sandbox did not answer within {START_TIMEOUT_S:g} s",
                    hint="the machine is busy: try again when it is quieter",
                ) from error
            diagnosis = diagnose(said, read_obstacles())
            kind = StartBroken if diagnosis.has_broken else EnvironmentUnavailable
            raise kind(diagnosis.cause, hint=diagnosis.cure) from error

    def kill(self) -> None:
        """End whatever runs of it."""
        _kill(self.init, self.monitor, self._group)


def _kill(init: ProcessRef | None, monitor: ProcessRef | None, group: tuple[str, ...]) -> bool:
    """Kill the namespace by its PID 1, thaw it so that it can die, and wait; False if it stays."""
    has_init = init is not None and kill(init)
    if not has_init and monitor is not None:
        kill_while_starting(monitor)
    cgroups.thaw(group)
    if has_init and init is not None and not wait_ended(init, timeout_s=END_TIMEOUT_S):
        return False
    if monitor is None:
        return True
    kill(monitor)  # it would end by itself, unless it is stopped
    return wait_ended(monitor, timeout_s=END_TIMEOUT_S)


def _owner(path: str) -> int | None:
    try:
        return Path(path).stat().st_uid
    except OSError:
        return None


def _toolbox_command(
    spec: EnvironmentSpec, identity: AgentIdentity, group: tuple[str, ...]
) -> list[str]:
    limits = resource_limits(
        spec.limits,
        bounds_memory=not cgroups.is_bounding(group, "memory"),
        bounds_processes=not cgroups.is_bounding(group, "pids"),
        is_watched=True,
    )
    return serving(
        spec,
        identity,
        code=TOOLBOX_PLACE,
        workspace=spec.workspace.target,
        rlimits=limits,
    )


__all__ = ["CHECK_TIMEOUT_S", "END_TIMEOUT_S", "STARTS", "START_TIMEOUT_S", "ProcessEnvironment"]
