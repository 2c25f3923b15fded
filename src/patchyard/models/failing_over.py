"""A chain of models as one: where one fails, the next is asked with the same conversation."""

from collections.abc import Sequence
from dataclasses import dataclass

from patchyard.contracts.model import Model, OnSwitch, OnText
from patchyard.domain.errors import ModelFailed, ModelUnavailable
from patchyard.domain.failover import (
    FILTERED,
    RESTING,
    TOO_LONG,
    Failure,
    all_failed,
    resting,
    switched,
)
from patchyard.domain.messages import (
    ModelFacts,
    ModelReply,
    ModelRequest,
    StopReason,
)
from patchyard.domain.model_names import split_name
from patchyard.models.circuits import Circuits
from patchyard.models.lookout import Look, Lookout


@dataclass(kw_only=True)
class Link:
    """One model of a chain."""

    model: Model
    is_prepared: bool = False
    refused_size: int | None = None  # bytes of the smallest request that was too long for it

    @property
    def name(self) -> str:
        """PROVIDER:MODEL."""
        return self.model.facts.name

    @property
    def provider(self) -> str:
        """Whose circuit it is."""
        return split_name(self.name)[0]


class FailingOverModel:
    """Asks the first model of a chain that answers; `on_switch` is of the plan at hand.

    Which one was asked last is remembered by nobody: each request begins with the first again,
    and passes over those whose circuit is open.
    """

    def __init__(
        self,
        models: Sequence[Model],
        circuits: Circuits,
        *,
        on_switch: OnSwitch | None = None,
        look: Look | None = None,
    ) -> None:
        self._chain = [Link(model=model) for model in models]
        self._circuits = circuits
        self._current = self._chain[0]
        self.on_switch = on_switch
        names = [link.name for link in self._chain]
        self._lookout = None if look is None else Lookout(names, circuits, look)

    @property
    def facts(self) -> ModelFacts:
        """The facts of the model that was asked last."""
        return self._current.model.facts

    async def prepare(self) -> ModelFacts:
        """Prepare the first model that is there. Raises with all causes when there is none."""
        failures: list[Failure] = []
        resting: list[Link] = []
        for link in self._chain:
            failure = await self._ready(link)
            if failure is None:
                await self._take(link, failures)
                return link.model.facts
            failures.append(failure)
            if failure.kind == RESTING:
                resting.append(link)
        for link in resting:  # nobody else is there: its requests wait until it may be asked
            failure = await self._prepared(link)
            if failure is None:
                await self._take(link, failures)
                return link.model.facts
        raise _from(failures)

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask them in order until one answers. Raises with all causes when none does."""
        failures: list[Failure] = []
        filtered: ModelReply | None = None
        for link in self._chain:
            failure = self._unfit(link, request) or await self._ready(link)
            if failure is None:
                await self._take(link, failures)
                outcome = await self._asked(link, request, on_text)
                if isinstance(outcome, ModelReply):
                    if outcome.stop != StopReason.FILTERED or link is self._chain[-1]:
                        return outcome
                    # It is paid for: what was set aside for it counts as spent.
                    filtered, failure = outcome, Failure(model=link.name, error=_cut_off(link))
                else:
                    failure = outcome
            failures.append(failure)
        if filtered is not None:
            return filtered
        raise _from(failures)

    async def close(self) -> None:
        """Close all of them, and look after nobody any more."""
        if self._lookout is not None:
            await self._lookout.close()
        for link in self._chain:
            await link.model.close()

    async def _ready(self, link: Link) -> Failure | None:
        """Prepare a model that may be asked now; return why it cannot be."""
        wait_s = self._circuits.wait_s(link.name)
        if wait_s is not None:
            cause = self._circuits.cause(link.name)
            return Failure(model=link.name, error=resting(link.name, wait_s, cause))
        return await self._prepared(link)

    async def _prepared(self, link: Link) -> Failure | None:
        if link.is_prepared:
            return None
        self._circuits.begin(link.name)
        try:
            await link.model.prepare()
        except (ModelFailed, ModelUnavailable) as error:
            self._failed(link, error)
            return Failure(model=link.name, error=error)
        except BaseException:
            self._circuits.let_go(link.name)
            raise
        self._circuits.let_go(link.name)  # its request is what tries the provider
        link.is_prepared = True
        return None

    async def _asked(
        self, link: Link, request: ModelRequest, on_text: OnText | None
    ) -> ModelReply | Failure:
        self._circuits.begin(link.name)
        try:
            reply = await link.model.complete(request, on_text=on_text)
        except (ModelFailed, ModelUnavailable) as error:
            self._failed(link, error)
            failure = Failure(model=link.name, error=error)
            if failure.kind == TOO_LONG and request.size:
                link.refused_size = min(request.size, link.refused_size or request.size)
            return failure
        except BaseException:
            self._circuits.let_go(link.name)
            raise
        self._circuits.succeeded(link.name)
        return reply

    def _failed(self, link: Link, error: ModelFailed | ModelUnavailable) -> None:
        self._circuits.failed(link.name, error)
        if self._lookout is not None:
            self._lookout.wake()

    def _unfit(self, link: Link, request: ModelRequest) -> Failure | None:
        """Return the failure of a model that refused as long a request before."""
        if link.refused_size is None or request.size < link.refused_size:
            return None
        error = ModelFailed(
            f"the request is too long for {link.name}, as one before was",
            details={"kind": TOO_LONG, "provider": link.provider},
        )
        return Failure(model=link.name, error=error)

    async def _take(self, link: Link, failures: Sequence[Failure]) -> None:
        """Make it the current one; say so where that is news."""
        before, self._current = self._current, link
        if before is link or self.on_switch is None:
            return
        why = next((each for each in failures if each.model == before.name), None)
        await self.on_switch(switched(before.name, link.name, why))


def _cut_off(link: Link) -> ModelFailed:
    return ModelFailed(
        f"{link.provider}'s content filter stopped the answer", details={"kind": FILTERED}
    )


def _from(failures: Sequence[Failure]) -> ModelFailed | ModelUnavailable:
    error = all_failed(failures)
    if len(failures) > 1:
        causes = [each.error for each in failures]
        error.__cause__ = ExceptionGroup("each model of the chain", causes)
    return error


__all__ = ["FailingOverModel", "Link"]
