"""The only place that knows concrete classes: puts the engine together from settings."""

import functools
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchyard.casting import Actors, Shared
from patchyard.ceilings import SettingsBudgets
from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.clients.identity import agent_identity
from patchyard.clients.pool_boards import board
from patchyard.clients.room import DiskRoom, require_writable
from patchyard.config import Places, places
from patchyard.configuration import configure
from patchyard.contracts.environment import Environment
from patchyard.contracts.gateway import Network, Opened
from patchyard.contracts.leftovers import Keeper
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.environment import (
    ExecutionEnvironment,
    no_such_kind,
)
from patchyard.domain.keeping import FREE_BYTES
from patchyard.domain.network import NetworkGrant
from patchyard.domain.pooling import Pooling, PoolState
from patchyard.domain.queue import Job, Limits
from patchyard.engine.dispatcher import Chores, Dispatcher, Told
from patchyard.engine.equipment import Equipment
from patchyard.engine.janitor import Janitor
from patchyard.engine.ledger import Store
from patchyard.engine.pool import Shown, WarmPool
from patchyard.engine.worker import Terms, Worker
from patchyard.registry import ENVIRONMENTS, READERS, SCANNERS, load
from patchyard.storage import CHECKPOINTS, make_home, open_storage
from patchyard.stores.blobs import FileBlobSpaces
from patchyard.stores.claims import LeaseClaims
from patchyard.stores.inspection import SQLiteInspection
from patchyard.stores.pins import FilePins
from patchyard.stores.pruning import SQLitePruning
from patchyard.stores.purse import SQLitePurse
from patchyard.tools import ask_role
from patchyard.tools.mcp import served
from patchyard.tools.toolset import toolset
from patchyard.upkeep import rules
from patchyard.workspaces.file_times import AccessTimes
from patchyard.workspaces.layers import LayerCache
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.selection import plan_folder, select_workspaces, vacant_folder
from patchyard.workspaces.subjects import GitSubjects

if TYPE_CHECKING:
    from patchyard.probing.probe import Prober

ANALYST = "patchyard.workspaces.analyst:GitAnalyst"  # loaded by the first who studies a base
HAND_OVER = "patchyard.workspaces.handover:GitHandOver"  # loaded by the first who hands over
PINS = "mcp"  # folder in the home
RUNTIME = "run"  # likewise, of environments
JANITOR_S = 3600.0  # between two passes by workers


@asynccontextmanager
async def open_equipment(
    environ: Mapping[str, str], *, shared: Shared | None = None
) -> AsyncIterator[Equipment]:
    """Open the stores of this installation and yield all adapters; closed at the end.

    `shared`: what is known of providers, where other equipment of this process has it too.

    Raises StateRefusal when the home belongs to somebody else or to a newer version.
    """
    async with AsyncExitStack() as stack:
        stores = await stack.enter_async_context(open_storage(environ))
        where, journal, clock, queue = stores.places, stores.journal, stores.clock, stores.queue
        agent = agent_identity()
        trees = GitTrees(where.home, uid=agent.uid, gid=agent.gid, environ=environ)
        folder = where.tasks or plan_folder(where.home)
        station = _station(where, clock, environ)
        environments = _LateEnvironments(station)
        stores.ballast.load(needed=FREE_BYTES)
        yield Equipment(
            store=Store(
                journal=journal,
                summaries=journal,
                purse=SQLitePurse(journal),
                budgets=SettingsBudgets(environ, journal, clock),
            ),
            claims=LeaseClaims(stores.membership),
            queue=queue,
            crew=queue,
            bus=stores.bus,
            clock=clock,
            trees=trees,
            subjects=GitSubjects(trees),
            studying=functools.cache(lambda: load(ANALYST)(trees)),
            workspaces=select_workspaces(trees, folder),
            file_times=AccessTimes(),
            blobs=FileBlobSpaces(where.home / CHECKPOINTS),
            layers=LayerCache(folder / ".layers", str(where.home)),
            handing_over=functools.cache(lambda: load(HAND_OVER)(trees)),
            environments=environments,
            keepers=_keepers(where, folder, station, environments),
            pruning=SQLitePruning(journal),
            inspection=SQLiteInspection(journal),
            variable=environ.get,
            vacant=lambda: str(vacant_folder(folder)),
            room=DiskRoom([where.home, folder], lambda: rules(environ).free),
            tools=toolset,
            inquiry=ask_role.tool,
            served=served,
            pins=FilePins(where.home / PINS),
            gateways=_LateGateways(environ),
            reader=lambda reads: load(READERS[reads])(),
            scanner=lambda reads: load(SCANNERS[reads])(where.home),
            actor=Actors(environ, stack, folder, journal, shared or Shared()).open,
        )


def environment_for(kind: ExecutionEnvironment, environ: Mapping[str, str]) -> Environment:
    """Return the adapter of one kind alone, for those who want a place and no plan.

    Raises UnknownName for a kind that this version cannot start, StateRefusal for a home of others.
    """
    if kind not in ENVIRONMENTS:
        raise no_such_kind(str(kind))
    where = places(environ)
    make_home(where.home)
    adapter: Environment = load(ENVIRONMENTS[kind])(_station(where, SystemClock(), environ))
    return adapter


