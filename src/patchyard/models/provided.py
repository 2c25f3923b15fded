"""Adapts a provider of others to the engine's seam: one model of it. See contracts.provider.

It knows no wire format and does not trust what it calls: whatever that does ends in time, by name.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from patchyard.contracts.model import OnText
from patchyard.contracts.provider import Closing, ModelProvider, TaskRequest
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.failover import NO_LIST
from patchyard.domain.mcp import PREFIX
from patchyard.domain.messages import Message, ModelFacts, ModelReply, ModelRequest
from patchyard.models.answer_shapes import facts_of, misbehaved, raised, reply_of
from patchyard.models.encoding import without_images

GRACE_S = 5.0  # that a request has to end once it was told to

Bring = Callable[[], Awaitable[ModelProvider]]
"""Returns the provider. Raises ModelUnavailable."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a provider is told of the plan that asks."""

    task: str = ""  # its text
    role: str = ""


class ProvidedModel:
    """One model of a provider that we did not write."""

    def __init__(
        self,
        name: str,
        bring: Bring,
        *,
        is_owned: bool,
        answer_s: float,
        work: Work | None = None,
    ) -> None:
        """Take PROVIDER:MODEL, and who brings the provider.

        `is_owned`: it was made for this model alone and is closed with it. `answer_s`: how long
        an answer is waited for.
        """
        self._bring = bring
        self._is_owned = is_owned
        self._answer_s = answer_s
        self._work = work or Work()
        self._facts = ModelFacts(name=name)
        self._provider: ModelProvider | None = None

    @property
    def facts(self) -> ModelFacts:
        """The name, and what the provider has said of itself since `prepare`."""
        return self._facts

    async def prepare(self) -> ModelFacts:
        """Bring the provider and let it say what it can. Raises ModelUnavailable, ModelFailed."""
        if self._provider is None:
            self._provider = await self._bring()
        provider = self._provider
        try:
            self._facts = facts_of(self._facts.name, provider)
        except (ModelFailed, ModelUnavailable):
            raise
        except (Exception, SystemExit) as error:
            raise raised(self._facts.name, provider, error) from error
        return self._facts

    async def offered(self) -> tuple[str, ...]:
        """Raise ModelFailed: such a provider is there, and has no list of its models."""
        await self.prepare()
        raise ModelFailed(
            f"{self._facts.name.partition(':')[0]} has no list of its models",
            hint="its own documents name them",
            details={"kind": NO_LIST},
        )

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask once. Raises ModelFailed or ModelUnavailable; cancelling it cancels the provider."""
        if self._provider is None:
            await self.prepare()
        provider = self._provider
        assert provider is not None  # noqa: S101 - prepared
        self._require_mcp(provider, request)
        answer = await self._answered(provider, self._asked(request))
        try:
            reply = reply_of(self._facts.name, provider, answer, request)
        except ModelFailed:
            raise
        except Exception as error:
            raise raised(self._facts.name, provider, error) from error
        if on_text and reply.message.text:
            on_text(reply.message.text)
        return reply

    async def close(self) -> None:
        """Close the provider where it was made for this; one that was registered is its owner's."""
        provider: object = self._provider
        self._provider = None
        if self._is_owned and isinstance(provider, Closing):
            task = asyncio.ensure_future(provider.close())
            await _ended(task, GRACE_S)

    def _require_mcp(self, provider: ModelProvider, request: ModelRequest) -> None:
        """Raise ModelUnavailable where tools must be put into words, as the facts say from then on.

        Nothing was asked then: what was set aside for it is given back.
        """
        has_mcp = any(tool.name.startswith(PREFIX) for tool in request.tools)
        if has_mcp and self._facts.has_tools and not provider.supports_mcp():
            self._facts = replace(self._facts, has_tools=False)
            raise ModelUnavailable(
                f"{self._facts.name} takes no tools of MCP servers",
                hint="they are put into words",
            )

    def _asked(self, request: ModelRequest) -> TaskRequest:
        return TaskRequest(
            messages=tuple(self._visible(message) for message in request.messages),
            tools=request.tools,
            model=self._facts.name.partition(":")[2],
            task=self._work.task,
            role=self._work.role,
            purpose=request.purpose,
            turn=request.turn,
            max_output_tokens=request.max_output_tokens,
            temperature=request.temperature,
        )

    def _visible(self, message: Message) -> Message:
        return message if self._facts.has_images else without_images(message)

    async def _answered(self, provider: ModelProvider, request: TaskRequest) -> object:
        """Return whatever the provider answers, within the time there is."""
        task = asyncio.create_task(self._asking(provider, request))
        try:
            await asyncio.wait({task}, timeout=self._answer_s)
        except asyncio.CancelledError:
            task.cancel()
            await _ended(task, GRACE_S)
            raise
        if not task.done():
            task.cancel()
            await _ended(task, GRACE_S)
            what = f"did not answer within {self._answer_s:g} s"
            cure = "let it answer sooner; of a package, models.yaml says `first_byte_s`"
            failed = misbehaved(self._facts.name, provider, what, cure)
            failed.details, failed.retryable = {**failed.details, "kind": "timeout"}, True
            raise failed
        if task.cancelled():
            what = "cancelled its own request"
            raise misbehaved(self._facts.name, provider, what, "raise ModelFailed instead")
        return task.result()

    async def _asking(self, provider: ModelProvider, request: TaskRequest) -> object:
        try:
            answer: object = provider.execute_task(request)
            return await answer if inspect.isawaitable(answer) else answer
        except (ModelFailed, ModelUnavailable):
            raise
        except (Exception, SystemExit) as error:
            raise raised(self._facts.name, provider, error) from error


async def _ended(task: "asyncio.Future[Any]", seconds: float) -> None:
    """Wait for the end of a stranger's task, not longer than `seconds`; how it ended is its own."""
    await asyncio.wait({task}, timeout=seconds)
    if task.done():
        if not task.cancelled():
            task.exception()
        return
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


__all__ = ["GRACE_S", "Bring", "ProvidedModel", "Work"]
