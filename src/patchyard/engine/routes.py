"""Where a plan's calls go: routed anew for each, and to a place that is up (A9)."""

from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.preference import PreferenceFell
from patchyard.domain.routing import Route, route_of
from patchyard.engine.ledger import Ledger
from patchyard.engine.places import Places

SAID = 500  # characters kept of why a place did not start


def walled(kind: ExecutionEnvironment) -> str:
    """Return what puts walls around calls that would run on a bare `kind`, for people."""
    carried = " (or add the host with `--carries process`)"
    return "`--in process`" + carried * (kind == ExecutionEnvironment.SSH)


class Routes:
    """The resolver, and the places it leads to, of one phase of one plan."""

    def __init__(self, ledger: Ledger, places: Places) -> None:
        self._ledger = ledger
        self._places = places

    def of(self, tool: str) -> Route:
        """Return where calls of `tool` go as things stand."""
        state = self._ledger.state
        return route_of(state.known, tool, fallen=state.fallen)

    async def arrived(self, tool: str) -> tuple[Route, EnvironmentHandle, Toolbox]:
        """Return the route of `tool` and the environment there, started now when it is not.

        A place that a tool only prefers is given up for the whole plan when it does not start the
        first time; never when it started once and was lost. Raises EnvironmentUnavailable.
        """
        route = self.of(tool)
        try:
            handle, toolbox = await self._places.toolbox(route.site)
        except EnvironmentUnavailable as error:
            name = str(route.site)
            if not route.is_preferred or name in self._ledger.state.reached:
                raise
            await self._ledger.record(PreferenceFell(place=name, cause=error.message[:SAID]))
            return await self.arrived(tool)
        return route, handle, toolbox


__all__ = ["SAID", "Routes", "walled"]
