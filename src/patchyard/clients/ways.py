"""How the toolbox of a container is reached: by a socket that is handed in, or by its streams."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from patchyard.clients.as_asked import require_sentry, require_walled
from patchyard.clients.berths import Berth, to_details
from patchyard.clients.container_wardens import Led, end_warden
from patchyard.clients.docker import ContainerEngine
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.passing import Passing
from patchyard.clients.process import ProcessRef
from patchyard.domain.errors import EnvironmentBroken

MONITOR = "monitor"  # the warden, among a handle's details


class Way(Protocol):
    """One container's, while it is started."""

    @property
    def socket(self) -> str:
        """What has to be mounted for it; empty: nothing."""
        ...

    async def prepare(self, engine: ContainerEngine, name: str) -> Mapping[str, Any]:
        """Do what comes before the start of a container just made; return details of its handle."""
        ...

    async def arrived(self, engine: ContainerEngine, name: str) -> None:
        """Wait until the toolbox of a container just started can be reached.

        Raises EnvironmentBroken when it ended instead.
        """
        ...

    async def said(self, engine: ContainerEngine, name: str) -> str:
        """Return what its first process said, where `arrived` does not say it."""
        ...

    async def require_walls(
        self, init: ProcessRef, identity: AgentIdentity, told: Mapping[str, object]
    ) -> None:
        """Raise EnvironmentUnavailable where the kernel says that it has less walls than asked.

        `told` is what its toolbox says of them.
        """
        ...

    def close(self) -> None:
        """Let go of what only the start needs."""
        ...

    def undo(self) -> None:
        """Let go of all of it."""
        ...


class Handed:
    """A listening socket is handed in over another one: its first process shares this kernel."""

    def __init__(self, berth: Berth, *, is_podman: bool) -> None:
        self._passing = Passing(berth.directory, berth.listener)
        self._is_podman = is_podman
        self.socket = str(self._passing.path)

    async def prepare(self, engine: ContainerEngine, name: str) -> Mapping[str, Any]:  # noqa: ARG002 - it needs neither
        """See Way."""
        return {}

    async def arrived(self, engine: ContainerEngine, name: str) -> None:
        """See Way."""
        await _sooner(self._passing.passed(), engine.ended(name))

    async def said(self, engine: ContainerEngine, name: str) -> str:
        """See Way."""
        return await engine.said(name)

    async def require_walls(
        self,
        init: ProcessRef,
        identity: AgentIdentity,  # noqa: ARG002 - any that is not root
        told: Mapping[str, object],
    ) -> None:
        """See Way."""
        require_walled(init.pid, told=told, is_podman=self._is_podman)

    def close(self) -> None:
        """See Way."""
        self._passing.close()

    def undo(self) -> None:
        """See Way."""
        self._passing.close()


@dataclass(kw_only=True)
class ByWarden:
    """A warden holds its standard streams: gVisor's kernel has no socket of this one's."""

    berth: Berth
    code: Path  # the folder that holds the compiled `toolbox`
    python: str
    grace_s: float
    timeout_s: float  # for the toolbox to be up
    socket: str = ""
    _led: Led | None = None
    _rights: Mapping[str, Any] = field(default_factory=dict)

    async def prepare(self, engine: ContainerEngine, name: str) -> Mapping[str, Any]:
        """See Way."""
        self._led = await Led.begin(
            self.berth,
            engine=engine.socket,
            name=name,
            python=self.python,
            code=self.code,
            grace_s=self.grace_s,
        )
        return {MONITOR: to_details(self._led.warden)}

    async def arrived(self, engine: ContainerEngine, name: str) -> None:  # noqa: ARG002 - the warden sees its end
        """See Way."""
        self._rights = await self._leading.ready(timeout_s=self.timeout_s)

    async def said(self, engine: ContainerEngine, name: str) -> str:  # noqa: ARG002 - the warden has told
        """See Way."""
        return ""

    async def require_walls(
        self,
        init: ProcessRef,
        identity: AgentIdentity,
        told: Mapping[str, object],  # noqa: ARG002 - its warden was told more
    ) -> None:
        """See Way."""
        require_sentry(init.pid, self._rights, uid=identity.uid)
        await self._leading.own(init)

    @property
    def _leading(self) -> Led:
        assert self._led is not None  # noqa: S101 - `prepare` comes first
        return self._led

    def close(self) -> None:
        """See Way; its warden stays."""
        self._leading.asking.close()

    def undo(self) -> None:
        """See Way."""
        if self._led is not None:
            self._led.asking.close()
            end_warden(self._led.warden)


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


__all__ = ["MONITOR", "ByWarden", "Handed", "Way"]