@asynccontextmanager
async def open_worker(
    environ: Mapping[str, str], terms: Terms, *, told: Told
) -> AsyncIterator[tuple[Worker, Sequence[Job]]]:
    """Yield a worker of this installation, and the jobs that are always there."""

    async def clean(equipment: Equipment) -> None:
        kept = rules(environ).retention
        await Janitor(equipment, kept=kept, weighs=False).sweep()

    chores = Chores(work={"janitor": clean}, every_s={"janitor": JANITOR_S})
    settings = configure(environ)
    limits, pooling = settings.value("slots") or Limits(), settings.value("pool") or Pooling()
    require_writable(places(environ).home)
    equip = functools.partial(open_equipment, environ, shared=Shared())
    async with equip() as opened, AsyncExitStack() as stack:
        pool = WarmPool(opened, pooling, told=told, shown=_shown(stack, environ, terms, pooling))
        stack.push_async_callback(pool.close)
        equipment = replace(opened, pool=pool)
        dispatcher = Dispatcher(equipment, equip, chores=chores, told=told)
        yield Worker(equipment, dispatcher, replace(terms, limits=limits), told=told), chores.jobs()


def _shown(
    stack: AsyncExitStack, environ: Mapping[str, str], terms: Terms, pooling: Pooling
) -> Shown | None:
    """Return what tells other processes how the pool of this one stands; None: it has none."""
    if not pooling.size:
        return None
    show = stack.enter_context(board(places(environ).home, SystemClock().new_id()))
    empty = PoolState(worker=terms.name, size=pooling.size, total=pooling.total)
    show(empty)
    return lambda rows: show(replace(empty, projects=tuple(rows)))


@asynccontextmanager
async def open_prober(
    environ: Mapping[str, str], place: str, *, show: Callable[[str], str]
) -> AsyncIterator["Prober"]:
    """Yield the isolation battery for a kind or a resource; `show` is how text is shown here.

    Raises UnknownName.
    """
    from patchyard.engine.trying import trial_of  # noqa: PLC0415 - only `env probe`
    from patchyard.probing.probe import Prober, Surroundings  # noqa: PLC0415 - likewise
    from patchyard.probing.trees import Ground  # noqa: PLC0415 - likewise

    agent, home = agent_identity(), places(environ).home
    async with open_equipment(environ) as equipment:
        ground = Ground(
            trees=equipment.trees,
            workspaces=equipment.workspaces,
            handover=equipment.handover,
        )
        around = Surroundings(
            identity=(agent.uid, agent.gid) if agent.is_switched else None,
            state=home,
            runtime=home / RUNTIME,
            show=show,
            ground=ground,
            new_id=equipment.clock.new_id,
        )
        kind, spec = await trial_of(equipment, place)
        yield Prober(equipment.environment(kind), around, spec=spec)


class _LateEnvironments(Mapping[ExecutionEnvironment, Environment]):
    """The adapters of all kinds, each loaded by the first who asks for it."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._loaded: dict[ExecutionEnvironment, Environment] = {}

    def __getitem__(self, kind: ExecutionEnvironment) -> Environment:
        if kind not in self._loaded:
            self._loaded[kind] = load(ENVIRONMENTS[kind])(self._station)
        return self._loaded[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in ENVIRONMENTS

    def __iter__(self) -> Iterator[ExecutionEnvironment]:
        return iter(ENVIRONMENTS)

    def __len__(self) -> int:
        return len(ENVIRONMENTS)


class _LateGateways:
    """The gateways, loaded by the first step that needs them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def serve_indexes(
        self, listener: socket.socket, *, port: int, bounds: NetworkBounds
    ) -> AbstractAsyncContextManager[Opened]:
        """See contracts.gateway.Gateways."""
        from patchyard.clients.gateways import IndexGateways  # noqa: PLC0415 - the HTTP client

        return IndexGateways(self._environ).serve_indexes(listener, port=port, bounds=bounds)

    def granted(self, grant: NetworkGrant, *, spent: int) -> AbstractAsyncContextManager[Network]:
        """See contracts.gateway.Gateways."""
        from patchyard.clients.plan_network import open_network  # noqa: PLC0415 - the HTTP client

        return open_network(grant, self._environ, spent=spent)


def _station(where: Places, clock: SystemClock, environ: Mapping[str, str]) -> Station:
    return Station(
        runtime=where.home / RUNTIME,
        new_id=clock.new_id,
        search_path=environ.get("PATH", ""),
        home=environ.get("HOME", "/"),
        private=(str(where.home),),
        machine_image=environ.get("PATCHYARD_VM_IMAGE", ""),
    )


def _keepers(
    where: Places,
    folder: Path,
    station: Station,
    environments: Mapping[ExecutionEnvironment, Environment],
) -> Sequence[Keeper]:
    """Return who knows what of ours is on this machine."""
    from patchyard.clients.temporaries import TemporaryKeeper  # noqa: PLC0415 - for the janitor
    from patchyard.environments.furniture import furniture_keepers  # noqa: PLC0415 - likewise
    from patchyard.environments.keeping import EnvironmentKeeper  # noqa: PLC0415 - likewise
    from patchyard.stores.keeping import CheckpointKeeper  # noqa: PLC0415 - likewise
    from patchyard.workspaces.keeping import (  # noqa: PLC0415 - likewise
        MountKeeper,
        WorkspaceKeeper,
        shared_keepers,
    )

    label = None if where.tasks is None else str(where.home)
    return [
        EnvironmentKeeper(station, environments),
        MountKeeper(folder, label),
        WorkspaceKeeper(folder, label),
        CheckpointKeeper(where.home / CHECKPOINTS),
        *shared_keepers(where.home, folder),
        *furniture_keepers(station),
        TemporaryKeeper(home=where.home, workspaces=folder, outside=Path(tempfile.gettempdir())),
    ]


__all__ = [
    "environment_for",
    "open_equipment",
    "open_prober",
    "open_worker",
]
