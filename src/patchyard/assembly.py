"""The only place that knows concrete classes: puts the engine together from settings."""

import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchyard.ceilings import SettingsBudgets
from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.clients.identity import agent_identity
from patchyard.clients.pool_boards import board
from patchyard.clients.room import DiskRoom
from patchyard.config import Places, places
from patchyard.configuration import configure, user_file
from patchyard.contracts.actor import Actor, Casting
from patchyard.contracts.environment import Environment
from patchyard.contracts.gateway import Network, Opened
from patchyard.contracts.journal import Journal
from patchyard.contracts.leftovers import Keeper
from patchyard.contracts.model import Model
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.environment import (
    ExecutionEnvironment,
    no_such_kind,
    strength_of_word,
)
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.keeping import FREE_BYTES
from patchyard.domain.lineage import REPLAYS
from patchyard.domain.network import NetworkGrant
from patchyard.domain.plan import PlanSpec
from patchyard.domain.pooling import Pooling, PoolState
from patchyard.domain.queue import Job, Limits
from patchyard.engine.dispatcher import Chores, Dispatcher, Told
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Store
from patchyard.engine.pool import Shown, WarmPool
from patchyard.engine.sites import general_site, walls_of
from patchyard.engine.trying import trial_of
from patchyard.engine.worker import Terms, Worker
from patchyard.registry import ACTORS, ENVIRONMENTS, load
from patchyard.storage import make_home, open_storage
from patchyard.stores.blobs import FileBlobSpaces
from patchyard.stores.claims import LeaseClaims
from patchyard.stores.pruning import SQLitePruning
from patchyard.stores.purse import SQLitePurse
from patchyard.tools.toolset import toolset
from patchyard.upkeep import rules
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.layers import LayerCache
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.selection import plan_folder, select_workspaces

if TYPE_CHECKING:
    from patchyard.models.budgeted import BudgetedModel
    from patchyard.models.providers import Catalogue
    from patchyard.probing.probe import Prober

CHECKPOINTS = "checkpoints"  # folder in the home
RUNTIME = "run"  # likewise, of environments
JANITOR_S = 3600.0  # between two passes by workers


