"""The environments of one phase of one plan: started on first use, found again after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import EnvironmentHandle, EnvironmentSpec, ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.events import EnvironmentEnded, EnvironmentStarted
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger

Specs = Callable[[], Awaitable[Mapping[ExecutionEnvironment, EnvironmentSpec]]]


class Places:
    """Owns the toolboxes of one purpose. Ends what it started when closed."""

    def __init__(
        self,
        equipment: Equipment,
        ledger: Ledger,
        specs: Specs,
        purpose: str,
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._specs = specs
        self._purpose = purpose
        self._open: dict[ExecutionEnvironment, tuple[EnvironmentHandle, Toolbox]] = {}
        self._lock = asyncio.Lock()

    async def toolbox(self, kind: ExecutionEnvironment) -> tuple[EnvironmentHandle, Toolbox]:
        """Return the running environment of `kind`, started now when it is not.

        Raises EnvironmentUnavailable when it cannot start; nothing weaker is ever taken instead.
        """
        async with self._lock:
            if kind not in self._open:
                self._open[kind] = await self._start(kind)
            return self._open[kind]

    async def _start(self, kind: ExecutionEnvironment) -> tuple[EnvironmentHandle, Toolbox]:
        environment = self._equipment.environment(kind)
        specs = await self._specs()
        handle = await environment.start(specs[kind])
        await self._ledger.record(EnvironmentStarted(handle=handle, purpose=self._purpose))
        return handle, await environment.attach(handle)

    async def find_again(self) -> None:
        """Attach to what an earlier life of the engine left running; end the lost ones."""
        for live in list(self._ledger.state.environments.values()):
            handle = live.handle
            environment = self._equipment.environment(handle.kind)
            if live.purpose != self._purpose:
                await self._lost(handle, "left over from another phase")
                continue
            try:
                self._open[handle.kind] = (handle, await environment.attach(handle))
            except EnvironmentBroken as error:
                await self._lost(handle, error.message)

    async def replace(self, kind: ExecutionEnvironment, reason: str) -> None:
        """Give up a broken environment; the next call starts a new one."""
        async with self._lock:
            handle, toolbox = self._open.pop(kind)
            await toolbox.close()
            await self._lost(handle, reason)

    async def _lost(self, handle: EnvironmentHandle, reason: str) -> None:
        await self._equipment.environment(handle.kind).end(handle)
        await self._ledger.record(
            EnvironmentEnded(environment_id=handle.environment_id, reason=reason)
        )

    async def detach(self) -> None:
        """Close the connections and leave the environments running."""
        for _, toolbox in self._open.values():
            await toolbox.close()
        self._open.clear()

    async def end(self) -> None:
        """End every environment, with what runs there; the next call starts a new one."""
        while self._open:
            _, (handle, toolbox) = self._open.popitem()
            await toolbox.close()
            await self._lost(handle, "the work is over")


__all__ = ["Places", "Specs"]
