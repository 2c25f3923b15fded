"""Who thinks for a plan: actors by name, and the models that they ask, in chains."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchyard.clients.yaml import parse_yaml
from patchyard.configuration import MODELS_FILE, user_file
from patchyard.contracts.actor import Actor, Casting
from patchyard.contracts.journal import Journal
from patchyard.contracts.model import Model
from patchyard.contracts.provider import ModelProvider
from patchyard.domain.environment import require_strength
from patchyard.domain.errors import ModelUnavailable, UnknownName, UsageError
from patchyard.domain.lineage import REPLAYS
from patchyard.domain.plan import PlanSpec
from patchyard.engine.sites import general_site, walls_of
from patchyard.models.circuits import Circuits
from patchyard.models.limited import Throttles
from patchyard.registry import ACTORS, load
from patchyard.roles.library import FOLDER, role_names

if TYPE_CHECKING:
    from patchyard.models.budgeted import BudgetedModel
    from patchyard.models.combined import Destination
    from patchyard.models.configured import Reading
    from patchyard.models.failing_over import FailingOverModel
    from patchyard.models.provider_settings import ProviderSettings
    from patchyard.models.providers import Catalogue


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all plans of one process know of providers."""

    circuits: Circuits = field(default_factory=Circuits)
    throttles: Throttles = field(default_factory=Throttles)
    provided: Mapping[str, ModelProvider] = field(default_factory=dict)  # by the program at hand
    configured: Mapping[str, "ProviderSettings"] = field(default_factory=dict)  # likewise


