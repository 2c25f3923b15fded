"""The steps of one phase, read back from its events: what was thought, called and answered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchyard.domain.checkpoint import CheckpointMade, RolledBack, Trigger
from patchyard.domain.events import Event, ToolCallRequested, ToolCallSettled, TurnTaken

TOLD = frozenset({CheckpointMade, RolledBack, ToolCallRequested, ToolCallSettled, TurnTaken})
Row = tuple[int, float, Event]  # version, time, event


@dataclass(frozen=True, kw_only=True)
class Step:
    """One turn, and what is known of the calls it asked for."""

    taken: TurnTaken
    calls: tuple[tuple[ToolCallRequested, ToolCallSettled | None], ...] = ()
    is_cut: bool = False  # a rollback took its further calls back: they are not made


def in_force(events: Sequence[Row]) -> Sequence[Row]:
    """Return the events without those that a rollback passed over. All versions from the first."""
    kept: list[Row] = []
    at = len(events) - 1
    while at >= 0:
        kept.append(events[at])
        event = events[at][2]
        at = event.version - events[0][0] if isinstance(event, RolledBack) else at - 1
    return kept[::-1]


def transcript(events: Iterable[Row], *, starts: int) -> tuple[Step, ...]:
    """Return the steps of the phase that began at version `starts`, oldest first."""
    reading = _Reading()
    for version, _, event in in_force([*events]):
        if version >= starts and type(event) in TOLD:
            reading.take(event)
    return tuple(
        Step(
            taken=turn,
            calls=tuple((call, reading.settled.get(call.call_id)) for call in calls),
            is_cut=turn.turn in reading.cut,
        )
        for turn, calls in reading.turns
    )


class _Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self.turns: list[tuple[TurnTaken, list[ToolCallRequested]]] = []
        self.settled: dict[str, ToolCallSettled] = {}
        self.cut: set[int] = set()
        self._checkpoint: CheckpointMade | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, TurnTaken):
            self.turns.append((event, []))
        elif isinstance(event, ToolCallRequested):
            self._calls_of(event.turn).append(event)
        elif isinstance(event, ToolCallSettled):
            self.settled[event.call_id] = event
        elif isinstance(event, CheckpointMade):
            self._checkpoint = event
        elif isinstance(event, RolledBack) and not event.is_repeat:
            self._cut()

    def _calls_of(self, turn: int) -> list[ToolCallRequested]:
        return next((calls for taken, calls in reversed(self.turns) if taken.turn == turn), [])

    def _cut(self) -> None:
        """Pass over the last turn where nothing of it stays, else over what it had still to do."""
        if not self.turns or self._checkpoint is None:
            return
        turn, calls = self.turns[-1]
        if self._checkpoint.trigger == Trigger.BEFORE_TOOL and not calls:
            self.turns.pop()
        else:
            self.cut.add(turn.turn)


__all__ = ["Row", "Step", "in_force", "transcript"]
