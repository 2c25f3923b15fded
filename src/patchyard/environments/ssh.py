"""The `ssh` kind: the toolbox on a host that OpenSSH's configuration names, over a replica.

Nothing there is confined unless its resource says what the host carries (F2.6): then calls run
behind the walls of that kind, made there. Alone it protects this machine, not that one. A root
user's agent is another user there too. What is called `localhost` is this machine itself, as `host`
has it, unless its resource asks for SSH (F2.20).
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from patchyard.clients.as_asked import require_as_asked
from patchyard.clients.belonging import is_own, require_own
from patchyard.clients.berths import Noted, Station, agent_of, berth_directory, remove_berth
from patchyard.clients.far_bare import bare_options, bare_variables, refuse_unanswered
from patchyard.clients.far_claims import LONGEST_PLACE, bounds_of, checked_start
from patchyard.clients.far_containers import (
    PLACES,
    container_on,
    etc_on,
    far_engine,
    looked_for,
    refuse_unstarted,
)
from patchyard.clients.far_walls import (
    ASKED,
    counted_on,
    far_host,
    hearing,
    refuse_failed,
    walls_on,
)
from patchyard.clients.growth import HomeMeter
from patchyard.clients.holding import held_there, unheld_there
from patchyard.clients.home_room import HomeRoom
from patchyard.clients.mapped import MappedToolbox
from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.reattaching import Gone, ReattachingToolbox
from patchyard.clients.replicas import Replica
from patchyard.clients.replicated import ReplicatedToolbox
from patchyard.clients.ssh import Cut, library, pool
from patchyard.clients.ssh_talk import Conversation, conversing, dial
from patchyard.clients.tenures import Tenure
from patchyard.clients.toolbox import ToolboxClient
from patchyard.clients.toolbox_options import BOOTSTRAP
from patchyard.contracts.environment import Meter, Toolbox
from patchyard.domain.address import Address
from patchyard.domain.environment import (
    COUNTED,
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Readiness,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.domain.resource import LOCALHOST
from patchyard.engine.parting import in_time
from patchyard.environments.host import HostEnvironment
from patchyard.toolbox.twins import Twin

TRIES = 5  # of connections that break, before their host is given up
NEEDS_HOST = (
    "name a host: `agents resource add ssh-host NAME --host [USER@]HOST[:PORT]`, then"
    " `agents project link-resource PROJECT NAME`; the host needs Python 3.8 or newer, and"
    " `ssh HOST true` has to work without a question"
)
DEVIATIONS: Mapping[str, str] = {
    "test_check_starts_one_for_certain_and_leaves_nothing": "there is no host to try",
    "test_only_the_engines_user_can_speak_to_the_toolbox": "its socket is on the host",
    "test_the_agent_has_the_group_that_the_workspace_says": "it is who logs in",
    "test_the_engine_serves_ports_inside_that_nobody_reaches_from_outside": "it forwards no port",
}
"""Tests of the contract's suite that do not hold here, with the reason."""


