"""The environments of one phase of one plan: started on first use, found again after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from patchyard.contracts.environment import Environment, Leaving, Toolbox
from patchyard.contracts.forwarding import ForwardingToolbox
from patchyard.domain.environment import EnvironmentHandle, EnvironmentSpec, Site
from patchyard.domain.errors import EnvironmentBroken, StartBroken
from patchyard.domain.events import EnvironmentEnded, EnvironmentStarted, Event, Noted
from patchyard.domain.left_out import bounded
from patchyard.domain.plan import Phase
from patchyard.domain.usage import NOTHING, Usage
from patchyard.engine.activation import activating, deactivated
from patchyard.engine.entrusting import entrusted
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import Metered, as_bounded, used_in_all
from patchyard.engine.parting import in_time, let_go, present
from patchyard.engine.strays import end_strays

AGAIN = "an environment of `{}` broke at its first contact and is started once more: {}"
SAID = 1000  # characters kept of why
SILENT = "it gave no answer in the few seconds that a stop leaves it"
STAYS = "environment {} is not known to have ended, and is left to a later pass: {}"
UNHELD = "nothing holds the limit `{}` of {}: it counts for nothing there"

Specs = Callable[[], Awaitable[Mapping[Site, EnvironmentSpec]]]


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
        self._open: dict[Site, tuple[EnvironmentHandle, Metered]] = {}
        self._lock = asyncio.Lock()

    async def toolbox(self, site: Site) -> tuple[EnvironmentHandle, Toolbox]:
        """Return the running environment at `site`, started now when it is not.

        Raises EnvironmentUnavailable when it cannot start; nothing weaker is ever taken instead.
        """
        async with self._lock:
            if site not in self._open:
                self._open[site] = await self._start(site)
            return self._open[site]

    async def _start(self, site: Site) -> tuple[EnvironmentHandle, Metered]:
        environment = self._equipment.environment(site.kind)
        specs = await self._specs()
        handle = await started(self._equipment, self._ledger, environment, specs[site])
        try:
            return handle, self._bounded(environment, handle, await environment.attach(handle))
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
                toolbox = await self._attached(environment, handle)
            except EnvironmentBroken as error:
                await self._end(handle, error.message)
                continue
            if handle.site in self._open:  # it was given up, and would not end
                try:
                    await self.replace(handle.site, "another took its place")
                except BaseException:
                    await toolbox.close()
                    raise
            self._open[handle.site] = (handle, toolbox)

    async def _attached(self, environment: Environment, handle: EnvironmentHandle) -> Metered:
        reached = await self._reached(environment, handle)
        try:
            return self._bounded(environment, handle, reached)
        except BaseException:
            await reached.close()
            raise

    def _bounded(
        self, environment: Environment, handle: EnvironmentHandle, toolbox: Toolbox
    ) -> Metered:
        spec, lookup = self._ledger.state.known, self._equipment.variable
        return entrusted(environment, handle, toolbox, spec=spec, lookup=lookup)

    async def _reached(self, environment: Environment, handle: EnvironmentHandle) -> Toolbox:
        """Return the connection that the pool made, or one made now."""
        pool = self._equipment.pool
        made = None if pool is None else pool.connection(handle.environment_id)
        return await environment.attach(handle) if made is None else made

    async def replace(self, site: Site, reason: str) -> None:
        """Give up a broken environment; the next call starts a new one."""
        async with self._lock:
            await self._given_up(*self._open.pop(site), reason)

    async def end(self) -> None:
        """End every environment, with what runs there; the next call starts a new one."""
        while self._open:
            _, opened = self._open.popitem()
            await self._given_up(*opened, "the work is over")

    async def _given_up(self, handle: EnvironmentHandle, toolbox: Metered, reason: str) -> None:
        """End one, also where the close of its connection is cancelled."""
        try:
            await let_go(toolbox.close())
        finally:
            await self._end(handle, reason, toolbox)

    async def _end(
        self, handle: EnvironmentHandle, reason: str, toolbox: Metered | None = None
    ) -> None:
        calls = NOTHING if toolbox is None else toolbox.calls
        left_out = () if toolbox is None else left_out_of(toolbox)
        await ended(self._equipment, self._ledger, handle, reason, calls=calls, left_out=left_out)


def left_out_of(toolbox: Toolbox) -> Sequence[tuple[str, str]]:
    """Return what of the workspace stays in a place that holds a copy, as last seen."""
    while not isinstance(toolbox, Leaving) and isinstance(toolbox, ForwardingToolbox):
        toolbox = toolbox.wrapped
    return toolbox.left_out if isinstance(toolbox, Leaving) else ()


async def started(
    equipment: Equipment, ledger: Ledger, environment: Environment, spec: EnvironmentSpec
) -> EnvironmentHandle:
    """Start an environment that the journal knows of; none is left when it could not be told.

    One that broke before its toolbox answered is started once more. Raises EnvironmentUnavailable
    when it cannot start.
    """
    async with activating(equipment, ledger, environment, spec) as ready:
        handle = await _up(ledger, environment, ready)
    details = as_bounded(handle, spec)
    handle = replace(handle, resource=spec.resource, server=spec.server, details=details)
    try:
        await ledger.record(*started_events(handle, spec.purpose))
    except BaseException:
        with suppress(EnvironmentBroken):  # the janitor finds it again
            await in_time(environment.end(handle))
        raise
    return handle


async def _up(ledger: Ledger, environment: Environment, spec: EnvironmentSpec) -> EnvironmentHandle:
    try:
        return await environment.start(spec)
    except StartBroken as error:
        why = " ".join(error.message.split())[:SAID]
        await ledger.record(Noted(text=AGAIN.format(environment.kind, why)))
        return await environment.start(spec)


def started_events(
    handle: EnvironmentHandle, purpose: str, *, is_from_pool: bool = False
) -> Sequence[Event]:
    """Return what the journal is told of an environment that is up."""
    unheld = _unheld(handle) if purpose == Phase.EXECUTE else ()  # said once, not for each phase
    words = [Noted(text=UNHELD.format(name, handle.kind)) for name in unheld]
    started = EnvironmentStarted(handle=handle, purpose=purpose, is_from_pool=is_from_pool)
    return (started, *words)


def _unheld(handle: EnvironmentHandle) -> Sequence[str]:
    found: Sequence[str] = handle.details.get("unheld", ())
    return found


async def ended(
    equipment: Equipment,
    ledger: Ledger,
    handle: EnvironmentHandle,
    reason: str = "",
    *,
    calls: Usage = NOTHING,
    left_out: Sequence[tuple[str, str]] = (),
) -> None:
    """End an environment and journal that. Raises EnvironmentBroken when it stays: it is open.

    Once the plan was told to stop, one that stays is only noted, and left to a later pass.

    `calls` is what its commands are known to have used, `left_out` what of the workspace stays.

    Raises FencedOff, and leaves it, when another owner of the plan may be using it.
    """
    environment = equipment.environment(handle.kind)
    async with ledger.sole():
        usage = used_in_all(environment, handle, calls)
        ending = asyncio.ensure_future(environment.end(handle))
        try:
            await in_time(ending)
        except (EnvironmentBroken, asyncio.CancelledError) as error:
            if not present().has_begun:
                raise
            if ending.cancelled() or ending.exception() is not None:
                said = "" if ending.cancelled() else str(ending.exception())
                why = " ".join(said.split())[:SAID] or SILENT
                await ledger.record(Noted(text=STAYS.format(handle.environment_id, why)))
            if isinstance(error, asyncio.CancelledError):
                raise
            return
    over = EnvironmentEnded(
        environment_id=handle.environment_id,
        reason=reason,
        usage=None if usage == NOTHING else usage,
        left_out=bounded(left_out),
    )
    await ledger.record(over)
    await deactivated(equipment, handle)


__all__ = [
    "AGAIN",
    "SAID",
    "SILENT",
    "STAYS",
    "UNHELD",
    "Places",
    "Specs",
    "ended",
    "left_out_of",
    "started",
    "started_events",
]
