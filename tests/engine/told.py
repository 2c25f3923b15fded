"""An actor whose turns are given and who keeps what it is told, and how to look at its plans."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.worksite import Worksite
from patchyard.contracts.actor import Answered, Brief, Casting, Turn, Wanted
from patchyard.domain.plan import Phase
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment

__all__ = ["ENDING", "Recorder", "heard", "state_of", "until", "with_actor", "writing"]


async def state_of(site: Worksite, equipment: Equipment, plan_id: str) -> PlanState:
    return (await site.ledger(equipment, plan_id)).state


def heard(site: Worksite, kind: type) -> list[Any]:
    return [event for event in site.heard if isinstance(event, kind)]


async def until(site: Worksite, kind: type) -> None:
    for _ in range(12_000):
        if heard(site, kind):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"there was no {kind.__name__}")


class Recorder:
    """An actor that keeps what it is told; its turns are given."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = list(turns)
        self.told: list[tuple[int, str]] = []
        self.restored: list[str] = []
        self.briefs: list[Brief] = []
        self._next = 0

    async def begin(self, brief: Brief) -> "Recorder":
        self.briefs.append(brief)
        self._next = 0
        return self

    async def next(self, answers: Sequence[Answered], *, note: str = "") -> Turn:
        assert all(answer.ref for answer in answers)
        turn = self.turns[self._next]
        self.told.append((self._next, note))
        self._next += 1
        return turn

    async def restore(self, turn: Turn, answers: Sequence[Answered], *, note: str = "") -> None:
        assert all(answer.ref for answer in answers)
        assert turn == self.turns[self._next]
        self.restored.append(note)
        self._next += 1

    async def close(self) -> None:
        pass


def writing(number: int) -> Turn:
    arguments = {"path": f"{number}.txt", "content": "x\n"}
    return Turn(calls=(Wanted(ref=str(number), name="write_file", arguments=arguments),))


ENDING = Turn(is_final=True, summary="done")


def with_actor(equipment: Equipment, recorder: Recorder) -> Equipment:
    async def actor(casting: Casting) -> Any:
        return recorder if casting.phase == Phase.EXECUTE else Recorder([ENDING])

    return replace(equipment, actor=actor)
