"""What a whole task is asked with (C15): records, and plain words as a convenience over them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from patchyard.casting import Shared, model_catalogue
from patchyard.contracts.provider import ModelProvider
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault, unplaced
from patchyard.domain.gates import Gate
from patchyard.domain.limit_settings import LimitSettings
from patchyard.domain.model_names import split_name
from patchyard.domain.role import Output, Role
from patchyard.domain.role_policy import checked_role
from patchyard.execution.arguments import require
from patchyard.execution.providers import ConfiguredProvider, with_provider
from patchyard.execution.sandboxing import SandboxConfig, asked_sandbox
from patchyard.intake import Asked
from patchyard.intake_roles import role_folder, tool_names
from patchyard.models.configured import Reading, require_provider_name
from patchyard.roles.library import role_names

REQUEST = "TaskExecutionRequest"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is to be done, and on what. What is left empty is as in `agents run`."""

    text: str
    repository: str = ""  # a folder of the checkout; empty: the current one
    ref: str = ""  # `head` or a commit that the work begins on; empty: the checkout as it is
    setup: tuple[str, ...] = ()  # commands before the work
    validate: tuple[str, ...] = ()  # commands that must pass on the result
    apply_to: str = ""  # none, worktree, branch, merge, patch; empty: as it is set, else none
    allow_paths: tuple[str, ...] = ()  # globs of protected paths that may be changed
    requires_changes: bool = False  # an empty change set is a failure


@dataclass(frozen=True, kw_only=True)
class ProviderConfig:
    """The provider of one task, and which of its models. `PROVIDER:MODEL` is `name:model`."""

    name: str  # of a provider that is there; with `provider` or `settings` a name of its own
    model: str
    provider: ModelProvider | None = None  # an object of the program's own
    settings: Mapping[str, Any] = field(default_factory=dict)  # as models.yaml states a provider


@dataclass(frozen=True, kw_only=True)
class TaskExecutionRequest:
    """One task, and what it is carried out with. What is left empty is as in `agents run`.

    `task`, `agent`, `sandbox` and `provider` are records; the words beside them say the same
    shortly, each for what the records do not say.
    """

    task: Task | str
    agent: Role | None = None  # who works on it; in the place of `role`
    sandbox: SandboxConfig | None = None  # in the place of `environment`, `variables` and hosts
    provider: ProviderConfig | ConfiguredProvider | None = None  # in the place of `model`
    repository: str = ""
    role: str = ""  # developer, tester, reviewer, architect, or one of the user's own
    environment: str = ""  # a kind, an alias or a linked resource
    model: str = ""  # PROVIDER:MODEL; empty: as of the role
    validate: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)  # the agent can read them
    allow_hosts: tuple[str, ...] = ()
    apply_to: str = ""
    usd: float | None = None  # limits; None: the default
    tokens: int | None = None
    steps: int | None = None
    seconds: float | None = None


def asked_of(request: TaskExecutionRequest, model: str, environ: Mapping[str, str]) -> Asked:
    """Return what `agents run` would be asked, with `model` (PROVIDER:MODEL) in it.

    Raises UsageError for what is said twice, and for what a record cannot say.
    """
    task = _task_of(request)
    asked = Asked(
        task=task.text,
        repository=task.repository or ".",
        ref=task.ref or None,
        role=request.role or None,
        charter=_agent_of(request, environ),
        kind=request.environment or None,
        model=model or None,
        validate=task.validate,
        setup=task.setup,
        variables=_words(request.variables),
        allow_hosts=request.allow_hosts,
        allow_paths=task.allow_paths,
        requires_changes=task.requires_changes,
        apply_to=task.apply_to or None,
        usd=request.usd,
        tokens=request.tokens,
        steps=request.steps,
        seconds=request.seconds,
    )
    if request.sandbox is None:
        return asked
    if not isinstance(request.sandbox, SandboxConfig):
        raise _no_record("sandbox", request.sandbox, "SandboxConfig(kind=...)")
    for name in ("environment", "variables", "allow_hosts"):
        if getattr(request, name):
            raise _twice(name, "sandbox")
    return asked_sandbox(asked, request.sandbox)


_TEXTS = ("repository", "role", "environment", "model", "apply_to", "text", "ref")
_ROWS = ("setup", "validate", "allow_hosts", "allow_paths")


def require_request(request: object) -> None:
    """Raise UsageError where this is no request, or words of it are of another type.

    A text in the place of several would be read letter by letter.
    """
    if not isinstance(request, TaskExecutionRequest):
        raise UsageError(
            f"a task was given as a {type(request).__name__}",
            hint=f"write {REQUEST}(task='...')",
        )
    _require_types(request, REQUEST)
    for name in ("usd", "tokens", "steps", "seconds"):
        require(f"{REQUEST}.{name}", getattr(request, name), (int, float, type(None)))
    if isinstance(request.task, Task):
        _require_types(request.task, "Task")
    if not isinstance(request.variables, Mapping):
        raise _no_record("variables", request.variables, "a mapping of names to texts")


