"""The engine's side of a local environment: a private folder, its socket, and who waits there.

Knows neither walls nor kinds.
"""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchyard.clients.boot import boot_id
from patchyard.clients.identity import AgentIdentity, agent_identity
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.process import ProcessRef, identify
from patchyard.clients.removal import remove_tree
from patchyard.clients.toolbox import ToolboxClient, bind_listener
from patchyard.clients.toolbox_options import ToolboxOptions, toolbox_command
from patchyard.domain.codec import in_full
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Readiness,
)
from patchyard.domain.errors import (
    EnvironmentBroken,
    EnvironmentUnavailable,
    JournalBroken,
    PatchyardError,
    UsageError,
)
from patchyard.domain.ids import is_ulid
from patchyard.domain.machine import refusal_of
from patchyard.domain.meanings import restored
from patchyard.toolbox.walled import filter_missing
from patchyard.toolbox.wire import loaded

LISTEN_FD = 3  # where a toolbox finds its listening socket
SAID_BYTES = 16 * 1024
SAID_PIECES = 64  # that are read of them; a pipe holds 1 MiB at most
NOTE = "handle.json"  # in an environment's folder
ADOPTED = "adopted.json"  # the same, of the plan that it was given to
FOLDER = "folder"  # detail of a handle: which folder it was started in, by `identify_folder`
MARK = "PATCHYARD_ENVIRONMENT"
"""Variable that names an environment to its processes, so that what left its tree is found."""
CHILD_PID = re.compile(rb'"child-pid":\s*(\d+)\D')


@dataclass(frozen=True, kw_only=True)
class Station:
    """Where the environments of one engine are kept and named, and whose machine it is."""

    runtime: Path  # a folder of the engine's, made 0700; no environment ever sees it
    new_id: Callable[[], str]  # ULIDs
    search_path: str = ""  # the user's PATH
    home: str = "/"  # the user's home
    private: tuple[str, ...] = ()  # the engine's own state, never shown
    shelf: Path | None = None  # compiled copies of the toolbox; None: in the runtime folder
    public: Path = Path("/run/patchyard")  # root's, open to all: code for an agent on `host`
    machine_image: str = ""  # folder of virtual machines whose resource names none; empty: `/`
    agent_uid: int | None = None  # configured; None: the rule of `identity`

    def prepare(self) -> Path:
        """Make the folder of the environments, closed to others; return that of the copies."""
        self.runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.shelf or self.runtime / "toolbox"


class Noted:
    """One environment's folder, from its start on; it holds how to find the environment again."""

    def __init__(
        self, station: Station, environment_id: str, *, plan_id: str, resource: str = ""
    ) -> None:
        self.plan_id = plan_id
        self.resource = resource  # name of the linked one; empty: it needs none
        self.directory = berth_directory(station, environment_id)
        station.prepare()
        self.directory.mkdir(mode=0o700)

    def handle(
        self, kind: ExecutionEnvironment, workspace_path: str, details: Mapping[str, Any]
    ) -> EnvironmentHandle:
        """Return how to find what was started here; `details` are the kind's own.

        It is noted in the folder too: an engine killed before it could journal it leaves a trace.
        """
        handle = EnvironmentHandle(
            environment_id=self.directory.name,
            kind=kind,
            workspace_path=workspace_path,
            details={"boot": boot_id(), FOLDER: identify_folder(self.directory), **details},
            resource=self.resource,
        )
        write_note(self.directory, handle, plan_id=self.plan_id)
        return handle

    def discard(self) -> None:
        """Remove the folder."""
        remove_berth(self.directory)


class Berth(Noted):
    """One local environment's folder while it starts, with the socket it is reached through."""

    def __init__(
        self, station: Station, environment_id: str, *, plan_id: str, resource: str = ""
    ) -> None:
        super().__init__(station, environment_id, plan_id=plan_id, resource=resource)
        self.listener, self.path = bind_listener(self.directory)

    def handle(
        self, kind: ExecutionEnvironment, workspace_path: str, details: Mapping[str, Any]
    ) -> EnvironmentHandle:
        """Return how to find what was started here, and note it."""
        return super().handle(kind, workspace_path, {"socket": self.path.name, **details})

    def close_listener(self) -> None:
        """Let go of the listening socket: from now on only the toolbox holds it."""
        self.listener.close()

    def discard(self) -> None:
        """Remove the folder."""
        self.listener.close()
        super().discard()


