"""The models that can carry a task out (C1), and who finds them (C3)."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import replace

from patchyard.casting import Shared, model_catalogue
from patchyard.contracts.provider import (
    IMAGES,
    WINDOW,
    ModelProvider,
    TaskAction,
    TaskRequest,
    TaskResponse,
)
from patchyard.domain.errors import (
    ModelFailed,
    ModelUnavailable,
    PatchyardError,
    UnknownName,
    UsageError,
)
from patchyard.domain.failover import Failure, all_failed, has_no_list
from patchyard.domain.messages import (
    Message,
    ModelFacts,
    ModelReply,
    ModelRequest,
    RequestedCall,
    Speaker,
    StopReason,
)
from patchyard.domain.model_names import split_name
from patchyard.domain.tooling import ToolSpec
from patchyard.intake_roles import role_folder
from patchyard.models.answer_shapes import require_provider
from patchyard.models.choosing import QUICK, choose
from patchyard.models.configured import require_provider_name
from patchyard.models.providers import Catalogue
from patchyard.models.texted import TextedModel
from patchyard.roles.library import role_names

LONGEST_LOOK_S = 2 * QUICK.whole_s  # of one provider, whatever its own waits say


class ConfiguredProvider:
    """One model of one provider, as a ModelProvider: built in, configured or registered.

    A ProviderFactory makes it; a whole task is given it as `TaskExecutionRequest.provider`.
    """

    def __init__(self, name: str, facts: ModelFacts, catalogue: Catalogue) -> None:
        """Take the name (PROVIDER:MODEL), what is known of it and the providers it is among."""
        self.name = name
        self.facts = facts
        self._catalogue = catalogue

    @property
    def shared(self) -> Shared:
        """What a task needs to find it again: the objects that were registered beside it."""
        return Shared(provided=self._catalogue.provided)

    async def execute_task(self, request: TaskRequest) -> TaskResponse:
        """Ask the model once. Tools that it cannot call itself are put into words.

        Raises ModelFailed, ModelUnavailable, and UsageError for what is no TaskRequest.
        """
        if not isinstance(request, TaskRequest):
            raise UsageError(
                f"a model is asked a TaskRequest, not a {type(request).__name__}",
                hint="a whole task: `execute_task(TaskExecutionRequest(provider=model, ...))`",
            )
        model = TextedModel(self._catalogue.open(self.name))
        try:
            await model.prepare()
            return _response(await model.complete(_asked(request)))
        finally:
            await model.close()

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
            *([IMAGES] if self.facts.has_images else []),
            *([f"{WINDOW}{window}"] if window is not None else []),
            *(["known-price"] if priced else []),
        ]


def _asked(request: TaskRequest) -> ModelRequest:
    return ModelRequest(
        messages=request.messages,
        tools=request.tools,
        purpose=request.purpose,
        turn=request.turn,
        max_output_tokens=request.max_output_tokens,
        temperature=request.temperature,
    )


def _response(reply: ModelReply) -> TaskResponse:
    usage = reply.usage
    return TaskResponse(
        text=reply.message.text,
        actions=tuple(map(_action, reply.message.calls)),
        stop=StopReason.DONE if reply.stop is StopReason.CALLS else reply.stop,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        usd=usage.usd,
        model=reply.model,
    )


def _action(call: RequestedCall) -> TaskAction:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments
    if not isinstance(arguments, dict):
        arguments = call.arguments
    return TaskAction(id=call.id, name=call.name, arguments=arguments)


class ProviderFactory:
    """Builds model providers from the configuration, and chooses among them (C3)."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Take the variables that say where the user's configuration lies. Raises UsageError."""
        self._environ = dict(os.environ) if environ is None else environ
        self._catalogue: Catalogue = model_catalogue(self._environ)

    def register(self, name: str, provider: ModelProvider) -> None:
        """Add a provider of the program's own; its models are `NAME:...` from then on.

        It is never closed from here. Raises UsageError for an object that is none, and for a name
        that cannot be one or that is taken.
        """
        self._catalogue = with_provider(self._catalogue, name, provider)

    def providers(self) -> list[str]:
        """Return the names of the providers there are: built in, configured, registered."""
        return sorted(self._catalogue.providers)

    async def create(self, name: str) -> ConfiguredProvider:
        """Return the model PROVIDER:MODEL, looked up at its provider; it costs nothing.

        Raises UsageError, UnknownName, ModelUnavailable, ModelFailed.
        """
        split_name(name)
        return ConfiguredProvider(name, await self._catalogue.look_up(name), self._catalogue)

    async def for_role(self, role: str) -> ConfiguredProvider:
        """Return the first model of a role's chain that is there.

        Raises UnknownName, ModelUnavailable with every cause.
        """
        known = role_names(role_folder(self._environ))
        if role not in known:
            raise UnknownName.among("role", role, known)
        return await self._first((await choose(self._catalogue, role=role)).names)

    async def select(self) -> ConfiguredProvider:
        """Return what is configured, there and able, as `agents run` takes it.

        Raises ModelUnavailable.
        """
        return await self._first((await choose(self._catalogue, role="developer")).names)

    async def health(self) -> Mapping[str, str]:
        """Ask each provider for its models; what is wrong, by name, empty where all is well.

        All are asked together, some seconds at most, and nothing is paid for. One without a list
        of models is well when it is there.
        """
        quick = replace(self._catalogue, waits=QUICK)
        await quick.read_keys()

        async def wrong_with(name: str) -> str:
            try:
                async with asyncio.timeout(LONGEST_LOOK_S):
                    await quick.offered(name)
            except (ModelFailed, ModelUnavailable) as error:
                return "" if has_no_list(error) else error.message
            except PatchyardError as error:
                return error.message
            except TimeoutError:
                return f"{name} does not answer within {LONGEST_LOOK_S:g} s"
            return ""

        names = self.providers()
        said = await asyncio.gather(*(wrong_with(name) for name in names))
        return dict(zip(names, said, strict=True))

    async def _first(self, names: tuple[str, ...]) -> ConfiguredProvider:
        failures = []
        for name in names:
            try:
                return await self.create(name)
            except (ModelFailed, ModelUnavailable) as error:
                failures.append(Failure(model=name, error=error))
        raise all_failed(failures)


def with_provider(catalogue: Catalogue, name: str, provider: ModelProvider) -> Catalogue:
    """Return a catalogue with one provider more. Raises UsageError; see `register`."""
    require_provider_name(name)
    require_provider(name, provider)
    if name in catalogue.providers:
        raise UsageError(f"there is a provider {name} already", hint="take another name")
    return replace(catalogue, provided={**catalogue.provided, name: provider})


__all__ = [
    "LONGEST_LOOK_S",
    "ConfiguredProvider",
    "Message",
    "ModelProvider",
    "ProviderFactory",
    "Speaker",
    "StopReason",
    "TaskAction",
    "TaskRequest",
    "TaskResponse",
    "ToolSpec",
    "with_provider",
]
