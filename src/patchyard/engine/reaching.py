"""The gateways of a phase, opened inside each environment that calls come to; what they carried."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from patchyard.contracts.environment import Listening, Toolbox
from patchyard.contracts.gateway import Network
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment, Limits
from patchyard.domain.events import Noted
from patchyard.domain.mcp import MCP_CALL, MCP_LIST
from patchyard.domain.meanings import restored
from patchyard.domain.network import NetworkGrant
from patchyard.domain.plan import Phase
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.state import PlanState
from patchyard.domain.tooling import COMMAND
from patchyard.domain.traffic import NetworkUsed, spent
from patchyard.domain.usage_fold import carried_at
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import Metered
from patchyard.engine.rows import body_of

GATED = frozenset({COMMAND, MCP_CALL, MCP_LIST})  # operations whose programs may reach out


class Running(Protocol):
    """What knows the environments that are up."""

    @property
    def running(self) -> Sequence[tuple[EnvironmentHandle, Toolbox]]:
        """Those that are up."""
        ...


class Visited:
    """The one environment of a visit."""

    def __init__(self, toolbox: Metered) -> None:
        self.running = ((toolbox.handle, toolbox),)


class Reaching:
    """Opens the plan's grant where its commands run. Nothing, where there is none."""

    def __init__(self, ledger: Ledger, places: Running, network: Network | None = None) -> None:
        self._ledger = ledger
        self._places = places
        self._network = network
        self._open: dict[Toolbox, tuple[AsyncExitStack, Mapping[str, str]]] = {}

    async def furnished(
        self, kind: ExecutionEnvironment | None, toolbox: Toolbox, op: str, args: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the arguments of a call with the variables that point its programs to the gateway.

        Where no wall is, no gateway is either: its secrets would be anybody's on this machine.
        """
        if self._network is None or op not in GATED or kind in UNCONFINED:
            return args
        self._network.begin_call()
        await self._close_lost()
        if toolbox not in self._open:
            self._open[toolbox] = await self._opened(self._network, toolbox)
        variables = self._open[toolbox][1]
        return {**args, "env": {**args.get("env", {}), **variables}} if variables else args

    async def _opened(
        self, network: Network, toolbox: Toolbox
    ) -> tuple[AsyncExitStack, Mapping[str, str]]:
        stack = AsyncExitStack()
        if not isinstance(toolbox, Listening):
            self._ledger.note(Noted(text="no gateway can be opened there: it has no network"))
            return stack, {}
        port, listener = await toolbox.listen()
        bounds = NetworkBounds()
        if isinstance(toolbox, Metered):
            bounds = network_bounds(self._ledger.state, toolbox.handle)
        serving = network.serve(listener, port=port, bounds=bounds)
        opened = await stack.enter_async_context(serving)
        if isinstance(toolbox, Metered):
            toolbox.count_network(opened.counting)
        return stack, opened.variables

    async def _close_lost(self) -> None:
        """Close the gateways of environments that are gone."""
        running = [toolbox for _, toolbox in self._places.running]
        for toolbox in [each for each in self._open if each not in running]:
            stack, _ = self._open.pop(toolbox)
            await stack.aclose()

    def used(self, call_id: str = "") -> tuple[NetworkUsed, ...]:
        """Return what is to be journalled of what was tried since the last time."""
        tried = self._network.tried() if self._network is not None else None
        if tried is None or not tried.traffic:
            return ()
        return (
            NetworkUsed(
                call_id=call_id,
                traffic=tuple(tried.traffic),
                attempts=body_of(tried.attempts),
                missed=tried.missed,
            ),
        )

    async def close(self) -> None:
        """Close all gateways and journal what was not yet told."""
        while self._open:
            _, (stack, _) = self._open.popitem()
            await stack.aclose()
        left = self.used()
        if left:
            await self._ledger.record(*left)


def network_bounds(state: PlanState, handle: EnvironmentHandle) -> NetworkBounds:
    """Return what an environment may carry; bytes go on from what its place has carried before."""
    limits = restored(Limits, handle.details.get("limits") or {})
    there = [name for name, live in state.environments.items() if live.handle.site == handle.site]
    return NetworkBounds(
        network_bytes=limits.network_bytes,
        connections=limits.connections,
        used_bytes=carried_at(state.used, str(handle.site), there),
    )


def is_closed(grant: NetworkGrant, phase: Phase) -> bool:
    """Whether nothing can be reached in a phase: never while planning, unless that was said."""
    return not grant or (phase == Phase.STRATEGIZE and not grant.planning)


@asynccontextmanager
async def reaching(
    equipment: Equipment, ledger: Ledger, phase: Phase, places: Running
) -> AsyncIterator[Reaching]:
    """Open what the plan was granted, where this phase may reach anything.

    Raises UsageError where the variable of a secret is not set.
    """
    grant = ledger.state.known.network
    if is_closed(grant, phase):
        yield Reaching(ledger, places)
        return
    granted = equipment.gateways.granted(grant, spent=spent(ledger.state.network))
    async with granted as network:
        made = Reaching(ledger, places, network)
        try:
            yield made
        finally:
            await made.close()


__all__ = ["GATED", "Reaching", "Running", "Visited", "is_closed", "network_bounds", "reaching"]