def _require_types(record: TaskExecutionRequest | Task, name: str) -> None:
    for field_name in _TEXTS:
        value = getattr(record, field_name, "")
        if value and not isinstance(value, (str, os.PathLike)):
            raise UsageError(
                f"{name}.{field_name} is a {type(value).__name__}, not a text",
                hint=f"say {field_name}='...'",
            )
    for field_name in _ROWS:
        value = getattr(record, field_name, ())
        is_row = isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
        if value and not is_row:
            raise UsageError(
                f"{name}.{field_name} is {value!r:.80}, and takes several texts",
                hint=f"say {field_name}=('...',)",
            )


def _task_of(request: TaskExecutionRequest) -> Task:
    """Return the whole task; the words beside a record say what that leaves empty."""
    words: dict[str, Any] = {
        "repository": request.repository,
        "setup": request.setup,
        "validate": request.validate,
        "apply_to": request.apply_to,
    }
    said = {name: word for name, word in words.items() if word}
    if isinstance(request.task, str):
        return Task(text=request.task, **said)
    if not isinstance(request.task, Task):
        raise _no_record("task", request.task, "Task(text=...)")
    for name in said:
        if getattr(request.task, name):
            raise _twice(name, "task")
    return replace(request.task, **said)


def _agent_of(request: TaskExecutionRequest, environ: Mapping[str, str]) -> Role | None:
    if request.agent is None:
        return None
    if request.role:
        raise _twice("role", "agent")
    if not isinstance(request.agent, Role):
        raise _no_record("agent", request.agent, "Role(name=...), or a name as `role`")
    try:
        roles = role_names(role_folder(environ))
        return checked_role(request.agent, tools=tool_names(), roles=roles)
    except Fault as fault:
        raise unplaced(fault, f"{REQUEST}.agent: {fault.message}") from fault


def _words(variables: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in variables.items())


def _twice(name: str, record: str) -> UsageError:
    return UsageError(
        f"`{name}` of {REQUEST} is said twice: there is a record `{record}`, too",
        hint=f"say it in the record, and leave `{name}` out",
    )


def _no_record(name: str, value: object, wanted: str) -> UsageError:
    return UsageError(f"{REQUEST}.{name} is a {type(value).__name__}", hint=f"write {wanted}")


def provider_of(
    request: TaskExecutionRequest, environ: Mapping[str, str], shared: Shared
) -> tuple[str, Shared]:
    """Return the model's name, and `shared` with the request's own provider in it.

    Raises UsageError, UnknownName.
    """
    given: object = request.provider
    if given is None:
        return request.model, shared
    if request.model:
        raise _twice("model", "provider")
    if isinstance(given, ConfiguredProvider):
        provided = {**shared.provided, **given.shared.provided}
        return given.name, replace(shared, provided=provided)
    if not isinstance(given, ProviderConfig):
        wanted = "ProviderConfig(name=NAME, model=MODEL, ...), or what a ProviderFactory returns"
        raise _no_record("provider", given, wanted)
    return f"{given.name}:{given.model}", _with(given, environ, shared)


def _with(config: ProviderConfig, environ: Mapping[str, str], shared: Shared) -> Shared:
    split_name(f"{config.name}:{config.model}")
    catalogue = model_catalogue(environ, shared=shared)
    if config.provider is not None and config.settings:
        said = f"{REQUEST}.provider has an object and `settings`"
        raise UsageError(said, hint="leave one of them out")
    if config.provider is not None:
        provided = with_provider(catalogue, config.name, config.provider).provided
        return replace(shared, provided=provided)
    if not config.settings:
        catalogue.require(f"{config.name}:{config.model}")
        return shared
    require_provider_name(config.name)
    if config.name in catalogue.providers:
        raise UsageError(f"there is a provider {config.name} already", hint="take another name")
    try:
        stated = Reading(environ=environ).provider(config.name, config.settings, ("settings",))
    except Fault as fault:
        raise unplaced(fault, f"{REQUEST}.provider: {fault.message}") from fault
    return replace(shared, configured={**shared.configured, config.name: stated})


__all__ = [
    "REQUEST",
    "Gate",
    "LimitSettings",
    "Output",
    "ProviderConfig",
    "Role",
    "Task",
    "TaskExecutionRequest",
    "asked_of",
    "provider_of",
    "require_request",
]
