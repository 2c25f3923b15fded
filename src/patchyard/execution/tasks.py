"""A whole task for other programs (C15), and the models that can carry one out (C1, C3)."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from patchyard.assembly import open_equipment
from patchyard.casting import model_catalogue
from patchyard.domain.errors import (
    ModelFailed,
    ModelUnavailable,
    PatchyardError,
    ReviewRejected,
    UnknownName,
)
from patchyard.domain.failover import Failure, all_failed
from patchyard.domain.machine import refusal_of
from patchyard.domain.messages import ModelFacts
from patchyard.domain.model_names import split_name
from patchyard.domain.review import Verdict
from patchyard.domain.views import held
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Workflow
from patchyard.execution.outcomes import Outcome
from patchyard.intake import Asked
from patchyard.intake_roles import role_folder
from patchyard.making import considered, made
from patchyard.models.choosing import QUICK, choose
from patchyard.models.providers import Catalogue
from patchyard.roles.library import role_names

LONGEST_LOOK_S = 2 * QUICK.whole_s  # of one provider, whatever its own waits say

USED = ("tokens", "input_tokens", "output_tokens", "usd", "steps", "seconds")  # of `cost`


@dataclass(frozen=True, kw_only=True)
class TaskExecutionRequest:
    """One task, and what it is carried out with. What is left empty is as in `agents run`."""

    task: str
    repository: str = "."
    role: str = ""  # developer, tester, reviewer, architect, or one of the user's own
    environment: str = ""  # a kind, an alias or a linked resource
    model: str = ""  # PROVIDER:MODEL; empty: as of the role
    validate: tuple[str, ...] = ()  # commands that must pass on the result
    setup: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)  # the agent can read them
    allow_hosts: tuple[str, ...] = ()
    apply_to: str = "none"  # none, worktree, branch, merge, patch
    usd: float | None = None  # limits; None: the default
    tokens: int | None = None
    steps: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class TaskExecutionResult(Outcome):
    """How a task ended. `data` is what `agents run --format json` gives, {} without a plan.

    What was used is 0 without a plan, and has the names of the request's limits.
    """

    plan_id: str = ""
    summary: str = ""
    changed: bool = False
    tokens: int = 0  # in and out together
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0  # None: a model's price is not known
    steps: int = 0  # turns of the actors
    seconds: float = 0.0  # wall time over all phases
    limit: str = ""  # the one that stopped it: `steps`, `budget.day_usd`, `rounds`
    hint: str = ""  # what cures the failure
    data: Mapping[str, Any] = field(default_factory=dict)


async def execute_task(
    request: TaskExecutionRequest, *, environ: Mapping[str, str] | None = None
) -> TaskExecutionResult:
    """Carry a task out, from its plan to its proof.

    Each failure is told by `error`, never raised: the codes of `patchyard.domain.errors`, and
    `internal` for what Patchyard has no name for. Only a cancellation passes on.
    `environ` stands for the variables of this process: settings, keys, where the state lies.
    """
    plan_id = ""
    data: Mapping[str, Any] = {}
    try:
        environ = dict(os.environ) if environ is None else environ
        async with open_equipment(environ) as equipment:
            intake = await considered(equipment, _asked(request), environ)
            plan_id, _ = await made(equipment, intake.spec)
            failure = await _failure(Workflow(equipment), plan_id)
            data = held(
                await plan_data(await Ledger.open(equipment.store, equipment.clock, plan_id))
            )
        if failure is None:
            return _told(plan_id, data)
        return _failed(failure, plan_id, data)
    except BaseException as error:
        if not isinstance(error, Exception):
            raise
        return _failed(error, plan_id, data)


def _failed(error: Exception, plan_id: str, data: Mapping[str, Any]) -> TaskExecutionResult:
    known = _known(error)
    return TaskExecutionResult(
        message=known.message,
        error=known.code,
        retryable=known.retryable,
        hint=known.hint,
        plan_id=plan_id,
        data=data,
        limit=str(known.details.get("limit_name", "")),
        **_used(data),
    )


def _used(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result's fields of what a plan used, {} without a plan."""
    cost: Mapping[str, Any] = data.get("cost", {})
    return {name: cost[name] for name in USED if name in cost}


async def _failure(workflow: Workflow, plan_id: str) -> Exception | None:
    """Run a plan; return what it failed with."""
    try:
        await workflow.run(plan_id)
    except BaseException as error:
        if not isinstance(error, Exception):
            raise
        return error
    return None


class Internal(PatchyardError):
    """A failure that Patchyard has no name for."""

    code = "internal"
    default_hint = "this is a defect of Patchyard; please report it with the words above"


