"""How long things are kept and how much room must be left, as settings say it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchyard.domain.durations import seconds_of
from patchyard.domain.faults import Place, check_keys
from patchyard.domain.retention import Retention
from patchyard.domain.sizes import bytes_of

KEYS = ("workspaces", "journals", "machines", "free")
FREE_BYTES = 1024**3  # below this no plan is begun (issue 3)


@dataclass(frozen=True, kw_only=True)
class Keep:
    """One place's say; None is "not said"."""

    workspaces: float | None = None  # seconds after a finished plan's last event
    journals: float | None = None  # seconds after the last event of one that is at rest
    machines: float | None = None  # seconds after an environment last started from them
    free: int | None = None  # bytes that must be free for a plan to begin


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What counts of all places."""

    retention: Retention
    free: int


def keep_of(value: Any, place: Place) -> Keep:
    """Return what a mapping says. Raises Fault."""
    body = check_keys(value, place, KEYS)
    times = {key: seconds_of(body[key], (*place, key)) for key in KEYS[:3] if key in body}
    free = bytes_of(body["free"], (*place, "free")) if "free" in body else None
    return Keep(**times, free=free)


def rules_of(said: Sequence[Keep]) -> Rules:
    """Return what counts; of each value, what the first place says of it."""
    usual = Retention()
    workspaces = next((k.workspaces for k in said if k.workspaces is not None), usual.workspaces)
    journals = next((k.journals for k in said if k.journals is not None), usual.journals)
    machines = next((k.machines for k in said if k.machines is not None), usual.machines)
    free = next((k.free for k in said if k.free is not None), FREE_BYTES)
    retention = Retention(workspaces=workspaces, journals=journals, machines=machines)
    return Rules(retention=retention, free=free)


__all__ = ["FREE_BYTES", "KEYS", "Keep", "Rules", "keep_of", "rules_of"]