class Actors:
    """Opens actors and their models; a plan's phases in one process share one model."""

    def __init__(
        self,
        environ: Mapping[str, str],
        stack: AsyncExitStack,
        plans: Path,
        journal: Journal,
        shared: Shared,
    ) -> None:
        self._environ = environ
        self._stack = stack
        self._plans = plans
        self._journal = journal
        self._shared = shared
        self._models: dict[str, _Asked] = {}  # by plan: a recording is at one plan's place

    async def open(self, casting: Casting) -> Actor:
        """Return the actor for one phase. Raises UnknownName, UsageError, ModelUnavailable."""
        agent = casting.spec.agent
        if agent == REPLAYS:
            from patchyard.engine.replaying import replayer  # noqa: PLC0415 - only for a replay

            _tell(casting, "none: what was said before is said again")
            return await replayer(self._journal, casting)
        if agent not in ACTORS:
            raise UnknownName.among("agent", agent, ACTORS)
        kind = load(ACTORS[agent][casting.phase])
        if agent != "model":
            _tell(casting, f"none: {agent} asks no model")
            asks_nobody: Actor = kind()
            return asks_nobody
        found = self._models.get(casting.plan_id)
        if found is None or found.is_for_others(casting):
            found = await self._model(casting)
            self._stack.push_async_callback(found.model.close)
            self._models[casting.plan_id] = found
        found.serve(casting)
        _tell(casting, found.chosen)
        made: Actor = kind(model=found.model, on_text=casting.on_text)
        return made

    def _catalogue(self, casting: Casting) -> "Catalogue":
        from patchyard.models.provided import Work  # noqa: PLC0415 - only this actor needs it

        return replace(
            model_catalogue(self._environ, casting.spec.models, shared=self._shared),
            workspace=casting.spec.repository,
            work=Work(task=casting.spec.task, role=casting.spec.role),
            plans=str(self._plans),
            throttles=self._shared.throttles,
            on_wait=casting.on_wait,
        )

    async def _model(self, casting: Casting) -> "_Asked":
        from patchyard.clients.allocator import keep_large_blocks  # noqa: PLC0415 - not for `--help`
        from patchyard.models.budgeted import BudgetedModel  # noqa: PLC0415 - only this actor needs it
        from patchyard.models.choosing import QUICK, choose, terms  # noqa: PLC0415 - only this actor needs it
        from patchyard.models.failing_over import FailingOverModel  # noqa: PLC0415 - likewise
        from patchyard.models.recorded import RecordedModel, RecordingModel  # noqa: PLC0415 - likewise
        from patchyard.models.texted import TextedModel  # noqa: PLC0415 - likewise

        keep_large_blocks()  # for requests, each of which is larger than the one before
        spec = casting.spec
        here = walls_of(general_site(spec), spec)
        catalogue = self._catalogue(casting)
        if spec.model:
            require_there(catalogue, spec.model)
        choice = await choose(
            catalogue, named=spec.model, role=spec.role, task=spec.task, kind=casting.kind
        )
        by_kind = {} if spec.model else catalogue.preferred.get(spec.role, {})
        usual = catalogue.roles.get(spec.role, choice.names)
        models = [catalogue.open(name) for name in choice.names]
        said = terms(choice, models[0].facts, spec.limits)
        if said and casting.on_terms is not None:
            casting.on_terms(said)
        for model in models:
            if isinstance(model, RecordedModel):
                require_strength(model.facts.name, model.head.environment, here)
        budgeted = [BudgetedModel(model) for model in models]
        texted = [TextedModel(model) for model in budgeted]  # bounded as it is sent
        look = replace(catalogue, waits=QUICK, on_wait=None).offered
        chain = None
        if len(texted) > 1:
            circuits = self._shared.circuits.among(catalogue.places)
            chain = FailingOverModel(texted, circuits, look=look)
        asked = chain or texted[0]
        if spec.record_to is None:
            return _Asked(
                model=asked,
                budgeted=budgeted,
                chain=chain,
                chosen=choice.shown,
                names=choice.names,
                by_kind=by_kind,
                usual=usual,
            )
        await catalogue.read_keys()  # so that they can be hidden
        recording = RecordingModel(
            asked,
            Path(spec.record_to),
            places=catalogue.placeholders(),
            environment=here,
            plan=casting.plan_id,
            chain=[model.facts.name for model in models],
        )
        return _Asked(model=recording, budgeted=budgeted, chain=chain, chosen=choice.shown)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A plan's model, and the wrappers in it that each phase's ears are given to."""

    model: Model
    budgeted: Sequence["BudgetedModel"]
    chain: "FailingOverModel | None"
    chosen: str  # which models, and why
    names: tuple[str, ...] = ()
    by_kind: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the role's, by kind
    usual: tuple[str, ...] = ()  # the role's for all other kinds

    def is_for_others(self, casting: Casting) -> bool:
        """Whether the role has other models for the kind of task that its strategy says."""
        if not self.by_kind or not casting.kind:
            return False
        return self.by_kind.get(casting.kind, self.usual) != self.names

    def serve(self, casting: Casting) -> None:
        """Let the phase at hand pay, and hear of switches."""
        for model in self.budgeted:
            model.meter = casting.meter
        if self.chain is not None:
            self.chain.on_switch = casting.on_switch


def _tell(casting: Casting, chosen: str) -> None:
    if casting.on_chosen is not None:
        casting.on_chosen(chosen)


def require_there(catalogue: "Catalogue", name: str) -> None:
    """Raise ModelUnavailable for a model whose provider was there when its plan was made."""
    from patchyard.models.providers import FILES  # noqa: PLC0415 - only for models

    provider = name.partition(":")[0]
    try:
        if provider not in FILES:
            catalogue.provider(provider)
    except UnknownName as error:
        raise ModelUnavailable(
            f"the plan's model is {name}, and this process has no such provider",
            hint="where a program has brought it, carry the plan on in that program:"
            " `await engine.resume(PLAN_ID)`; else name the provider in your models.yaml,"
            " or go on with another model: `agents plan fork ID --model PROVIDER:MODEL`",
            details={"kind": "no_provider", "provider": provider},
        ) from error


def model_catalogue(
    environ: Mapping[str, str], repository: str = "", *, shared: Shared | None = None
) -> "Catalogue":
    """Return the providers there are: built in, of the user's own `models.yaml`, and brought.

    `repository` is the text of a trusted repository's one, whose roles go before the user's.
    `shared` has what the program at hand has brought.
    Raises UsageError with file, line and column.
    """
    from patchyard.models.combined import combined  # noqa: PLC0415 - only for models
    from patchyard.models.prices import shipped_prices  # noqa: PLC0415 - likewise
    from patchyard.models.providers import Catalogue  # noqa: PLC0415 - likewise

    reading = _reading(environ)
    document = parse_yaml(repository, name=MODELS_FILE)
    said = combined(reading, user_file(environ).with_name("models.yaml"), document)
    return Catalogue(
        environ=environ,
        prices=shipped_prices(),
        configured={**said.providers, **(shared.configured if shared else {})},
        provided=shared.provided if shared else {},
        roles=said.roles,
        preferred=said.preferred,
        in_repository=said.in_repository,
        of_repository=said.of_repository,
        shipped_roles=reading.shipped_roles(),
    )


def destinations_of(environ: Mapping[str, str], repository: str) -> "Sequence[Destination]":
    """Return where the text of a repository's `models.yaml` sends code; see `destinations`."""
    from patchyard.models.combined import destinations  # noqa: PLC0415 - only for models

    document = parse_yaml(repository, name=MODELS_FILE)
    return destinations(_reading(environ), user_file(environ).with_name("models.yaml"), document)


def _reading(environ: Mapping[str, str]) -> "Reading":
    from patchyard.models.configured import Reading  # noqa: PLC0415 - only for models

    stage = environ.get("PATCHYARD_MODELS_ENVIRONMENT", "")
    own_roles = role_names(user_file(environ).with_name(FOLDER))
    return Reading(environ=environ, roles=own_roles, stage=stage)


def require_actor(
    spec: PlanSpec, environ: Mapping[str, str], *, shared: Shared | None = None
) -> None:
    """Raise UsageError or UnknownName for an actor, a model or a file of one that there is not.

    Asks nobody: whether a provider has the model shows when it is needed.
    `shared` has what the program at hand has brought.
    """
    if spec.agent not in ACTORS:
        raise UnknownName.among("agent", spec.agent, ACTORS)
    if spec.agent == "model" and (spec.model or spec.models):
        catalogue = model_catalogue(environ, spec.models, shared=shared)
        if spec.model:
            catalogue.require(spec.model)
    if spec.record_to is not None:
        _require_new(Path(spec.record_to))


def _require_new(path: Path) -> None:
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written", hint="name a file in a folder of yours")
    if path.exists() and path.stat().st_size:
        raise UsageError(f"{path} exists already", hint="name another file, or delete it first")


__all__ = [
    "Actors",
    "Shared",
    "destinations_of",
    "model_catalogue",
    "require_actor",
    "require_there",
]
