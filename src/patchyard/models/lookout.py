"""Looks after providers that failed, beside the work: whether they answer again, without a charge.

So a request is not what finds out that a provider is still away, and one that is back is asked
sooner. What a list of models cannot tell (an answer that stops in the middle) is left to requests.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from patchyard.domain.errors import ModelFailed, ModelUnavailable, UsageError
from patchyard.domain.failover import has_no_list
from patchyard.domain.model_names import split_name
from patchyard.models.circuits import Circuits

EVERY_S = 3.0  # between two looks at one provider, by whichever plan; less than circuit.FIRST_S
AWAY_S = 2 * EVERY_S  # that one who was not found is left alone: until after the next look
LONGEST_S = 10.0  # of one look

Look = Callable[[str], Awaitable[Sequence[str]]]
"""Asks a provider which models it lists. Raises ModelFailed, ModelUnavailable."""


class Lookout:
    """Looks at the providers of one chain while any of them is away; owned by the chain."""

    def __init__(
        self, chain: Sequence[str], circuits: Circuits, look: Look, *, every_s: float = EVERY_S
    ) -> None:
        self._chain = tuple(chain)  # PROVIDER:MODEL
        self._circuits = circuits
        self._look = look
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Begin to look, where somebody is away and nobody looks yet."""
        if (self._task is None or self._task.done()) and self._away():
            self._task = asyncio.create_task(self._looking())

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _away(self) -> Sequence[str]:
        """Return the providers with a circuit that is not closed."""
        away = [each for each in self._chain if self._circuits.is_open(each)]
        return tuple(dict.fromkeys(split_name(each)[0] for each in away))

    async def _looking(self) -> None:
        while away := self._away():
            await asyncio.sleep(self._every_s)
            looks = [self._one(each) for each in away]
            await asyncio.gather(*looks, return_exceptions=True)  # one that fails says nothing

    async def _one(self, provider: str) -> None:
        if not self._circuits.may_look(provider, self._every_s):
            return
        names: Sequence[str] | None
        try:
            async with asyncio.timeout(LONGEST_S):
                names = await self._look(provider)
        except TimeoutError:
            names = None
        except (ModelFailed, ModelUnavailable) as error:
            names = () if has_no_list(error) else None
        except UsageError:  # a file: there is nobody to ask
            names = ()
        for model in self._chain:
            if split_name(model)[0] == provider:
                self._circuits.looked(model, names, least_s=AWAY_S)


__all__ = ["AWAY_S", "EVERY_S", "LONGEST_S", "Look", "Lookout"]
