"""What a plan's tools may do at all, and for what somebody is asked (B+, safety profile)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.environment import IN_PLACE, ExecutionEnvironment
from patchyard.domain.faults import Fault, Place, check_keys, kind_of
from patchyard.domain.mcp import family_of
from patchyard.domain.tooling import Effect

PHASES = ("execute", "apply")  # that can be approved
APPROVALS = (*PHASES, str(Effect.WRITE), str(Effect.RUN))  # and the names of tools
UNCONFINED = IN_PLACE | {ExecutionEnvironment.SSH}
RETRIES = 3  # of one step, where nothing is said


@dataclass(frozen=True, kw_only=True)
class SafetyProfile:
    """Bounds that no automation profile widens."""

    allow_unsafe_tools: bool = True  # False: no command runs where no walls are
    categories: tuple[str, ...] | None = None  # effects that tools may have; None: all
    require_sandbox: bool = False  # True: no plan runs where no walls are
    require_human_approval: bool = False  # True: before execute and before apply
    require_checkpoints: bool = True  # True: nothing writes where files cannot be brought back
    max_cost_per_plan: float | None = None  # USD
    max_total_cost: float | None = None  # USD, of all plans of the installation together
    max_retries_per_step: int = RETRIES


KEYS = tuple(SafetyProfile.__dataclass_fields__)
_SWITCHES = (
    "allow_unsafe_tools",
    "require_checkpoints",
    "require_human_approval",
    "require_sandbox",
)
_COSTS = ("max_cost_per_plan", "max_total_cost")


def parse_safety(value: Any, place: Place) -> SafetyProfile:
    """Return the profile that plain data describes. Raises Fault with the place."""
    body = check_keys(value, place, KEYS)
    for key in _SWITCHES:
        if key in body and not isinstance(body[key], bool):
            raise Fault((*place, key), f"must be true or false, not {kind_of(body[key])}")
    said: dict[str, Any] = {key: body[key] for key in _SWITCHES if key in body}
    if "categories" in body:
        said["categories"] = _categories(body, place)
    return SafetyProfile(**said, **_numbers(body, place))


def _categories(body: Mapping[str, Any], place: Place) -> tuple[str, ...]:
    value = body["categories"]
    listed = [value] if isinstance(value, str) else value
    here = (*place, "categories")
    if not isinstance(listed, list):
        raise Fault(here, f"must be a list, not {kind_of(value)}")
    for number, item in enumerate(listed):
        if item not in list(Effect):  # it may be a list
            raise Fault((*here, number), f"{item!r} is none of {', '.join(sorted(Effect))}")
    return tuple(listed)


def _numbers(body: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for key in _COSTS:
        cost = body.get(key)
        if cost is None:
            continue
        is_number = isinstance(cost, (int, float)) and not isinstance(cost, bool)
        if not is_number or not 0 <= cost < float("inf"):
            raise Fault((*place, key), "must be a number, 0 or more")
        found[key] = float(cost)
    retries = body.get("max_retries_per_step")
    if retries is not None:
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise Fault((*place, "max_retries_per_step"), "must be a whole number, 0 or more")
        found["max_retries_per_step"] = retries
    return found


def refusal(
    safety: SafetyProfile,
    tool: str,
    effect: Effect,
    kind: ExecutionEnvironment,
    *,
    has_checkpoints: bool = True,
) -> str | None:
    """Return why a call is never made under `safety`, None when it may be."""
    if safety.categories is not None and effect not in safety.categories:
        allowed = ", ".join(safety.categories) or "none"
        return f"{tool} is refused: its category is {effect}, and the plan allows {allowed}"
    if kind in UNCONFINED and effect == Effect.RUN and not safety.allow_unsafe_tools:
        return f"{tool} is refused: {kind} has no walls, and the plan allows no unsafe tools"
    if effect == Effect.WRITE and safety.require_checkpoints and not has_checkpoints:
        return f"{tool} is refused: what it writes could not be brought back to a checkpoint"
    return None


def asking(approvals: tuple[str, ...], tool: str, effect: Effect) -> str | None:
    """Return which of the `approvals` asks before a call of `tool`, None when none does."""
    said = (tool, family_of(tool), str(effect))
    return next((name for name in said if name in approvals), None)


__all__ = [
    "APPROVALS",
    "KEYS",
    "PHASES",
    "RETRIES",
    "UNCONFINED",
    "SafetyProfile",
    "asking",
    "parse_safety",
    "refusal",
]