def identify_folder(directory: Path) -> Mapping[str, str | int]:
    """Return which folder it is, as no copy of it shares. Raises FileNotFoundError."""
    status = directory.stat()
    return {"boot": boot_id(), "device": status.st_dev, "inode": status.st_ino}


def write_note(directory: Path, handle: EnvironmentHandle, *, plan_id: str) -> None:
    """Note in an environment's folder how it is found, and whose it is."""
    made = directory / f".{NOTE}"
    made.write_bytes(_note(handle, plan_id))
    made.replace(directory / NOTE)


def write_adoption(directory: Path, handle: EnvironmentHandle, *, plan_id: str) -> None:
    """Note whose it is from now on. The first note stays: it counts until this one is whole.

    A file of its own, as a disk makes a name wait that is taken from another file.
    """
    (directory / ADOPTED).write_bytes(_note(handle, plan_id))


def read_note(directory: Path) -> tuple[str, EnvironmentHandle] | None:
    """Return whose an environment is and how it is found; None: no note there is whole."""
    for name in (ADOPTED, NOTE):
        with contextlib.suppress(FileNotFoundError, JournalBroken, KeyError, TypeError, ValueError):
            note = loaded((directory / name).read_bytes())
            return str(note["plan_id"]), restored(EnvironmentHandle, note["handle"])
    return None


def _note(handle: EnvironmentHandle, plan_id: str) -> bytes:
    return json.dumps({"plan_id": plan_id, "handle": in_full(handle)}).encode()


def berth_directory(station: Station, environment_id: str) -> Path:
    """Return the folder of an environment. Raises UsageError for what is no name of one."""
    if not is_ulid(environment_id):
        raise UsageError(f"{environment_id!r} is no name of an environment")
    return station.runtime / environment_id


def remove_berth(directory: Path) -> None:
    """Remove an environment's folder, if it is there."""
    remove_tree(directory)


async def first_contact(path: Path, variables: Mapping[str, str]) -> Mapping[str, Any]:
    """Wait until the toolbox behind `path` answers, and has the variables of its commands.

    Returns its hello. Raises EnvironmentBroken. How long it is waited for is the caller's to say: a
    machine that is busy starts programs slowly.
    """
    client = await ToolboxClient.connect(path, variables=variables, is_bounded=False)
    await client.close()
    return client.hello


def require_filtered(hello: Mapping[str, Any], place: str) -> None:
    """Raise EnvironmentUnavailable where the system call filter does not refuse what it has to.

    `hello` is the toolbox's: it tried before it served, so before anything else ran in `place`.
    """
    weaker = filter_missing(hello.get("walls") or {})
    if weaker:
        raise EnvironmentUnavailable(
            f"{place} has less walls than asked: {', '.join(weaker)}",
            hint="look what keeps system call filters (seccomp) from their work on this machine; no"
            " call was sent there",
        )


async def read_child_pid(descriptor: int) -> int:
    """Read bubblewrap's report up to its child's PID. Raises EnvironmentBroken without one."""
    said = b""
    with _reopened(descriptor) as own:
        while not (found := CHILD_PID.search(said)):
            await _until_readable(own)
            with contextlib.suppress(BlockingIOError):  # another reader was quicker
                piece = os.read(own, 4096)
                if not piece:
                    raise EnvironmentBroken("bubblewrap ended before the toolbox ran")
                said += piece
    return int(found[1])


@contextlib.contextmanager
def _reopened(descriptor: int) -> Iterator[int]:
    """Open a pipe's reading end once more: only this process can then let a read wait or not.

    What was started holds the other one, too, and could change it and read from it.
    """
    own = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield own
    finally:
        os.close(own)


async def _until_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def read_said(descriptor: int) -> str:
    """Return the last of what a program that has ended left in its error pipe."""
    said = b""
    with _reopened(descriptor) as own, contextlib.suppress(BlockingIOError):
        for _ in range(SAID_PIECES):  # what it started may go on writing
            piece = os.read(own, SAID_BYTES)
            if not piece:
                break
            said = (said + piece)[-SAID_BYTES:]
    return said.decode("utf-8", "replace").strip()


