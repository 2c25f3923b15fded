"""What a plan has used, as a fold: of each environment its own figure or its calls', the higher."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from patchyard.domain.usage import NOTHING, Usage, at_least, together


@dataclass(frozen=True, kw_only=True)
class Used:
    """What is known of a plan's use."""

    ended: Usage = NOTHING  # of environments that have ended
    live: Mapping[str, Usage] = field(default_factory=dict)  # of the calls in each that runs

    @property
    def total(self) -> Usage:
        """All of it."""
        found = self.ended
        for usage in self.live.values():
            found = together(found, usage)
        return found


def called(used: Used, environment_id: str, usage: Usage | None) -> Used:
    """Return `used` after a call in an environment was settled."""
    if usage is None or not environment_id:
        return used
    own = together(used.live.get(environment_id, NOTHING), usage)
    return Used(ended=used.ended, live={**used.live, environment_id: own})


def over(used: Used, environment_id: str, usage: Usage | None) -> Used:
    """Return `used` after an environment has ended."""
    own = used.live.get(environment_id, NOTHING)
    whole = at_least(own, usage or NOTHING)
    if whole == NOTHING:
        return used
    left = {name: one for name, one in used.live.items() if name != environment_id}
    return Used(ended=together(used.ended, whole), live=left)


__all__ = ["Used", "called", "over"]
