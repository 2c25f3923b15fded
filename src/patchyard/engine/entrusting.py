"""Servers that hold a credential: an environment of their own, where no code of an agent runs.

They are started in an empty folder with nothing of the workspace, of its setup or of what an agent
may write; the credential reaches them with the call that starts them, and nobody else.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from patchyard.contracts.environment import Environment, Listening, OnOutput, Toolbox
from patchyard.domain.entrusted import Lookup, filled, masked, missing_in, secrets_of
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
)
from patchyard.domain.errors import PatchyardError
from patchyard.domain.mcp import MCP_CALL, MCP_LIST, PREFIX, McpServer, server_named
from patchyard.domain.plan import PlanSpec
from patchyard.domain.reach import is_within
from patchyard.domain.routing import route_of, sites_of
from patchyard.domain.safety import UNCONFINED
from patchyard.engine.metering import Metered, MeteredListening, metered

Said = TypeVar("Said")

STARTING = frozenset({MCP_CALL, MCP_LIST})  # operations that may start a server


def unfit(spec: PlanSpec, server: McpServer, lookup: Lookup) -> str:
    """Return why a server cannot be given its credential in a plan; empty: it can, or holds none.

    Where anything of the plan runs without walls, nothing keeps it from looking into the server.
    """
    if not server.is_entrusted:
        return ""
    bare = sorted(str(kind) for kind in {spec.walls_at(s) for s in sites_of(spec)} & UNCONFINED)
    if bare:
        return (
            f"it holds a credential, and nothing keeps what runs on {bare[0]} from reading it:"
            " work with `--in process`, or in a container"
        )
    if route_of(spec, PREFIX + server.name).kind == ExecutionEnvironment.DEVCONTAINER:
        return (
            "it holds a credential, and the repository says what is in a devcontainer: send it"
            f" elsewhere by `tools: {{{PREFIX}{server.name}: {{execution_environment: process}}}}`"
        )
    missing = missing_in(server.env, lookup)
    return f"the variable {missing[0]} is not set where the engine runs" if missing else ""


def apart(
    spec: EnvironmentSpec, vacant: str, *, server: str, mounts: Sequence[str]
) -> EnvironmentSpec:
    """Return what the server's own environment is started with, from what its place gives plans.

    `vacant` is an empty folder, which stands where the workspace would; `mounts` are those of the
    plan, as it has them. What the agent could have written does not come along: mounts that are
    writable in some phase, or hold such a place, and all that belongs to the workspace.
    """
    shown = spec.workspace.target
    written = [text.removesuffix(":rw") for text in mounts if text.endswith(":rw")]
    kept = [
        each
        for each in spec.mounts
        if not each.is_writable
        and not is_within(each.target, shown)
        and not any(is_within(each.source, w) or is_within(w, each.source) for w in written)
    ]
    return replace(
        spec,
        server=server,
        workspace=Mount(source=vacant, target=shown),
        written="",
        mounts=tuple(kept),
        commands=(),
        path=(),
    )


def entrusted(
    environment: Environment,
    handle: EnvironmentHandle,
    toolbox: Toolbox,
    *,
    spec: PlanSpec,
    lookup: Lookup,
) -> Metered:
    """Return `toolbox` metered, and given the credentials of its server where it is one's own."""
    server = server_named(spec.mcp_servers, handle.server)
    if server is None:
        return metered(environment, handle, toolbox)
    kind = EntrustedListening if isinstance(toolbox, Listening) else Entrusted
    made = kind(environment, handle, toolbox)
    made.entrust(server, lookup)
    return made


class Entrusted(Metered):
    """A metered toolbox that fills a server's credentials in, and hides them in what it answers."""

    _server: McpServer
    _lookup: Lookup

    def entrust(self, server: McpServer, lookup: Lookup) -> None:
        """Say whose it is, and where values are found; they are read anew for each call."""
        self._server, self._lookup = server, lookup

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,  # noqa: ARG002 - pieces are not shown
    ) -> Mapping[str, Any]:
        """Run `op`; see the contract. Raises UsageError for a variable that is not set.

        Nothing is told to `on_output` meanwhile: pieces could cut a value in two.
        """
        if op in STARTING:
            own = filled(self._server.env, self._lookup)
            args = {**args, "env": {**args.get("env", {}), **own}}
        return await self._hidden(super().call(call_id, op, args))

    async def attach(
        self,
        call_id: str,
        *,
        on_output: OnOutput | None = None,  # noqa: ARG002 - pieces are not shown
    ) -> Mapping[str, Any] | None:
        """Wait for the result of an earlier call; see the contract, and `call`."""
        return await self._hidden(super().attach(call_id))

    async def _hidden(self, work: Awaitable[Said]) -> Said:
        """Return what `work` comes to, or raise its error, without the values."""
        try:
            said = await work
        except PatchyardError as error:
            secrets = secrets_of(self._server.env, self._lookup)
            error.message, error.hint = masked(error.message, secrets), masked(error.hint, secrets)
            error.details = masked(error.details, secrets)
            error.args = (error.message,)
            raise
        found: Said = masked(said, secrets_of(self._server.env, self._lookup))
        return found


class EntrustedListening(Entrusted, MeteredListening):
    """The same over a toolbox that can listen."""


__all__ = ["STARTING", "Entrusted", "EntrustedListening", "apart", "entrusted", "unfit"]
