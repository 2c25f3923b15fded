"""The seam to places where work happens: start one, find it again, end it."""

import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Readiness,
)

OnOutput = Callable[[str, str], None]  # stream name ("stdout" or "stderr"), text


class Toolbox(Protocol):
    """The engine's end of the wire to one running toolbox."""

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op` once under `call_id`; return its result (`success`, `message`, `error`, ...).

        A call_id the toolbox knows is attached to, never run again. Cancelling this coroutine
        leaves the call running; `cancel` ends it. Raises EnvironmentBroken when it is gone.
        """
        ...

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        """Wait for the result of an earlier call; None when the toolbox does not know it."""
        ...

    async def cancel(self, call_id: str) -> None:
        """Kill the call's whole process tree; its result then says CANCELLED."""
        ...

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        """Say that these results are journalled; the toolbox may drop them."""
        ...

    async def close(self) -> None:
        """Drop the connection; the toolbox lives on for its grace time."""
        ...


@runtime_checkable
class Listening(Protocol):
    """Extension: a toolbox that can open a loopback port inside for a gateway of the engine."""

    async def listen(self) -> tuple[int, socket.socket]:
        """Return the port as seen inside and the listening socket, now owned by the caller."""
        ...


@runtime_checkable
class Furnished(Protocol):
    """Extension: a kind that knows, without starting one, which programs its places show."""

    async def programs(self, checkout: str, *, image: str = "") -> Mapping[str, str]:
        """Return a mark for each interpreter and compiler that work at `checkout` would find.

        It changes when that program is another one: a new version, another place, another image.
        Raises EnvironmentUnavailable where nobody can say.
        """
        ...


@runtime_checkable
class Freezing(Protocol):
    """Extension: a kind that can keep all that runs in a place still for a moment."""

    def frozen(
        self, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> AbstractAsyncContextManager[bool]:
        """Let nothing run there during the block; what it yields says whether that holds.

        Whatever ends the block, and also the engine's death, lets it all go on.
        """
        ...


class Environment(Protocol):
    """One kind of place. The object is stateless: what runs is described by handles alone."""

    @property
    def kind(self) -> ExecutionEnvironment:
        """The kind this adapter starts."""
        ...

    async def check(self) -> Readiness:
        """Really start one, with a time limit; say whether it works and what cures it if not."""
        ...

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one with its toolbox. Raises EnvironmentUnavailable and leaves nothing then."""
        ...

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started environment. Raises EnvironmentBroken when it is gone."""
        ...

    async def end(self, handle: EnvironmentHandle) -> None:
        """End it with its whole process tree within 3 s. Idempotent; a lost one has ended."""
        ...


__all__ = ["Environment", "Freezing", "Furnished", "Listening", "OnOutput", "Toolbox"]
