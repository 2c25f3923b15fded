"""What a whole task is asked with (C15): records, and plain words as a convenience over them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from patchyard.casting import Shared, model_catalogue
from patchyard.contracts.provider import ModelProvider
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault, unplaced
from patchyard.domain.model_names import split_name
from patchyard.execution.providers import ConfiguredProvider, with_provider
from patchyard.intake import Asked
from patchyard.models.configured import Reading, require_provider_name

PROVIDER = "TaskExecutionRequest.provider"


@dataclass(frozen=True, kw_only=True)
class ProviderConfig:
    """The provider of one task, and which of its models. `PROVIDER:MODEL` is `name:model`."""

    name: str  # of a provider that is there; with `provider` or `settings` a name of its own
    model: str
    provider: ModelProvider | None = None  # an object of the program's own
    settings: Mapping[str, Any] = field(default_factory=dict)  # as models.yaml states a provider


@dataclass(frozen=True, kw_only=True)
class TaskExecutionRequest:
    """One task, and what it is carried out with. What is left empty is as in `agents run`."""

    task: str
    repository: str = "."
    role: str = ""  # developer, tester, reviewer, architect, or one of the user's own
    environment: str = ""  # a kind, an alias or a linked resource
    model: str = ""  # PROVIDER:MODEL; empty: as of the role
    provider: ProviderConfig | ConfiguredProvider | None = None  # in the place of `model`
    validate: tuple[str, ...] = ()  # commands that must pass on the result
    setup: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)  # the agent can read them
    allow_hosts: tuple[str, ...] = ()
    apply_to: str = ""  # none, worktree, branch, merge, patch; empty: as it is set, else none
    usd: float | None = None  # limits; None: the default
    tokens: int | None = None
    steps: int | None = None
    seconds: float | None = None


def asked_of(request: TaskExecutionRequest, model: str) -> Asked:
    """Return what `agents run` would be asked, with `model` (PROVIDER:MODEL) in it."""
    return Asked(
        task=request.task,
        repository=request.repository,
        role=request.role or None,
        kind=request.environment or None,
        model=model or None,
        validate=request.validate,
        setup=request.setup,
        variables=tuple(f"{name}={value}" for name, value in request.variables.items()),
        allow_hosts=request.allow_hosts,
        apply_to=request.apply_to or None,
        usd=request.usd,
        tokens=request.tokens,
        steps=request.steps,
        seconds=request.seconds,
    )


def provider_of(
    request: TaskExecutionRequest, environ: Mapping[str, str], shared: Shared
) -> tuple[str, Shared]:
    """Return the model's name, and `shared` with the request's own provider in it.

    Raises UsageError, UnknownName.
    """
    given = request.provider
    if given is None:
        return request.model, shared
    if request.model:
        raise UsageError(
            f"the model is said twice: `model` is {request.model}, and there is a `provider`",
            hint="leave `model` out",
        )
    if isinstance(given, ConfiguredProvider):
        provided = {**shared.provided, **given.shared.provided}
        return given.name, replace(shared, provided=provided)
    if not isinstance(given, ProviderConfig):
        raise UsageError(
            f"{PROVIDER} is a {type(given).__name__}",
            hint="write ProviderConfig(name=NAME, model=MODEL, provider=...), or take what a"
            " ProviderFactory returns",
        )
    return f"{given.name}:{given.model}", _with(given, environ, shared)


def _with(config: ProviderConfig, environ: Mapping[str, str], shared: Shared) -> Shared:
    split_name(f"{config.name}:{config.model}")
    catalogue = model_catalogue(environ, shared=shared)
    if config.provider is not None and config.settings:
        raise UsageError(f"{PROVIDER} has an object and `settings`", hint="leave one of them out")
    if config.provider is not None:
        return replace(
            shared, provided=with_provider(catalogue, config.name, config.provider).provided
        )
    if not config.settings:
        catalogue.provider(config.name)
        return shared
    require_provider_name(config.name)
    if config.name in catalogue.providers:
        raise UsageError(f"there is a provider {config.name} already", hint="take another name")
    try:
        stated = Reading(environ=environ).provider(config.name, config.settings, ("settings",))
    except Fault as fault:
        raise unplaced(fault, f"{PROVIDER}: {fault.message}") from fault
    return replace(shared, configured={**shared.configured, config.name: stated})


__all__ = ["PROVIDER", "ProviderConfig", "TaskExecutionRequest", "asked_of", "provider_of"]