@asynccontextmanager
async def open_equipment(environ: Mapping[str, str]) -> AsyncIterator[Equipment]:
    """Open the stores of this installation and yield all adapters; closed at the end.

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
            clock=clock,
            trees=trees,
            workspaces=select_workspaces(trees, folder),
            blobs=FileBlobSpaces(where.home / CHECKPOINTS),
            layers=LayerCache(folder / ".layers", str(where.home)),
            handover=GitHandOver(trees),
            environments=environments,
            keepers=_keepers(where, folder, station, environments),
            pruning=SQLitePruning(journal),
            room=DiskRoom([where.home, folder], lambda: rules(environ).free),
            tools=toolset,
            gateways=_LateGateways(environ),
            actor=_Actors(environ, stack, folder, journal).open,
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
    from patchyard.engine.janitor import Janitor  # noqa: PLC0415 - only workers and `gc` need it

    async def clean(equipment: Equipment) -> None:
        kept = rules(environ).retention
        await Janitor(equipment, kept=kept, weighs=False).sweep()

    chores = Chores(work={"janitor": clean}, every_s={"janitor": JANITOR_S})
    settings = configure(environ)
    limits, pooling = settings.value("slots") or Limits(), settings.value("pool") or Pooling()
    async with open_equipment(environ) as opened, AsyncExitStack() as stack:
        pool = WarmPool(opened, pooling, told=told, shown=_shown(stack, environ, terms, pooling))
        stack.push_async_callback(pool.close)
        equipment = replace(opened, pool=pool)
        dispatcher = Dispatcher(
            equipment, lambda: open_equipment(environ), chores=chores, told=told
        )
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
    from patchyard.probing.probe import Prober, Surroundings  # noqa: PLC0415 - only `env probe`
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


class _Actors:
    """Opens actors and their models; a plan's phases in one process share one model."""

    def __init__(
        self, environ: Mapping[str, str], stack: AsyncExitStack, plans: Path, journal: Journal
    ) -> None:
        self._environ = environ
        self._stack = stack
        self._plans = plans
        self._journal = journal
        self._models: dict[str, _Metered] = {}  # by plan: a recording is at one plan's place

    async def open(self, casting: Casting) -> Actor:
        """Return the actor for one phase. Raises UnknownName, UsageError, ModelUnavailable."""
        agent = casting.spec.agent
        if agent == REPLAYS:
            from patchyard.engine.replaying import replayer  # noqa: PLC0415 - only for a replay

            return await replayer(self._journal, casting)
        if agent not in ACTORS:
            raise UnknownName.among("agent", agent, ACTORS)
        kind = load(ACTORS[agent][casting.phase])
        if agent != "model":
            asks_nobody: Actor = kind()
            return asks_nobody
        if casting.plan_id not in self._models:
            found = await self._model(casting)
            self._stack.push_async_callback(found.model.close)
            self._models[casting.plan_id] = found
        metered = self._models[casting.plan_id]
        metered.budgeted.meter = casting.meter
        made: Actor = kind(model=metered.model, on_text=casting.on_text)
        return made

    async def _model(self, casting: Casting) -> "_Metered":
        from patchyard.models.budgeted import BudgetedModel  # noqa: PLC0415 - only this actor needs it
        from patchyard.models.choosing import choose, terms  # noqa: PLC0415 - only this actor needs it
        from patchyard.models.recorded import RecordedModel, RecordingModel  # noqa: PLC0415 - likewise

        spec = casting.spec
        here = walls_of(general_site(spec), spec)
        catalogue = replace(
            model_catalogue(self._environ),
            workspace=spec.repository,
            plans=str(self._plans),
            on_wait=casting.on_wait,
        )
        choice = await choose(catalogue, named=spec.model)
        model = catalogue.open(choice.name)
        said = terms(choice, model.facts, spec.limits)
        if said and casting.on_wait is not None:
            casting.on_wait(said)
        if isinstance(model, RecordedModel):
            _require_strength(choice.name, model.head.environment, here)
        budgeted = BudgetedModel(model)
        if spec.record_to is None:
            return _Metered(model=budgeted, budgeted=budgeted)
        recording = RecordingModel(
            budgeted,
            Path(spec.record_to),
            places=catalogue.placeholders(),
            environment=here,
            plan=casting.plan_id,
        )
        return _Metered(model=recording, budgeted=budgeted)


@dataclass(frozen=True, kw_only=True)
class _Metered:
    """A plan's model, and the wrapper in it that each phase's meter is given to."""

    model: Model
    budgeted: "BudgetedModel"


def model_catalogue(environ: Mapping[str, str]) -> "Catalogue":
    """Return the providers there are: built in, and of the user's own `models.yaml`.

    Raises UsageError with file, line and column.
    """
    from patchyard.models.configured import configured  # noqa: PLC0415 - only for models
    from patchyard.models.prices import shipped_prices  # noqa: PLC0415 - likewise
    from patchyard.models.providers import Catalogue  # noqa: PLC0415 - likewise

    own = user_file(environ).with_name("models.yaml")
    return Catalogue(environ=environ, prices=shipped_prices(), configured=configured(own))


def require_actor(spec: PlanSpec, environ: Mapping[str, str]) -> None:
    """Raise UsageError or UnknownName for an actor, a model or a file of one that there is not.

    Asks nobody: whether a provider has the model shows when it is needed.
    """
    if spec.agent not in ACTORS:
        raise UnknownName.among("agent", spec.agent, ACTORS)
    if spec.agent == "model" and spec.model:
        model_catalogue(environ).require(spec.model)
    if spec.record_to is not None:
        _require_new(Path(spec.record_to))


def _require_new(path: Path) -> None:
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written", hint="name a file in a folder of yours")
    if path.exists() and path.stat().st_size:
        raise UsageError(f"{path} exists already", hint="name another file, or delete it first")


def _require_strength(name: str, recorded_in: str, here: str) -> None:
    """Raise UsageError where a recording would be played back behind weaker walls."""
    if strength_of_word(here) >= strength_of_word(recorded_in):
        return
    raise UsageError(
        f"{name} was recorded in {recorded_in}, and {here} is weaker than that",
        hint=f"play it back with `--in {recorded_in}`, or in a stronger kind",
        details={"recorded_in": recorded_in, "environment": here},
    )


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
    "model_catalogue",
    "open_equipment",
    "open_prober",
    "open_worker",
    "require_actor",
]
