"""The `host` kind: the toolbox without walls, in a session of its own, as the agent's user."""

import asyncio
import contextlib
import os
import shlex
import stat
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
    read_said,
    remove_berth,
    serving,
    to_details,
    try_out,
)
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.freezing import frozen
from patchyard.clients.holding import CHECKED, NOTHING, held_by, unheld
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.metering import LocalMeter
from patchyard.clients.ownership import require_owner
from patchyard.clients.process import ProcessRef, kill_tree, tasks_of
from patchyard.clients.rlimits import resource_limits
from patchyard.clients.vitals import health_of
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
from patchyard.toolbox.last_words import last_words
from patchyard.toolbox.spawning import spawn_detached

START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 3.0  # the design's bound for ending a tree
KEPT_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")


class HostEnvironment:
    """Unconfined environments of this machine. Stateless."""

    kind = ExecutionEnvironment.HOST

    def __init__(self, station: Station) -> None:
        self._station = station

    async def check(self) -> Readiness:
        """Start one on an empty folder and end it; say how far it reaches."""
        return await try_out(self.kind, self._try_out())

    async def _try_out(self) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(prefix="patchyard-check-") as folder:
            workspace = Mount(source=folder, target=folder)
            spec = EnvironmentSpec(plan_id="", purpose="check", workspace=workspace, limits=CHECKED)
            identity = agent_of(spec, self._station)
            os.chown(folder, identity.uid, identity.gid)
            handle = await self.start(spec)
            held = held_by(group_of(handle), in_memory=NOTHING, network=NOTHING)
            await self.end(handle)
        return {"confined": False, "visible": _reach(identity), "limits": held}

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one in the workspace's own folder; `spec.workspace.target` plays no part.

        That of `spec.is_owners` runs as the folder's owner, and starts no command.
        """
        agent = agent_of(spec, self._station)
        identity = require_owner(spec.workspace.source, agent) if spec.is_owners else agent
        _refuse_mounts(spec, self.kind)
        _refuse_closed(spec.workspace.source, identity)
        environment_id = self._station.new_id()
        with contextlib.ExitStack() as undo:
            berth = Berth(self._station, environment_id, plan_id=spec.plan_id)
            undo.callback(berth.discard)
            home = self._make_home(environment_id, identity)
            undo.callback(_remove_home, home)
            likely = list(cgroups.own_places(environment_id))  # it may be killed in between
            berth.handle(self.kind, spec.workspace.source, {"home": home, "group": likely})
            group = cgroups.own_group(environment_id, spec.limits)
            undo.callback(cgroups.remove_group, group)
            berth.handle(self.kind, spec.workspace.source, {"home": home, "group": list(group)})
            root = await self._run(spec, identity, berth, home or self._station.home, group)
            undo.pop_all()
        details = {
            "root": to_details(root),
            "home": home,
            "group": list(group),
            "unheld": list(unheld(spec.limits, group, has_gateways=False)),
        }
        return berth.handle(self.kind, spec.workspace.source, details)

    async def _run(
        self,
        spec: EnvironmentSpec,
        identity: AgentIdentity,
        berth: Berth,
        home: str,
        group: tuple[str, ...],
    ) -> ProcessRef:
        mark = f"{MARK}={berth.directory.name}"
        variables = self._variables(spec, identity, home) | {MARK: berth.directory.name}
        command = [*self._toolbox_command(spec, identity, group), mark]  # no environment is shown
        root: ProcessRef | None = None
        with contextlib.ExitStack() as stack:
            said = Pipe(stack)
            pid = spawn_detached(
                command,
                env=variables,
                descriptors={LISTEN_FD: berth.listener.fileno(), 2: said.writing},
            )
            root = identify_started(pid)
            said.close_writing()
            berth.close_listener()
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    joining = asyncio.to_thread(cgroups.join_group, group, root.pid)
                    await asyncio.gather(joining, first_contact(berth.path, variables))
            except BaseException as error:
                kill_tree(root, marker=mark, timeout_s=END_TIMEOUT_S)
                if not isinstance(error, (EnvironmentBroken, OSError, TimeoutError)):
                    raise
                silent = f"it did not answer within {START_TIMEOUT_S:g} s; the machine is busy"
                words = last_words(read_said(said.reading))
                kind = EnvironmentUnavailable if isinstance(error, TimeoutError) else StartBroken
                raise kind(
                    f"the toolbox did not start: {words or silent}",
                    hint="`agents doctor` shows what works here",
                ) from error
        return root

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started one. Raises EnvironmentBroken when it is gone."""
        require_own(self._station, handle)
        cgroups.thaw(group_of(handle))  # an engine that froze it may have died
        return await connect(self._station, handle, "root")

    def frozen(
        self, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> AbstractAsyncContextManager[bool]:
        """Keep it still; see contracts.environment.Freezing."""
        return frozen(handle, "root", toolbox)

    def meter(self, handle: EnvironmentHandle) -> Meter:
        """Count what it uses; see contracts.environment.Measuring."""
        return LocalMeter(handle, "root")

    async def health(self, handle: EnvironmentHandle) -> Health:
        """Return how it is; see contracts.environment.Metering."""
        return await health_of(self._station, handle, "root")

    async def end(self, handle: EnvironmentHandle) -> None:
        """Kill every process of it, also what left its session. Raises EnvironmentBroken."""
        directory = berth_directory(self._station, handle.environment_id)
        if not is_own(self._station, handle):
            remove_berth(directory)
            return
        if not await asyncio.to_thread(_kill, handle):
            raise EnvironmentBroken(
                f"environment {handle.environment_id} did not end in time", hint="try again"
            )
        await asyncio.to_thread(cgroups.remove_group, group_of(handle))
        home = str(handle.details.get("home"))
        if Path(home).name.startswith(f"patchyard-{handle.environment_id}-"):
            _remove_home(home)
        remove_berth(directory)

    def _make_home(self, environment_id: str, identity: AgentIdentity) -> str | None:
        """Make a home for an agent that is not the engine's user; None: the user's own."""
        if not identity.is_switched:
            return None
        home = tempfile.mkdtemp(prefix=f"patchyard-{environment_id}-")
        os.chown(home, identity.uid, identity.gid)
        return home

    def _toolbox(self, identity: AgentIdentity) -> str:
        """Return the folder of the toolbox's code: root's own, which the agent can read."""
        shelf = self._station.prepare()
        if identity.is_switched:
            shelf = self._station.public
        return str(compiled_toolbox(shelf, toolbox_interpreter().path))

    def _toolbox_command(
        self,
        spec: EnvironmentSpec,
        identity: AgentIdentity,
        group: tuple[str, ...],
    ) -> list[str]:
        bounds_processes = not cgroups.is_bounding(group, "pids")
        limits = resource_limits(
            spec.limits,
            bounds_memory=not cgroups.is_bounding(group, "memory"),
            bounds_processes=bounds_processes,
            others=tasks_of(identity.uid) if bounds_processes else 0,
            is_watched=True,
        )
        return serving(
            spec,
            identity,
            code=self._toolbox(identity),
            workspace=spec.workspace.source,
            rlimits=limits,
        )

    def _variables(
        self, spec: EnvironmentSpec, identity: AgentIdentity, home: str
    ) -> dict[str, str]:
        """Return a clean environment: nothing of the engine's but PATH and the locale."""
        wanted = (*spec.path, *self._station.search_path.split(":"))
        path = [p for p in dict.fromkeys(wanted) if p and _closed_folder(p, identity) is None]
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        return {
            "LC_CTYPE": "C.UTF-8",  # not LANG: loading its other categories costs a shell 0.2 ms
            **kept,
            "PATH": ":".join(path) or os.defpath,
            "HOME": home,
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": "/bin/sh",
            **spec.variables,
        }


def _kill(handle: EnvironmentHandle) -> bool:
    """Kill the tree, and who has left it but not the control group; False if somebody stays."""
    group = group_of(handle)
    cgroups.thaw(group)
    has_ended = kill_tree(
        from_details(handle, "root"),
        marker=f"{MARK}={handle.environment_id}",
        timeout_s=END_TIMEOUT_S,
    )
    return cgroups.kill_group(group, timeout_s=END_TIMEOUT_S) and has_ended


def _reach(identity: AgentIdentity) -> list[dict[str, str]]:
    """Return rows as walls have them: here there are none, and plans share one user."""
    whose = f"UID {identity.uid}" if identity.is_switched else "your own user"
    rows = {
        "/": f"no walls: whatever {whose} may read, write and reach",
        "/proc": f"processes and workspaces of other plans too: they are of {whose} as well",
    }
    return [{"path": path, "access": access, "source": ""} for path, access in rows.items()]


def _refuse_mounts(spec: EnvironmentSpec, kind: ExecutionEnvironment) -> None:
    """Without walls a place has one path; only what lies where it is wanted can be had."""
    moved = [mount for mount in spec.mounts if mount.source != mount.target]
    if moved:
        raise EnvironmentUnavailable(
            f"{kind} cannot show {moved[0].source} at {moved[0].target}",
            hint="take `--in process`, where places can be mounted",
        )


def _refuse_closed(workspace: str, identity: AgentIdentity) -> None:
    closed = _closed_folder(workspace, identity)
    if closed is None:
        return
    elsewhere = (
        "set PATCHYARD_HOME to a folder below one that all may pass, such as "
        "/var/lib/patchyard; or take `--in process`"
    )
    quoted = shlex.quote(closed)
    try:
        owner = Path(closed).stat().st_uid
    except OSError as error:
        whose, hint = f", which cannot be looked at ({error.strerror})", elsewhere
    else:
        whose = f", which belongs to UID {owner}{'' if owner else ' (root)'}"
        hint = f"{elsewhere}; or let that user pass: `chmod o+x {quoted}`"
        if closed == os.path.realpath(workspace):
            hint = f"give it to that user: `chown -hR {identity.uid} {quoted}`; or {elsewhere}"
    raise EnvironmentUnavailable(
        f"the user of the call (UID {identity.uid}) cannot pass through {closed}{whose}", hint=hint
    )


def _closed_folder(path: str, identity: AgentIdentity) -> str | None:
    """Return the first folder on the way to `path` and itself that the agent cannot enter."""
    if not identity.is_switched:
        return None
    real = Path(os.path.realpath(path))
    for folder in (*reversed(real.parents), real):
        try:
            facts = folder.stat()
        except OSError:
            return str(folder)
        is_owner, is_group = facts.st_uid == identity.uid, facts.st_gid == identity.gid
        needed = stat.S_IXUSR if is_owner else stat.S_IXGRP if is_group else stat.S_IXOTH
        if not facts.st_mode & needed:
            return str(folder)
    return None


def _remove_home(home: str | None) -> None:
    if home:
        remove_berth(Path(home))


__all__ = ["KEPT_VARIABLES", "HostEnvironment"]
