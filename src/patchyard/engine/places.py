"""The environments of one phase of one plan: started on first use, found again after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from patchyard.contracts.environment import Environment, Toolbox
from patchyard.domain.environment import EnvironmentHandle, EnvironmentSpec, ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.events import EnvironmentEnded, EnvironmentStarted
from patchyard.engine.answers import whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.strays import end_strays

Specs = Callable[[], Awaitable[Mapping[ExecutionEnvironment, EnvironmentSpec]]]


class Places:
    """Owns the toolboxes of one purpose, until `end`."""

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
        handle = await started(self._ledger, environment, specs[kind])
        try:
            return handle, await environment.attach(handle)
        except BaseException:
            await self._end(handle, "nobody could attach to it")
            raise

    @property
    def running(self) -> Sequence[tuple[EnvironmentHandle, Toolbox]]:
        """Those that are up."""
        return tuple(self._open.values())

    async def find_again(self) -> None:
        """Attach to what an earlier life of the engine left running; end the lost ones."""
        await end_strays(self._equipment, self._ledger)
        for live in list(self._ledger.state.environments.values()):
            handle = live.handle
            environment = self._equipment.environment(handle.kind)
            if live.purpose != self._purpose:
                await self._end(handle, "left over from another phase")
                continue
            try:
                toolbox = await environment.attach(handle)
            except EnvironmentBroken as error:
                await self._end(handle, error.message)
                continue
            if handle.kind in self._open:  # it was given up, and would not end
                await self.replace(handle.kind, "another took its place")
            self._open[handle.kind] = (handle, toolbox)

    async def replace(self, kind: ExecutionEnvironment, reason: str) -> None:
        """Give up a broken environment; the next call starts a new one."""
        async with self._lock:
            handle, toolbox = self._open.pop(kind)
            await toolbox.close()
            await self._end(handle, reason)

    async def end(self) -> None:
        """End every environment, with what runs there; the next call starts a new one."""
        while self._open:
            _, (handle, toolbox) = self._open.popitem()
            await toolbox.close()
            await self._end(handle, "the work is over")

    async def _end(self, handle: EnvironmentHandle, reason: str) -> None:
        await ended(self._equipment, self._ledger, handle, reason)


async def started(
    ledger: Ledger, environment: Environment, spec: EnvironmentSpec
) -> EnvironmentHandle:
    """Start an environment that the journal knows of; none is left when it could not be told.

    Raises EnvironmentUnavailable when it cannot start.
    """
    handle = await environment.start(spec)
    try:
        await ledger.record(EnvironmentStarted(handle=handle, purpose=spec.purpose))
    except BaseException:
        await environment.end(handle)
        raise
    return handle


async def ended(
    equipment: Equipment, ledger: Ledger, handle: EnvironmentHandle, reason: str = ""
) -> None:
    """End an environment and journal that. Raises EnvironmentBroken when it stays: it is open.

    Raises FencedOff, and leaves it, when another owner of the plan may be using it.
    """
    async with ledger.sole():
        await whole(equipment.environment(handle.kind).end(handle))
    await ledger.record(EnvironmentEnded(environment_id=handle.environment_id, reason=reason))


__all__ = ["Places", "Specs", "ended", "started"]
