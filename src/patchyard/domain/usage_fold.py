"""What a plan has used, as a fold: of each environment its own figure or its calls', the higher."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchyard.domain.usage import NOTHING, Usage, at_least, together


@dataclass(frozen=True, kw_only=True)
class Used:
    """What is known of a plan's use."""

    ended: Usage = NOTHING  # of environments that have ended
    live: Mapping[str, Usage] = field(default_factory=dict)  # of the calls in each that runs
    carried: Mapping[str, int] = field(default_factory=dict)  # network bytes by place, of `ended`

    @property
    def total(self) -> Usage:
        """All of it."""
        found = self.ended
        for usage in self.live.values():
            found = together(found, usage)
        return found


def carried_at(used: Used, place: str, running: Sequence[str]) -> int:
    """Return the network bytes of a place: of what has ended there, and of what is running."""
    live = (used.live.get(name, NOTHING).network_bytes or 0 for name in running)
    return used.carried.get(place, 0) + sum(live)


def called(used: Used, environment_id: str, usage: Usage | None) -> Used:
    """Return `used` after a call in an environment was settled."""
    if usage is None or not environment_id:
        return used
    own = together(used.live.get(environment_id, NOTHING), usage)
    return replace(used, live={**used.live, environment_id: own})


def over(used: Used, environment_id: str, usage: Usage | None, *, place: str) -> Used:
    """Return `used` after an environment at `place` has ended."""
    own = used.live.get(environment_id, NOTHING)
    whole = at_least(own, usage or NOTHING)
    if whole == NOTHING:
        return used
    left = {name: one for name, one in used.live.items() if name != environment_id}
    carried = used.carried
    if whole.network_bytes:
        carried = {**carried, place: carried.get(place, 0) + whole.network_bytes}
    return Used(ended=together(used.ended, whole), live=left, carried=carried)


__all__ = ["Used", "called", "carried_at", "over"]
