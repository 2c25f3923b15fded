"""A sloppy model: a deterministic fake that does a small task with slips of many kinds.

It knows the right calls of its errand. Before each it slips by chance, reads what came of it, and
does the right thing when the answer was no success; a stubborn one goes on slipping. It keeps its
place between requests, so one object serves one session.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchyard.contracts.model import OnText
from patchyard.domain.messages import ModelFacts, ModelReply, ModelRequest, Speaker
from patchyard.models.scripted import ScriptedReply, scripted
from patchyard.models.slips import MEANT, SLIPS, RightCall

TRIES = 2  # of the right call, before the next one is made


@dataclass(frozen=True, kw_only=True)
class Errand:
    """A small task, as the right calls in order; the last one is a finish."""

    workspace: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(kw_only=True)
class SloppyModel:
    """Does an errand sloppily. The same seed gives the same slips for the same answers."""

    seed: int
    errand: Errand
    kinds: Sequence[str] = tuple(SLIPS)
    slips_at_most: int = 2
    is_stubborn: bool = False  # never does the right thing
    slipped: Counter[str] = field(default_factory=Counter, init=False)  # kinds so far
    last_slip: str = field(default="", init=False)  # of the last reply; empty: it was right
    _step: int = field(default=0, init=False)
    _was_right: bool = field(default=False, init=False)
    _tries: int = field(default=0, init=False)  # of the step at hand

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 - chance to be repeated, no secret

    @property
    def facts(self) -> ModelFacts:
        """It costs nothing."""
        return ModelFacts(
            name=f"sloppy:{self.seed}", usd_per_million_input=0.0, usd_per_million_output=0.0
        )

    async def prepare(self) -> ModelFacts:
        """There is nothing to look up."""
        return self.facts

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Return the next reply, right or not."""
        self._tries += self._was_right
        if self._was_right and (_went_well(request) or self._tries >= TRIES):
            self._step = min(self._step + 1, len(self.errand.calls) - 1)
            self._tries = 0
        reply = self._reply()
        if on_text and reply.text:
            on_text(reply.text)
        return scripted(reply, turn=request.turn, model=self.facts.name, request=request)

    async def close(self) -> None:
        """Nothing is held."""

    def _reply(self) -> ScriptedReply:
        name, arguments = self.errand.calls[self._step]
        right = RightCall(name=name, arguments=arguments, workspace=self.errand.workspace)
        careless = self.slipped.total() < self.slips_at_most and self._chance.random() < 0.6
        if self.is_stubborn or careless:
            for kind in self._chance.sample(self.kinds, len(self.kinds)):
                reply = SLIPS[kind](self._chance, right)
                if reply is not None:
                    self.slipped[kind] += 1
                    self.last_slip = kind
                    self._was_right = kind in MEANT
                    return reply
        self._was_right, self.last_slip = True, ""
        return ScriptedReply(calls=((name, arguments),))


def _went_well(request: ModelRequest) -> bool:
    last = request.messages[-1]
    return last.speaker is Speaker.TOOL and "failed (" not in last.text[:200]


__all__ = ["Errand", "SloppyModel"]
