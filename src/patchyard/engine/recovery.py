"""What becomes of a call whose environment is gone: run again where that is safe, or unknown."""

from collections.abc import Mapping

from patchyard.contracts.environment import Toolbox
from patchyard.contracts.tool import Tool
from patchyard.domain.checkpoint import REPEATS, CallRepeated, CallUndone
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.events import ToolCallRequested
from patchyard.domain.mcp import may_repeat
from patchyard.domain.plan import Phase, PlanSpec
from patchyard.domain.tooling import Effect
from patchyard.engine.checkpoints import Checkpoints
from patchyard.engine.ledger import Ledger
from patchyard.engine.places import Places

CONFINED = frozenset(
    {
        ExecutionEnvironment.CONTAINER,
        ExecutionEnvironment.DEVCONTAINER,
        ExecutionEnvironment.PROCESS,
        ExecutionEnvironment.VM,
    }
)
"""Kinds of walls from which a call reaches nothing but the workspace, unless it was given more."""


class Recovery:
    """Settles by the design's rule: a call is run again only where nothing of it can stay."""

    def __init__(
        self,
        ledger: Ledger,
        places: Places,
        *,
        tools: Mapping[str, Tool],
        phase: Phase,
        checkpoints: Checkpoints | None,
    ) -> None:
        self._ledger = ledger
        self._places = places
        self._tools = tools
        self._phase = phase
        self._checkpoints = checkpoints

    async def prepared(self, call: ToolCallRequested, cause: str) -> Toolbox | None:
        """Undo what the lost call did and return where to send it once more.

        None: it is not known what it did, or it was lost too often. Raises EnvironmentUnavailable.
        """
        number = self._ledger.state.repeats.get(call.call_id, 0) + 1
        tool = self._tools.get(call.name)
        if tool is None or call.kind is None or call.site is None or number > REPEATS:
            return None
        if not may_repeat(self._ledger.state.known.mcp_servers, call.name):
            return None
        walls = self._ledger.state.known.walls_at(call.site)
        if not self._is_harmless(tool.spec.effect, walls):
            if self._checkpoints is None or not self._can_be_undone(call, walls):
                return None
            undone = CallUndone(
                call_id=call.call_id, checkpoint_id=call.checkpoint_id, reason=cause[:500]
            )
            await self._ledger.record(undone)
            await self._places.end()
            await self._checkpoints.restore(call.checkpoint_id)
        handle, toolbox = await self._places.toolbox(call.site)
        await self._ledger.record(
            CallRepeated(call_id=call.call_id, environment_id=handle.environment_id, number=number)
        )
        return toolbox

    def _is_harmless(self, effect: Effect, walls: ExecutionEnvironment) -> bool:
        """Whether it cannot have changed anything."""
        reads_only = not self._ledger.state.known.network.planning
        is_planning = self._phase == Phase.STRATEGIZE and walls in CONFINED and reads_only
        return effect == Effect.READ or is_planning

    def _can_be_undone(self, call: ToolCallRequested, walls: ExecutionEnvironment) -> bool:
        spec = self._ledger.state.known
        return bool(call.checkpoint_id) and walls in CONFINED and not reaches_out(spec)


def reaches_out(spec: PlanSpec) -> bool:
    """Whether a confined call of this plan was given more to act on than the workspace."""
    return bool(spec.network) or any(mount.endswith(":rw") for mount in spec.mounts)


__all__ = ["CONFINED", "Recovery", "reaches_out"]
