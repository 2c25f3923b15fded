"""What MCP servers add to the tools of a phase: listed once, then offered as they are pinned."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchyard.contracts.environment import Listening, Toolbox
from patchyard.contracts.tool import Tool
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.domain.events import Noted
from patchyard.domain.mcp import MCP_LIST, PREFIX, Listing, McpServer, listing_of
from patchyard.domain.mcp_cures import told
from patchyard.domain.plan import Phase, PlanSpec
from patchyard.domain.routing import route_of
from patchyard.domain.safety import UNCONFINED
from patchyard.engine.answers import answer_in_time
from patchyard.engine.entrusting import entrusted, unfit
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import ground
from patchyard.engine.ledger import Ledger
from patchyard.engine.places import Places
from patchyard.engine.reaching import Reaching
from patchyard.engine.routes import Routes
from patchyard.engine.sites import specs_for

OFFERED_CHARS = 100_000  # of descriptions and schemas: each request of a model carries them
TOO_MANY = f"all descriptions together hold {OFFERED_CHARS:,} characters at most; name `tools`"


class Serving:
    """Offers the tools of a plan's servers in one phase. Starts a server only to see it first."""

    def __init__(
        self, equipment: Equipment, ledger: Ledger, places: Places, reaching: Reaching
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._routes = Routes(ledger, places)
        self._reaching = reaching

    async def offered(self, phase: Phase) -> Mapping[str, Tool]:
        """Return the tools by name. Of a server that does not work none is, and that is told.

        While planning these are only what the user's own settings say that it reads, and only
        behind walls.
        """
        found: dict[str, Tool] = {}
        size = 0
        for server in self._ledger.state.known.mcp_servers:
            if phase == Phase.STRATEGIZE and not self._may_plan_with(server):
                continue
            for tool in (await self._listing(server)).tools:
                if phase == Phase.STRATEGIZE and tool.name not in server.read_only_tools:
                    continue
                size += len(tool.description) + len(json.dumps(tool.parameters))
                if size > OFFERED_CHARS:
                    self._note(server, f"not offered: {tool.name} and what follows it: {TOO_MANY}")
                    return found
                found[tool.full_name] = self._equipment.served(server, tool)
        return found

    def _may_plan_with(self, server: McpServer) -> bool:
        site = self._routes.of(PREFIX + server.name).site
        walls = self._ledger.state.known.walls_at(site)
        return bool(server.read_only_tools) and walls not in UNCONFINED

    async def _listing(self, server: McpServer) -> Listing:
        why = unfit(self._ledger.state.known, server, self._equipment.variable)
        if why:
            self._note(server, f"none of its tools are offered: {why}")
            return Listing()
        texts = self._equipment.pins.read(server)
        if texts is not None:
            return listing_of(server, texts)
        try:
            texts = await self._seen(server)
        except (EnvironmentBroken, EnvironmentUnavailable) as error:
            self._note(server, f"none of its tools are offered: {told(server.name, error.message)}")
            return Listing()
        self._equipment.pins.keep(server, texts)
        listing = listing_of(server, texts)
        self._note(server, f"{len(texts)} tools, seen for the first time and held to that")
        for why in listing.left_out:
            self._note(server, f"not offered: {why}")
        return listing

    async def _seen(self, server: McpServer) -> Sequence[str]:
        """Start the server where its calls go, and return its tools. Raises EnvironmentBroken."""
        route, _, toolbox = await self._routes.arrived(PREFIX + server.name)
        args = await self._reaching.furnished(route.kind, toolbox, MCP_LIST, server.launch())
        return await listed(toolbox, self._equipment.clock.new_id(), args)

    def _note(self, server: McpServer, text: str) -> None:
        said = " ".join(text.split())[:500]
        self._ledger.note(Noted(text=f"MCP server {server.name}: {said}"))


async def listed(toolbox: Toolbox, call_id: str, args: Mapping[str, Any]) -> Sequence[str]:
    """Return the tools of the server that `args` start. Raises EnvironmentBroken."""
    payload = await answer_in_time(toolbox.call(call_id, MCP_LIST, args), args)
    await toolbox.forget((call_id,))
    tools = payload.get("tools")
    if payload.get("success") is not True or not isinstance(tools, list):
        raise EnvironmentBroken(str(payload.get("message"))[:1500])
    return [str(text) for text in tools]


async def tools_of(equipment: Equipment, spec: PlanSpec, server: McpServer) -> Sequence[str]:
    """Start a server where a plan of `spec` would, over a tree of its own, and list its tools.

    Raises EnvironmentUnavailable, EnvironmentBroken.
    """
    why = unfit(spec, server, equipment.variable)
    if why:
        raise EnvironmentBroken(why)
    base = await equipment.trees.snapshot(Path(spec.repository), ref=spec.ref)
    name = f"{equipment.clock.new_id()}-check"
    site = route_of(spec, PREFIX + server.name).site
    environment = equipment.environment(site.kind)
    async with AsyncExitStack() as closing:
        lending = ground(equipment.workspaces, base, name=name, folders=spec.include)
        workspace = await closing.enter_async_context(lending)
        specs = specs_for(equipment, "", spec, workspace, purpose="check", is_writable=False)
        handle = await environment.start(specs[site])
        closing.push_async_callback(environment.end, handle)
        reached = await environment.attach(handle)
        handle = replace(handle, server=site.server)
        toolbox = entrusted(environment, handle, reached, spec=spec, lookup=equipment.variable)
        closing.push_async_callback(toolbox.close)
        args = server.launch()
        if spec.network and site.kind not in UNCONFINED and isinstance(toolbox, Listening):
            granted = equipment.gateways.granted(spec.network, spent=0)
            network = await closing.enter_async_context(granted)
            port, listener = await toolbox.listen()
            network.begin_call()
            serving = network.serve(listener, port=port, bounds=NetworkBounds())
            opened = await closing.enter_async_context(serving)
            args["env"] = {**args["env"], **opened.variables}
        return await listed(toolbox, name, args)


__all__ = ["OFFERED_CHARS", "TOO_MANY", "Serving", "listed", "tools_of"]
