"""How a toolbox on a host that is reached over SSH is walled in there, as `process` is here.

The host says what lies on it; the view and bubblewrap's words are made of that by the same code as
on this machine, and sent there. Nothing is done without walls where they cannot be had.
"""

import base64
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from patchyard.clients.berths import LISTEN_FD
from patchyard.clients.bubblewrap import (
    INFO_FD,
    INFO_READER_FD,
    KNOWN_PLACES,
    Bubblewrap,
    bubblewrap_of,
    plan,
)
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import SYSTEM_PYTHON, Interpreter, choose_interpreter
from patchyard.clients.obstacles import MARKS, TEXTS, Obstacles, diagnose, read_obstacles
from patchyard.clients.rlimits import resource_limits
from patchyard.clients.ssh import one_line
from patchyard.clients.toolbox_options import ToolboxOptions, toolbox_command
from patchyard.clients.toolchains import Toolchains
from patchyard.clients.walls import (
    TOOLBOX_PLACE,
    WANTED,
    Machine,
    View,
    build_view,
    surveyed,
)
from patchyard.domain.address import Address
from patchyard.domain.environment import EnvironmentSpec
from patchyard.domain.errors import EnvironmentUnavailable, StartBroken

ASKED: Mapping[str, Any] = {
    "wanted": dict(WANTED),
    "bubblewrap": KNOWN_PLACES,
    "python": SYSTEM_PYTHON,
    "texts": TEXTS,
    "marks": MARKS,
}
"""What a host is asked about itself."""

CLOSED = f"{TOOLBOX_PLACE}/closed"
REPLICA = f"{CLOSED}/replica"
"""Where a workspace that is read-only can be written to, by the toolbox alone: it opens the folder
before it gives up the right to pass through the closed one above it."""
PASSING = ("CAP_DAC_READ_SEARCH", "CAP_SETPCAP")  # the latter to give up both for good
NONSENSE = (AttributeError, LookupError, OverflowError, TypeError, ValueError)
"""What comes of reading an answer of another shape."""
VARIABLES = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True, kw_only=True)
class FarHost:
    """What a host said of itself, as far as walls there are concerned."""

    where: Address  # as its resource names it
    machine: Machine
    bubblewrap: Bubblewrap
    identity: AgentIdentity  # of the agent there
    folder: str  # of the environment, there
    obstacles: Obstacles
    has_groups: bool = False  # whether a control group can count the processes of one place

    @property
    def workspace(self) -> str:
        """The replica."""
        return f"{self.folder}/workspace"


@contextmanager
def hearing(where: Address) -> Iterator[None]:
    """Read what the host at `where` said. Raises EnvironmentUnavailable for what cannot be."""
    try:
        yield
    except NONSENSE as error:
        raise EnvironmentUnavailable(
            f"{where.host} says of itself what cannot be: {one_line(error)}",
            hint=f"look there: `{where.command}`",
        ) from error


def far_host(where: Address, said: Mapping[str, Any]) -> FarHost:
    """Return what the host at `where` said. Raises EnvironmentUnavailable where it cannot carry."""
    with hearing(where):
        try:
            return _read(where, said)
        except EnvironmentUnavailable as error:
            raise EnvironmentUnavailable(
                f"{where.host} cannot carry `process`: {error.message}",
                hint=f"on that host: {error.hint}"
                if error.hint
                else f"look there: `{where.command}`",
            ) from error


def _read(where: Address, said: Mapping[str, Any]) -> FarHost:
    if said["machine"] != platform.machine():  # the filter's numbers are this machine's
        raise EnvironmentUnavailable(
            f"it is {one_line(said['machine'])}, and the filter of system calls is made for"
            f" {platform.machine()} here",
            hint="take a host with a processor like this machine's",
        )
    path, answer = map(str, said["bubblewrap"])
    texts = {str(place): str(text) for place, text in said["texts"].items()}
    return FarHost(
        where=where,
        machine=surveyed(
            said["survey"], toolbox=f"{said['code']}/toolbox", interpreter=_interpreter(said)
        ),
        bubblewrap=bubblewrap_of(path, answer),
        identity=identity_of(said),
        folder=str(said["folder"]),
        has_groups=said.get("has_groups") is True,
        obstacles=read_obstacles(
            lambda place: texts.get(place, ""),
            exists=lambda place: place in said["present"],
            is_root=int(said["ids"][0]) == 0,
        ),
    )


def identity_of(said: Mapping[str, Any]) -> AgentIdentity:
    """Return who the agent is on a host that said this."""
    uid, gid = map(int, said["ids"])
    agent = said["agent"]
    if agent is None:
        return AgentIdentity(uid=uid, gid=gid, is_switched=False)
    return AgentIdentity(uid=int(agent), gid=int(agent), is_switched=True)


