"""Where a plan comes from, when it comes from another one."""

from dataclasses import dataclass
from enum import StrEnum

REPLAYS = "replay"  # the agent of a plan that makes another one's calls


class Kinship(StrEnum):
    """What a plan is to its parent."""

    FORK = "fork"
    RETRY = "retry"
    REPLAY = "replay"
    COLLEAGUE = "colleague"  # another role that looks at its result, or answers a question


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """A plan's parent."""

    plan_id: str
    kinship: Kinship
    checkpoint_id: str = ""  # that a fork or a retry begins at


__all__ = ["REPLAYS", "Kinship", "Lineage"]
