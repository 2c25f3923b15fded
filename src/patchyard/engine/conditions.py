"""How the environments of a plan are that run now: alive, answering, since when, at what use."""

from typing import Any

from patchyard.contracts.environment import Metering
from patchyard.domain.state import LiveEnvironment
from patchyard.domain.usage import NOTHING, usage_data
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import used_in_all


async def conditions(equipment: Equipment, ledger: Ledger) -> list[dict[str, Any]]:
    """Return a row for each environment that runs; what nobody can say is None."""
    state = ledger.state
    return [
        await _row(equipment, live)
        for live in state.environments.values()
        if live.handle.kind in equipment.environments
    ]


async def _row(equipment: Equipment, live: LiveEnvironment) -> dict[str, Any]:
    handle = live.handle
    row: dict[str, Any] = {
        "environment_id": handle.environment_id,
        "kind": str(handle.kind),
        "resource": handle.resource,
        "server": handle.server,  # whose own it is, where an MCP server holds a credential
        "purpose": live.purpose,
        "is_alive": None,
        "answers": None,
        "since": None,
        "limit": "",
        "usage": usage_data(NOTHING),
    }
    environment = equipment.environment(handle.kind)
    if not isinstance(environment, Metering):
        return row
    health = await environment.health(handle)
    return row | {
        "is_alive": health.is_alive,
        "answers": health.answers,
        "since": health.since,
        "limit": health.limit,
        "usage": usage_data(used_in_all(environment, handle, NOTHING)),
    }


__all__ = ["conditions"]
