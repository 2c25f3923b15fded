"""The only place that knows concrete classes: puts the engine together from settings."""

import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.clients.identity import agent_identity
from patchyard.config import Places, places
from patchyard.contracts.actor import Actor
from patchyard.contracts.environment import Environment
from patchyard.contracts.model import Model
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import StateRefusal, UnknownName
from patchyard.domain.plan import PlanSpec
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Store
from patchyard.engine.sites import general_kind
from patchyard.registry import ACTORS, ENVIRONMENTS, load
from patchyard.stores.claims import FileClaims
from patchyard.stores.sqlite import SQLiteJournal


@asynccontextmanager
async def open_equipment(environ: Mapping[str, str]) -> AsyncIterator[Equipment]:
    """Open the stores of this installation and yield all adapters; closed at the end.

    Raises StateRefusal when the home belongs to somebody else or to a newer version.
    """
    from patchyard.tools.toolset import toolset  # noqa: PLC0415 - only an engine needs it
    from patchyard.workspaces.handover import GitHandOver  # noqa: PLC0415 - likewise
    from patchyard.workspaces.layers import LayerCache  # noqa: PLC0415 - likewise
    from patchyard.workspaces.pinned import GitTrees  # noqa: PLC0415 - likewise
    from patchyard.workspaces.selection import plan_folder, select_workspaces  # noqa: PLC0415 - likewise

    where = places(environ)
    _make_home(where.home)
    async with AsyncExitStack() as stack:
        journal = SQLiteJournal.open(where.database)
        stack.push_async_callback(journal.close)
        clock = SystemClock()
        agent = agent_identity()
        trees = GitTrees(where.home, uid=agent.uid, gid=agent.gid, environ=environ)
        folder = where.tasks or plan_folder(where.home)
        yield Equipment(
            store=Store(journal=journal, summaries=journal),
            claims=FileClaims(where.claims),
            clock=clock,
            trees=trees,
            workspaces=select_workspaces(trees, folder),
            layers=LayerCache(folder / ".layers"),
            handover=GitHandOver(trees),
            environments=_environments(where, clock, environ),
            tools=toolset,
            gateways=_LateGateways(environ),
            actor=_Actors(environ, stack).open,
        )


class _LateGateways:
    """The index gateways, loaded by the first setup that needs them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def serve_indexes(
        self, listener: socket.socket, *, port: int
    ) -> AbstractAsyncContextManager[Mapping[str, str]]:
        """See contracts.gateway.Gateways."""
        from patchyard.clients.gateways import IndexGateways  # noqa: PLC0415 - the HTTP client

        return IndexGateways(self._environ).serve_indexes(listener, port=port)


class _Actors:
    """Opens actors and their models; a plan's phases in one process share one model."""

    def __init__(self, environ: Mapping[str, str], stack: AsyncExitStack) -> None:
        self._environ = environ
        self._stack = stack
        self._models: dict[tuple[str, str, str | None], Model] = {}

    async def open(self, spec: PlanSpec, phase: str) -> Actor:
        """Return the actor for one phase. Raises UnknownName, ModelUnavailable."""
        if spec.agent not in ACTORS:
            raise UnknownName.among("agent", spec.agent, ACTORS)
        kind = load(ACTORS[spec.agent][phase])
        if spec.agent != "model":
            asks_nobody: Actor = kind()
            return asks_nobody
        key = (spec.repository, spec.model, spec.record_to)
        if key not in self._models:
            self._models[key] = await self._model(spec)
            self._stack.push_async_callback(self._models[key].close)
        made: Actor = kind(model=self._models[key])
        return made

    async def _model(self, spec: PlanSpec) -> Model:
        from patchyard.models.choosing import choose  # noqa: PLC0415 - loads the HTTP client
        from patchyard.models.prices import shipped_prices  # noqa: PLC0415 - likewise
        from patchyard.models.providers import Catalogue  # noqa: PLC0415 - likewise
        from patchyard.models.recorded import RecordingModel  # noqa: PLC0415 - likewise

        catalogue = Catalogue(
            environ=self._environ, prices=shipped_prices(), workspace=spec.repository
        )
        choice = await choose(catalogue, named=spec.model)
        model = catalogue.open(choice.name)
        if spec.record_to is None:
            return model
        return RecordingModel(
            model,
            Path(spec.record_to),
            workspace=spec.repository,
            environment=str(general_kind(spec)),
            is_resumed=os.path.exists(spec.record_to),  # noqa: ASYNC240, PTH110 - one local stat
        )


def _environments(
    where: Places, clock: SystemClock, environ: Mapping[str, str]
) -> Mapping[ExecutionEnvironment, Environment]:
    station = Station(
        runtime=where.home / "run",
        new_id=clock.new_id,
        search_path=environ.get("PATH", ""),
        home=environ.get("HOME", "/"),
        private=(str(where.home),),
    )
    return {kind: load(path)(station) for kind, path in ENVIRONMENTS.items()}


def _make_home(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.stat()
    except OSError as error:
        raise StateRefusal(
            f"the state folder {home} cannot be made: {error.strerror}",
            hint="set PATCHYARD_HOME to a folder of yours",
        ) from error
    if found.st_uid != os.geteuid():
        raise StateRefusal(
            f"the state folder {home} belongs to user {found.st_uid}",
            hint="set PATCHYARD_HOME to a folder of yours",
        )


__all__ = ["open_equipment"]