def to_details(process: ProcessRef | None) -> dict[str, int] | None:
    """Return a process as it is journalled."""
    return None if process is None else {"pid": process.pid, "started": process.started}


def from_details(handle: EnvironmentHandle, name: str) -> ProcessRef | None:
    """Return the process of that name in the handle; None when it cannot be alive any more."""
    found: Any = handle.details.get(name)
    if handle.details.get("boot") != boot_id() or not isinstance(found, Mapping):
        return None
    return ProcessRef(pid=int(found["pid"]), started=int(found["started"]))


def group_of(handle: EnvironmentHandle) -> tuple[str, ...]:
    """Return the control group that it runs in; () where there is none."""
    return tuple(str(place) for place in handle.details.get("group", ()))


async def connect(station: Station, handle: EnvironmentHandle, process: str) -> ToolboxClient:
    """Connect to the toolbox of a handle. Raises EnvironmentBroken when it is gone."""
    reference = from_details(handle, process)
    if reference is None or not reference.is_alive:
        raise EnvironmentBroken(f"the {handle.kind} environment has ended")
    directory = berth_directory(station, handle.environment_id)
    return await ToolboxClient.connect(directory / Path(str(handle.details["socket"])).name)


def identify_started(pid: int) -> ProcessRef:
    """Return the reference to a process just started. Raises EnvironmentBroken when it is gone."""
    reference = identify(pid)
    if reference is None:
        raise EnvironmentBroken("it ended as soon as it was started")
    return reference


def agent_of(
    spec: EnvironmentSpec, station: Station, *, checkout_owner: int | None = None
) -> AgentIdentity:
    """Return who the agent of `spec` is. Raises EnvironmentUnavailable when it may be nobody."""
    identity = agent_identity(
        checkout_owner=checkout_owner, configured=spec.agent_uid or station.agent_uid
    )
    if identity.is_switched and spec.agent_gid:
        return replace(identity, gid=spec.agent_gid)
    return identity


def serving(
    spec: EnvironmentSpec,
    identity: AgentIdentity,
    *,
    code: str,
    workspace: str,
    rlimits: Mapping[str, int],
) -> list[str]:
    """Return the command of the toolbox of `spec`; `code` and `workspace` as it sees them."""
    options = ToolboxOptions(
        listen_fd=LISTEN_FD,
        workspace=workspace,
        uid=identity.uid if identity.is_switched else None,
        gid=identity.gid if identity.is_switched else None,
        grace_s=spec.orphan_grace_s,
        output_bytes=spec.limits.output_bytes,
        rlimits=rlimits,
        is_read_only=not spec.workspace.is_writable,
        has_files_alone=spec.is_owners,
    )
    return toolbox_command(toolbox_interpreter().path, code, options)


async def try_out(kind: ExecutionEnvironment, attempt: Awaitable[Mapping[str, Any]]) -> Readiness:
    """Return whether a kind starts: `attempt` starts one, ends it and gives facts, or fails."""
    try:
        facts = await attempt
    except (PatchyardError, OSError) as error:
        found = refusal_of(error)
        return Readiness(kind=kind, is_ready=False, cause=found.message, cure=found.hint)
    return Readiness(kind=kind, is_ready=True, facts=facts)


class Pipe:
    """A pipe to the engine; its ends are closed with the stack, or earlier."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.reading, self.writing = os.pipe2(os.O_CLOEXEC)
        stack.callback(self.close)
        self._open = {self.reading, self.writing}

    def close_writing(self) -> None:
        """Leave the writing end to the programs that were started with it."""
        self._close(self.writing)

    def close(self) -> None:
        """Close what is open."""
        self._close(self.reading)
        self._close(self.writing)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


__all__ = [
    "ADOPTED",
    "FOLDER",
    "LISTEN_FD",
    "MARK",
    "NOTE",
    "Berth",
    "Noted",
    "Pipe",
    "Station",
    "agent_of",
    "berth_directory",
    "connect",
    "first_contact",
    "from_details",
    "group_of",
    "identify_folder",
    "identify_started",
    "read_child_pid",
    "read_note",
    "read_said",
    "remove_berth",
    "require_filtered",
    "serving",
    "to_details",
    "try_out",
    "write_adoption",
    "write_note",
]