def _known(error: Exception) -> PatchyardError:
    """Return a failure as one of ours; of several at once the first."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, (PatchyardError, OSError)):
        return refusal_of(error)
    return Internal(f"{type(error).__name__}: {error}")


def _told(plan_id: str, data: Mapping[str, Any]) -> TaskExecutionResult:
    review = data["review"]
    is_rejected = review is not None and review["verdict"] == Verdict.REQUEST_CHANGES
    return TaskExecutionResult(
        success=not is_rejected,
        error=ReviewRejected.code if is_rejected else None,
        message=f"plan {plan_id} is {data['phase']}/{data['state']}",
        plan_id=plan_id,
        summary=str(data["summary"]),
        changed=bool(data["changed"]),
        data=data,
        **_used(data),
    )


def _asked(request: TaskExecutionRequest) -> Asked:
    return Asked(
        task=request.task,
        repository=request.repository,
        role=request.role or None,
        kind=request.environment or None,
        model=request.model or None,
        validate=request.validate,
        setup=request.setup,
        variables=tuple(f"{name}={value}" for name, value in request.variables.items()),
        allow_hosts=request.allow_hosts,
        apply_to=request.apply_to,
        usd=request.usd,
        tokens=request.tokens,
        steps=request.steps,
        seconds=request.seconds,
    )


class ModelProvider:
    """One model of one provider, as something that tasks are given to (C1)."""

    def __init__(self, name: str, facts: ModelFacts, environ: Mapping[str, str]) -> None:
        """Take the name (PROVIDER:MODEL) and what is known of it; a factory makes it."""
        self.name = name
        self.facts = facts
        self._environ = environ

    async def execute_task(self, request: TaskExecutionRequest) -> TaskExecutionResult:
        """Carry a task out with this model, whatever the request names."""
        asked = replace(request, model=self.name)
        return await execute_task(asked, environ=self._environ)

    def supports_tools(self) -> bool:
        """Whether it can use tools: natively or, where it has no calls, by a text protocol."""
        return True

    def supports_mcp(self) -> bool:
        """Whether it can use tools of MCP servers: they are tools like others to it."""
        return self.supports_tools()

    def get_capabilities(self) -> list[str]:
        """Return what is known of it, such as `native-tools` and `context:32768`."""
        native = ["native-tools"] if self.facts.has_tools else ["tools-by-text"]
        window = self.facts.context_tokens
        priced = self.facts.usd_per_million_output is not None
        return [
            *("tools", "mcp"),
            *native,
            *(["images"] if self.facts.has_images else []),
            *([f"context:{window}"] if window is not None else []),
            *(["known-price"] if priced else []),
        ]


class ProviderFactory:
    """Builds model providers from the configuration, and chooses among them (C3)."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Take the variables that say where the user's configuration lies. Raises UsageError."""
        self._environ = dict(os.environ) if environ is None else environ
        self._catalogue: Catalogue = model_catalogue(self._environ)

    def providers(self) -> list[str]:
        """Return the names of the providers there are, built in and configured."""
        return sorted(self._catalogue.providers)

    async def create(self, name: str) -> ModelProvider:
        """Return the model PROVIDER:MODEL, looked up at its provider; it costs nothing.

        Raises UsageError, UnknownName, ModelUnavailable, ModelFailed.
        """
        split_name(name)
        return ModelProvider(name, await self._catalogue.look_up(name), self._environ)

    async def for_role(self, role: str) -> ModelProvider:
        """Return the first model of a role's chain that is there.

        Raises UnknownName, ModelUnavailable with every cause.
        """
        known = role_names(role_folder(self._environ))
        if role not in known:
            raise UnknownName.among("role", role, known)
        return await self._first((await choose(self._catalogue, role=role)).names)

    async def select(self) -> ModelProvider:
        """Return what is configured, there and able, as `agents run` takes it.

        Raises ModelUnavailable.
        """
        return await self._first((await choose(self._catalogue, role="developer")).names)

    async def health(self) -> Mapping[str, str]:
        """Ask each provider for its models; what is wrong, by name, empty where all is well.

        All are asked together, some seconds at most, and nothing is paid for.
        """
        quick = replace(self._catalogue, waits=QUICK)
        await quick.read_keys()

        async def wrong_with(name: str) -> str:
            try:
                async with asyncio.timeout(LONGEST_LOOK_S):
                    await quick.offered(name)
            except PatchyardError as error:
                return error.message
            except TimeoutError:
                return f"{name} does not answer within {LONGEST_LOOK_S:g} s"
            return ""

        names = self.providers()
        said = await asyncio.gather(*(wrong_with(name) for name in names))
        return dict(zip(names, said, strict=True))

    async def _first(self, names: tuple[str, ...]) -> ModelProvider:
        failures = []
        for name in names:
            try:
                return await self.create(name)
            except (ModelFailed, ModelUnavailable) as error:
                failures.append(Failure(model=name, error=error))
        raise all_failed(failures)


__all__ = [
    "Internal",
    "ModelProvider",
    "ProviderFactory",
    "TaskExecutionRequest",
    "TaskExecutionResult",
    "execute_task",
]
