"""The steps of one phase, read back from its events: what was thought, called and answered."""

from collections.abc import Iterable
from dataclasses import dataclass

from patchyard.domain.events import Event, ToolCallRequested, ToolCallSettled, TurnTaken


@dataclass(frozen=True, kw_only=True)
class Step:
    """One turn, and what is known of the calls it asked for."""

    taken: TurnTaken
    calls: tuple[tuple[ToolCallRequested, ToolCallSettled | None], ...] = ()


def transcript(events: Iterable[tuple[int, float, Event]], *, starts: int) -> tuple[Step, ...]:
    """Return the steps of the phase that began at version `starts`, oldest first."""
    turns: list[TurnTaken] = []
    requested: list[ToolCallRequested] = []
    settled: dict[str, ToolCallSettled] = {}
    for version, _, event in events:
        if version < starts:
            continue
        if isinstance(event, TurnTaken):
            turns.append(event)
        elif isinstance(event, ToolCallRequested):
            requested.append(event)
        elif isinstance(event, ToolCallSettled):
            settled[event.call_id] = event
    by_turn: dict[int, list[tuple[ToolCallRequested, ToolCallSettled | None]]] = {}
    for call in requested:
        by_turn.setdefault(call.turn, []).append((call, settled.get(call.call_id)))
    return tuple(Step(taken=turn, calls=tuple(by_turn.get(turn.turn, ()))) for turn in turns)


__all__ = ["Step", "transcript"]