def _interpreter(said: Mapping[str, Any]) -> Interpreter:
    """Return the Python there. Raises EnvironmentUnavailable for one among somebody's own files."""
    resolved, executable, prefix = map(str, said["python"])
    found = choose_interpreter(
        resolve=lambda path: resolved if path == SYSTEM_PYTHON else path,
        executable=executable,
        prefix=prefix,
    )
    if found.mounts:
        raise EnvironmentUnavailable(
            f"the Python for the toolbox lies in {prefix}, which is not shown",
            hint="install Python 3.8 or newer as /usr/bin/python3",
        )
    return found


def view_on(host: FarHost, spec: EnvironmentSpec) -> View:
    """Return what `spec` shows there: of the user's own files nothing, toolchains neither."""
    workspace = replace(spec.workspace, source=host.workspace)
    return build_view(
        replace(spec, workspace=workspace, mounts=()),
        identity=host.identity,
        machine=host.machine,
        toolchains=Toolchains(),
    )


def walls_on(host: FarHost, spec: EnvironmentSpec) -> Mapping[str, Any]:
    """Return what the host starts a toolbox with, in its own walls. As JSON has it."""
    is_writable = spec.workspace.is_writable
    view = view_on(host, spec)
    planned = plan(
        view,
        toolbox_command(host.machine.interpreter.path, TOOLBOX_PLACE, _options(host, spec)),
        bubblewrap=host.bubblewrap,
        is_root=host.identity.is_switched,
        options=() if is_writable else _closed(host),
    )
    encoded = {
        number: base64.b64encode(content).decode("ascii")
        for number, content in planned.contents.items()
    }
    return {
        "argv": planned.argv,
        "contents": encoded,
        "files": planned.files,
        "report": [INFO_FD, INFO_READER_FD],
        "env": VARIABLES,
        "variables": view.variables,
        "processes": spec.limits.processes if host.has_groups else None,
    }


def counted_on(host: FarHost) -> Mapping[str, str]:
    """Return what stands for a limit there, where that is not what the limit is named after."""
    if host.has_groups or not host.identity.is_switched:
        return {}
    own = f"of all that runs on {host.where.host} as user {host.identity.uid}, in other places too"
    return {"processes": own}


def _options(host: FarHost, spec: EnvironmentSpec) -> ToolboxOptions:
    identity = host.identity
    return ToolboxOptions(
        listen_fd=LISTEN_FD,
        workspace=spec.workspace.target,
        uid=identity.uid if identity.is_switched else None,
        gid=identity.gid if identity.is_switched else None,
        grace_s=spec.orphan_grace_s,
        output_bytes=spec.limits.output_bytes,
        rlimits=resource_limits(
            spec.limits, bounds_memory=True, bounds_processes=not host.has_groups
        ),
        is_read_only=not spec.workspace.is_writable,
        replica="" if spec.workspace.is_writable else REPLICA,
    )


def _closed(host: FarHost) -> tuple[str, ...]:
    """Return words for a second, writable place of the workspace that the agent cannot pass to."""
    if host.identity.is_switched:  # root passes as the folder's owner, until it is the agent
        return ("--perms", "0700", "--dir", CLOSED, "--bind", host.workspace, REPLICA)
    return (
        *(word for capability in PASSING for word in ("--cap-add", capability)),
        *("--perms", "0000", "--dir", CLOSED, "--bind", host.workspace, REPLICA),
    )


def refuse_failed(host: FarHost, made: Mapping[str, Any]) -> None:
    """Raise EnvironmentUnavailable, with cause and cure, where the host says that it failed."""
    if "failed" not in made:
        return
    said = str(made.get("said") or "")
    if said:
        diagnosis = diagnose(said, host.obstacles)
        kind = StartBroken if diagnosis.has_broken else EnvironmentUnavailable
        raise kind(
            f"{host.where.host} cannot carry `process`: {one_line(diagnosis.cause)}",
            hint=f"on that host: {diagnosis.cure}",
        )
    raise EnvironmentUnavailable(
        f"{host.where.host} cannot carry `process`, its kernel shows less walls than asked:"
        f" {one_line(made['failed'])}",
        hint=f"look there what keeps bubblewrap from its work: `{host.where.command}`",
    )


__all__ = [
    "ASKED",
    "CLOSED",
    "NONSENSE",
    "REPLICA",
    "FarHost",
    "counted_on",
    "far_host",
    "hearing",
    "identity_of",
    "refuse_failed",
    "view_on",
    "walls_on",
]
