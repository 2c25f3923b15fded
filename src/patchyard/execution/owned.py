"""File operations on a folder of the caller's, as its owner; commands are none of them (D17)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from patchyard.clients.identity import AgentIdentity, agent_identity
from patchyard.clients.ownership import owner_of
from patchyard.contracts.environment import Environment
from patchyard.execution.place import Place


class OwnedFiles:
    """Where operations on files happen: with the commands, or as the owner of the workspace.

    The second under a root engine, whose commands run as the agent's user (F2.26). Used within one
    event loop.
    """

    def __init__(
        self, commands: Place, environment: Environment, *, new_id: Callable[[], str]
    ) -> None:
        """Take the place of the commands, and what starts a place of its own beside it."""
        self._commands = commands
        self._environment = environment
        self._new_id = new_id
        self._places: dict[AgentIdentity, Place] = {}  # by owner: a folder may change hands

    async def place(self) -> Place:
        """Return where the next operation happens. Raises EnvironmentUnavailable."""
        agent, spec = agent_identity(), self._commands.spec
        try:
            owner = await asyncio.to_thread(owner_of, spec.workspace.source, agent)
        except OSError:  # it is not there, or cannot be looked at: told by the operation
            return self._commands
        if owner == agent:
            return self._commands
        if owner not in self._places:
            own = replace(spec, is_owners=True)
            self._places[owner] = Place(self._environment, own, new_id=self._new_id)
        return self._places[owner]

    async def close(self) -> bool:
        """End what was started for files alone; False when something is left."""
        ended = [await place.close() for place in self._places.values()]
        return all(ended)


__all__ = ["OwnedFiles"]