class SSHEnvironment:
    """Environments of other machines. Stateless."""

    kind = ExecutionEnvironment.SSH

    def __init__(self, station: Station) -> None:
        self._station = station
        self._host = HostEnvironment(station)

    async def check(self) -> Readiness:
        """Say what is needed: there is no host before a resource names one."""
        try:
            library()
        except EnvironmentUnavailable as error:
            return Readiness(kind=self.kind, is_ready=False, cause=error.message, cure=error.hint)
        return Readiness(
            kind=self.kind, is_ready=False, cause="it needs a host to reach", cure=NEEDS_HOST
        )

    async def described(self, spec: EnvironmentSpec) -> Mapping[str, Any]:
        """See contracts.environment.Describing."""
        return {"limits": held_there(spec.carries)}

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one on the host of `spec.address`. Raises EnvironmentUnavailable, UsageError."""
        if not spec.address:
            raise EnvironmentUnavailable("`ssh` needs a host to reach", hint=NEEDS_HOST)
        where = Address.parse(spec.address)
        self._refuse_mounts(spec)
        if where.host == LOCALHOST and spec.transport != "ssh":
            _refuse_carrying(spec)
            return _as_ssh(await self._host.start(spec), spec)
        try:
            return await self._started_at_last(spec)
        except EnvironmentBroken as error:
            raise EnvironmentUnavailable(
                f"{where.host} could not start an environment: {error.message}",
                hint=error.hint or f"look with `{where.command} true` whether it is well",
            ) from error

    async def _started_at_last(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one, and another where the connection broke: nothing was called in that yet."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(Cut):
                return await self._started(spec)
        return await self._started(spec)

    async def _started(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        identity = agent_of(spec, self._station)
        environment_id = self._station.new_id()
        details: dict[str, Any] = {
            "address": spec.address,
            "boot": "",
            "target": spec.workspace.target,
            "source": spec.workspace.source,
            "is_writable": spec.workspace.is_writable,
            "owner": [identity.uid, identity.gid] if identity.is_switched else None,
            "file_bytes": spec.limits.file_bytes,
            "unheld": list(unheld_there(spec.limits, spec.carries)),
            "carries": str(spec.carries or ""),
        }
        async with AsyncExitStack() as undo:
            noted = Noted(
                self._station, environment_id, plan_id=spec.plan_id, resource=spec.resource
            )
            undo.callback(noted.discard)
            async with self._conversing(spec.address) as talk:
                details["boot"] = str((await talk.prepare()).get("boot"))[:LONGEST_PLACE]
                handle = noted.handle(self.kind, "", details)
                undo.pop_all()
                undo.push_async_callback(self._undo, handle)
                with hearing(Address.parse(spec.address)):
                    said, details[COUNTED] = await _made(talk, spec, environment_id)
                    made = checked_start(said)
                details |= {name: made[name] for name in ("boot", "root", "socket")}
                details["replica"] = made["workspace"]
                inside = spec.workspace.target if spec.carries else details["replica"]
                handle = noted.handle(self.kind, inside, details)
                undo.pop_all()
        return handle

    async def _undo(self, handle: EnvironmentHandle) -> None:
        """End what a start that failed may have left there, over another connection if need be.

        While the host is away its folder here stays: so the janitor finds it again.
        """
        with contextlib.suppress(EnvironmentBroken):
            await in_time(self.end(handle))

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started one, and make the workspace equal on both sides.

        Raises EnvironmentBroken when it is gone, EnvironmentUnavailable when its host is.
        """
        if _is_local(handle):
            return MappedToolbox(await self._host.attach(_as_host(handle)), _mapping(handle))
        require_own(self._station, handle)
        line = _Line(handle, self._station.home)
        reattaching = ReattachingToolbox(await self._met(handle, line), line.dialled, line.hung_up)
        details = handle.details
        owner = details["owner"]
        try:
            whose = (owner[0], owner[1]) if owner else None
            home = Twin(str(details["source"]), owner=whose, is_one_mount=True)
        except OSError as error:
            await reattaching.close()
            raise EnvironmentBroken(f"the workspace is gone: {error}") from error
        tenure = Tenure(berth_directory(self._station, handle.environment_id))
        room = HomeRoom.of(handle, str(details["source"]))
        mapping, bounds = _mapping(handle), bounds_of(details["file_bytes"])
        replica = Replica(reattaching, home, mapping, tenure=tenure, bounds=bounds, room=room)
        toolbox = ReplicatedToolbox(reattaching, replica, takes_home=bool(details["is_writable"]))
        try:
            await toolbox.recover()
        except BaseException:
            await toolbox.close()
            raise
        return MappedToolbox(toolbox, mapping)

    async def _met(self, handle: EnvironmentHandle, line: "_Line") -> ToolboxClient:
        """Return the first connection to it; one that breaks meanwhile says nothing of it.

        Raises Gone when it has ended, EnvironmentUnavailable when its host is not there.
        """
        for _ in range(TRIES):
            try:
                return await self._first(handle, line)
            except Gone:
                raise
            except EnvironmentBroken as error:
                broken = error
        where = Address.parse(_address(handle))
        raise EnvironmentUnavailable(
            f"the connections to {where.host} break: {broken.message}",
            hint=f"look with `{where.command} true` whether it is well, then resume",
        ) from broken

    async def _first(self, handle: EnvironmentHandle, line: "_Line") -> ToolboxClient:
        async with self._conversing(_address(handle)) as talk:
            await talk.prepare()
            found = await talk.ask("state", **_known(handle))
        if found.get("is_there") is not True:
            raise Gone(f"the {self.kind} environment has ended")
        return await line.dialled()

    def frozen(
        self, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> AbstractAsyncContextManager[bool]:
        """Keep it still, with all its files at home; see contracts.environment.Freezing."""
        if _is_local(handle):
            return self._host.frozen(_as_host(handle), toolbox)
        wrapped = toolbox.wrapped if isinstance(toolbox, MappedToolbox) else toolbox
        assert isinstance(wrapped, ReplicatedToolbox)  # noqa: S101 - `attach` gave it
        return wrapped.still()

    def meter(self, handle: EnvironmentHandle) -> Meter:
        """Count what comes home, and here all; see contracts.environment.Measuring."""
        if _is_local(handle):
            return self._host.meter(_as_host(handle))
        return HomeMeter(handle)

    async def end(self, handle: EnvironmentHandle) -> None:
        """Kill all of it and remove its folder there.

        Raises EnvironmentBroken, also while the host is away: somebody has to come again.
        """
        if _is_local(handle):
            await self._host.end(_as_host(handle))
            return
        directory = berth_directory(self._station, handle.environment_id)
        if handle.details.get("address") and is_own(self._station, handle):
            try:
                async with self._conversing(_address(handle)) as talk:
                    await _ended(talk, handle)
            except (EnvironmentUnavailable, UsageError) as error:
                raise EnvironmentBroken(
                    f"environment {handle.environment_id} cannot be ended: {error.message}",
                    hint=error.hint,
                ) from error
        remove_berth(directory)

    @asynccontextmanager
    async def _conversing(self, address: str) -> AsyncIterator[Conversation]:
        """Run our program there during the block, over a connection that works."""
        where, home = Address.parse(address), self._station.home
        host, way = where.host, where.command
        async with AsyncExitStack() as stack:
            try:
                shared = await stack.enter_async_context(pool().connection(address, home))
                talk = await stack.enter_async_context(conversing(shared, host, way=way))
            except EnvironmentBroken:  # it was made a while ago; nothing was asked yet
                await pool().drop(address, home)
                shared = await stack.enter_async_context(pool().connection(address, home))
                talk = await stack.enter_async_context(conversing(shared, host, way=way))
            yield talk

    def _refuse_mounts(self, spec: EnvironmentSpec) -> None:
        """Nothing of this machine is seen there; our own parts of the history are left out."""
        for mount in spec.mounts:
            if not any(mount.source.startswith(f"{place}/") for place in self._station.private):
                raise EnvironmentUnavailable(
                    f"ssh cannot show {mount.source}: it lies on this machine",
                    hint="take `--in process` or `--in container`, where places can be mounted",
                )


class _Line:
    """The way to one toolbox: a stream over the shared connection, as long as it is needed."""

    def __init__(self, handle: EnvironmentHandle, home: str) -> None:
        self._address = _address(handle)
        self._socket = str(handle.details["socket"])
        self._home = home
        self._lent = AsyncExitStack()

    async def dialled(self) -> ToolboxClient:
        """Return a new connection. Raises Gone, EnvironmentBroken, EnvironmentUnavailable."""
        await self.hung_up()
        host = Address.parse(self._address).host
        async with AsyncExitStack() as lent:
            shared = pool().connection(self._address, self._home)
            connection = await lent.enter_async_context(shared)
            try:
                client = await ToolboxClient.over(dial(connection, host, self._socket))
            except Gone:
                raise
            except EnvironmentBroken:
                await pool().drop(self._address, self._home)
                raise
            self._lent = lent.pop_all()
        return client

    async def hung_up(self) -> None:
        """Let go of the shared connection."""
        await self._lent.aclose()


async def _made(
    talk: Conversation, spec: EnvironmentSpec, environment_id: str
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Have a toolbox there, in what the host carries; return what is said and what is counted.

    Raises EnvironmentUnavailable.
    """
    where = Address.parse(spec.address)
    if spec.carries is None:
        own = {"options": bare_options(spec), "variables": bare_variables(spec)}
        made = await in_time(talk.ask("start", id=environment_id, bootstrap=BOOTSTRAP, **own))
        refuse_unanswered(where.host, made)
        return made, {}
    if spec.carries == ExecutionEnvironment.CONTAINER:
        return await _contained(talk, spec, environment_id), {}
    host = far_host(where, await talk.ask("look", id=environment_id, **ASKED))
    made = await in_time(talk.ask("start", id=environment_id, walls=walls_on(host, spec)))
    refuse_failed(host, made)
    return made, counted_on(host)


async def _contained(
    talk: Conversation, spec: EnvironmentSpec, environment_id: str
) -> Mapping[str, Any]:
    """Have a toolbox in a container there. Raises EnvironmentUnavailable."""
    where = Address.parse(spec.address)
    told = await talk.ask("look", id=environment_id, **looked_for(spec))
    host = far_engine(where, told, spec.image)
    asked, etc = container_on(host, spec, environment_id), etc_on(host, spec)
    engine = {"id": environment_id, "engine": host.socket}
    made = await in_time(talk.ask("create", config=asked.config, accounts=etc, **engine))
    require_as_asked(made.get("made"), asked)
    asked_for = {"is_podman": host.is_podman, "is_closed": not spec.workspace.is_writable}
    made = await in_time(talk.ask("run", variables=asked.variables, **asked_for, **engine))
    refuse_unstarted(host, made)
    return made


def _refuse_carrying(spec: EnvironmentSpec) -> None:
    """Nothing is put around what runs on this machine itself: that has kinds of its own."""
    if spec.carries:
        raise UsageError(
            f"`localhost` is this machine itself, which carries nothing: {spec.carries} works here",
            hint=f"take `--in {spec.carries}`, or add the host with `--transport ssh`",
        )


async def _ended(talk: Conversation, handle: EnvironmentHandle) -> None:
    await talk.prepare()
    answer = await talk.ask("end", id=handle.environment_id, **_known(handle))
    if answer.get("has_ended") is not True:
        raise EnvironmentBroken(
            f"environment {handle.environment_id} did not end in time", hint="try again"
        )


def _known(handle: EnvironmentHandle) -> Mapping[str, Any]:
    """Return which process it is, and since when that host runs."""
    known = {name: handle.details.get(name) for name in ("root", "boot")}
    is_contained = handle.details.get("carries") == ExecutionEnvironment.CONTAINER
    return {**known, "places": PLACES} if is_contained else known


def _address(handle: EnvironmentHandle) -> str:
    return str(handle.details["address"])


def _mapping(handle: EnvironmentHandle) -> PathMapping:
    return PathMapping(here=str(handle.details["target"]), there=handle.workspace_path)


def _is_local(handle: EnvironmentHandle) -> bool:
    return handle.details.get("is_local") is True


def _as_ssh(handle: EnvironmentHandle, spec: EnvironmentSpec) -> EnvironmentHandle:
    details = {**handle.details, "is_local": True, "target": spec.workspace.target}
    return replace(handle, kind=ExecutionEnvironment.SSH, details=details)


def _as_host(handle: EnvironmentHandle) -> EnvironmentHandle:
    return replace(handle, kind=ExecutionEnvironment.HOST)


__all__ = ["DEVIATIONS", "NEEDS_HOST", "TRIES", "SSHEnvironment"]
