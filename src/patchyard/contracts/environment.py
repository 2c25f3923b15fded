"""The seam to places where work happens: start one, find it again, end it."""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from patchyard.domain.devcontainer import Build, Devcontainer
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
    Mount,
    Readiness,
)
from patchyard.domain.usage import Health, Reading

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
class Leaving(Protocol):
    """Extension: a toolbox whose workspace is a copy, of which not all comes home."""

    @property
    def left_out(self) -> Sequence[tuple[str, str]]:
        """The paths that stay there, or parts of them, as last seen; and why."""
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
class Building(Protocol):
    """Extension: a kind whose images are built of a repository's own files."""

    async def has_image(self, image: str) -> bool:
        """Whether the image is there. Raises EnvironmentUnavailable where nobody can say."""
        ...

    async def build(
        self,
        image: str,
        build: Build,
        archive: Path,
        *,
        resource: str,
        limits: Limits,
        is_trusted: bool = False,
    ) -> None:
        """Build `image` for `resource` of a tar of its context, without a network, within `limits`.

        Raises EnvironmentUnavailable with the last words of what failed, and for a build that is
        not trusted where nothing holds it to `limits`.
        """
        ...

    async def extend(
        self,
        image: str,
        own: Devcontainer,
        archive: Path | None,
        *,
        on: str,
        resource: str,
        limits: Limits,
    ) -> None:
        """Build `image`: that of `on`, with the features of `own`; without a network either.

        `archive` is a tar of the base's `.devcontainer`, None where it has none. Raises
        EnvironmentUnavailable.
        """
        ...

    async def metadata(self, image: str) -> str:
        """Return the image's label `devcontainer.metadata`: what its features say, as JSON."""
        ...

    async def forget_images(self, resource: str) -> Sequence[str]:
        """Take away what was built for `resource`, and say what that was."""
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


@runtime_checkable
class Trying(Protocol):
    """Extension: a kind whose places need more than a workspace: an image, a host, a machine."""

    def trial(self, workspace: Mount) -> AbstractAsyncContextManager[EnvironmentSpec]:
        """Yield how a place over `workspace` is started to try this kind out.

        What is prepared for it goes with the block. `check` and `probe` start such. Raises
        EnvironmentUnavailable where nothing can be prepared.
        """
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """Extension: a kind that knows before a start of some things that would stand in its way."""

    async def foresee(self, *, image: str, runtime: str = "", limits: Limits | None = None) -> None:
        """Raise EnvironmentUnavailable where nothing of `image` could start. Starts nothing.

        None: nobody has said yet what it may use.
        """
        ...


@runtime_checkable
class Describing(Protocol):
    """Extension: a kind that says what its places stand on, what they show and what holds them."""

    async def described(self, spec: EnvironmentSpec) -> Mapping[str, Any]:
        """Return that of a place that was just started as `spec` says; see Readiness.facts."""
        ...


class Meter(Protocol):
    """What one environment uses, counted outside of it as far as somebody counts there."""

    def read(self) -> Reading:
        """Return the counters as they are. Cheap; a maximum begins anew with each reading."""
        ...

    async def look(self) -> Reading:
        """Return what must be looked for: the growth of the workspace, and what nobody bounds.

        Maxima are left alone.
        """
        ...

    def close(self) -> None:
        """Release what it holds; the environment goes on."""
        ...


@runtime_checkable
class Measuring(Protocol):
    """Extension: a kind of whose places something is counted outside."""

    def meter(self, handle: EnvironmentHandle) -> Meter:
        """Return a meter of a started environment; the caller closes it."""
        ...


@runtime_checkable
class Metering(Measuring, Protocol):
    """Extension: a kind that reports usage and health."""

    async def health(self, handle: EnvironmentHandle) -> Health:
        """Return how it is. Never raises for one that is gone: it is not alive then."""
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


__all__ = [
    "Building",
    "Describing",
    "Environment",
    "Foreseeing",
    "Freezing",
    "Furnished",
    "Leaving",
    "Listening",
    "Measuring",
    "Meter",
    "Metering",
    "OnOutput",
    "Toolbox",
    "Trying",
]
