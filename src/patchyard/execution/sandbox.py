"""CHORUS's ExecutionSandbox (C8, C9): commands and files in an environment of any kind."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from patchyard.assembly import environment_for
from patchyard.clients.clock import SystemClock
from patchyard.clients.removal import MountedInside
from patchyard.config import places
from patchyard.domain.environment import EnvironmentSpec, Mount
from patchyard.domain.errors import GuardRefused, Unavailable, UsageError, WorkFailed
from patchyard.domain.faults import Fault, unplaced
from patchyard.domain.network_settings import NetworkSettings
from patchyard.execution.arguments import (
    PATH,
    TEXT,
    require,
    require_each,
    require_variables,
)
from patchyard.execution.copying import CopyRefused, CopyResult, copy_in, copy_out
from patchyard.execution.executor import COMMAND_TIMEOUT_S, ToolExecutor
from patchyard.execution.outcomes import CommandResult, Outcome, failed
from patchyard.execution.place import Place, make_own_workspace, remove_own_workspace
from patchyard.execution.sandboxing import (
    SandboxConfig,
    bounds_of,
    kind_for,
    mount_word,
)
from patchyard.intake_mounts import checked_mounts
from patchyard.making import IN_CONTAINERS


@dataclass(frozen=True, kw_only=True)
class Command:
    """What is to be run."""

    line: str | tuple[str, ...]  # for the shell, or words that no shell reads
    cwd: str = "."  # from the workspace
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = COMMAND_TIMEOUT_S
    background: bool = False


@dataclass(frozen=True)
class Inside:
    """A path in the sandbox's workspace; what is not one is a path of this machine."""

    path: str = "."


class ExecutionSandbox:
    """One environment of any kind, and a workspace. An asynchronous context manager.

    A command that fails is a result. Raises UnknownName for a kind that this version has not,
    EnvironmentUnavailable where it cannot start, GuardRefused before `initialize`.
    """

    def __init__(self, config: SandboxConfig | None = None) -> None:
        if config is not None:
            require("the sandbox's configuration", config, (SandboxConfig,))
        self._config = config or SandboxConfig()
        self._place: Place | None = None
        self._tools: ToolExecutor | None = None
        self._own: Path | None = None

    async def initialize(self, config: SandboxConfig | None = None) -> None:
        """Start the environment; one that runs already stays. Leaves nothing when it cannot."""
        if self._place is not None:
            return
        if config is not None:
            require("the sandbox's configuration", config, (SandboxConfig,))
        self._config = config or self._config
        kind = kind_for(self._config)
        if kind in IN_CONTAINERS and not self._config.image:
            raise UsageError("a container needs an image", hint="say it in SandboxConfig(image=…)")
        if self._config.secrets or self._config.network != NetworkSettings():
            raise UsageError(
                "a sandbox alone has no gateway: `network` and `secrets` are for a task",
                hint="leave them out, or let `execute_task` have the sandbox",
            )
        environment = environment_for(kind, os.environ)
        place = Place(environment, self._spec(), new_id=SystemClock().new_id)
        try:
            await place.start()
        except BaseException:
            await place.close()
            self._discard()
            raise
        self._place, self._tools = place, ToolExecutor("sandbox", place)

    def _spec(self) -> EnvironmentSpec:
        config, mounts, limits = self._config, self._mounts(), bounds_of(self._config)
        path = os.path.abspath(config.workspace)  # noqa: PTH100 - links stay as they are named
        if not config.workspace:
            self._own = make_own_workspace()
            path = str(self._own)
        elif not Path(path).is_dir():
            raise UsageError(f"{path} is no folder", hint="make it, or leave the workspace out")
        return EnvironmentSpec(
            plan_id="",
            purpose="execute",
            image=config.image,
            address=config.address,
            workspace=Mount(source=path, target=path, is_writable=config.is_writable),
            variables=config.variables,
            limits=limits,
            mounts=mounts,
        )

    def _mounts(self) -> tuple[Mount, ...]:
        """Return the further places, checked as `--mount` is. Raises UsageError."""
        words = [mount_word(mount) for mount in self._config.mounts]
        workspace = os.path.realpath(self._config.workspace or places(os.environ).home)
        try:
            checked = checked_mounts(words, os.environ, workspace)
        except Fault as fault:
            raise unplaced(fault, f"SandboxConfig: {fault.message}") from fault
        parts = (word.rpartition(":") for word in checked)
        return tuple(
            Mount(source=path, target=path, is_writable=mode == "rw") for path, _, mode in parts
        )

    @property
    def workspace_path(self) -> str:
        """Where the workspace lies, inside and on this machine. Raises GuardRefused."""
        return self._ready[0].spec.workspace.source

    @property
    def tools(self) -> ToolExecutor:
        """The nine operations on the same workspace. Raises GuardRefused."""
        return self._ready[1]

    @property
    def _ready(self) -> tuple[Place, ToolExecutor]:
        if self._place is None or self._tools is None:
            raise GuardRefused("the sandbox is not initialized", hint="`await initialize()` first")
        return self._place, self._tools

    async def execute_command(self, command: Command | str) -> CommandResult:
        """Run a command; a line is the shell's, words are none's. Raises UsageError for others."""
        require("a command", command, (str, Command))
        wanted = Command(line=command) if isinstance(command, str) else command
        require("Command.line", wanted.line, (str, tuple, list))
        require_each("Command.line", wanted.line, TEXT)
        require_variables("Command.env", wanted.env)
        line = wanted.line if isinstance(wanted.line, str) else shlex.join(wanted.line)
        return await self.tools.execute_command(
            line,
            cwd=wanted.cwd,
            env=wanted.env,
            timeout_s=wanted.timeout_s,
            background=wanted.background,
        )

    async def copy_files(
        self, source: "str | os.PathLike[str] | Inside", dest: "str | os.PathLike[str] | Inside"
    ) -> CopyResult:
        """Copy a file to `dest`, or what is in a folder to below it; one of both is `Inside`.

        Links and special files are left out and named. Raises UsageError for any other pair.
        """
        place = self._ready[0]
        for name, value in (("source", source), ("dest", dest)):
            require(name, value, (*PATH, Inside))
            if isinstance(value, Inside):
                require(f"Inside of {name}", value.path, TEXT)
        try:
            if isinstance(dest, Inside) and not isinstance(source, Inside):
                return await copy_in(place.call, Path(source), dest.path)
            if isinstance(source, Inside) and not isinstance(dest, Inside):
                return await copy_out(place.call, source.path, Path(dest))
        except CopyRefused as error:
            return CopyResult(message=f"Failed to copy: {error.message}", error=error.said)
        except (Unavailable, WorkFailed, OSError) as error:
            return failed(CopyResult, "copy", error)
        raise UsageError(
            "one of source and destination must be in the sandbox, the other outside",
            hint='name the one inside by Inside("path")',
        )

    async def cleanup(self) -> Outcome:
        """End the environment and delete a workspace of its own; called again it does nothing."""
        if self._tools is not None:
            closed = await self._tools.close()
            if not closed.success:
                return closed
        self._place = self._tools = None
        return self._discard()

    def _discard(self) -> Outcome:
        try:
            if self._own is not None:
                remove_own_workspace(self._own)
        except (MountedInside, OSError) as error:
            return failed(Outcome, "clean up", error)
        self._own = None
        return Outcome(success=True, message="cleaned up")

    async def __aenter__(self) -> Self:
        """Initialize it and return it."""
        await self.initialize()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clean up."""
        await self.cleanup()


__all__ = ["Command", "ExecutionSandbox", "Inside"]
