"""When checkpoints are made, as settings say it."""

from typing import Any

from patchyard.domain.checkpoint import Trigger
from patchyard.domain.faults import Fault, Place, check_keys, kind_of

KEY = "auto_create_on"
OFFERED = tuple(trigger for trigger in Trigger if trigger != Trigger.PHASE)  # that one is always


def triggers_of(value: Any, place: Place) -> tuple[Trigger, ...] | None:
    """Return the triggers that `{auto_create_on: [...]}` names. Raises Fault with the place."""
    body = check_keys(value, place, (KEY,))
    if KEY not in body:
        return None
    here, said = (*place, KEY), body[KEY]
    listed = [said] if isinstance(said, str) else said
    if not isinstance(listed, list):
        raise Fault(here, f"must be a list, not {kind_of(said)}")
    for number, name in enumerate(listed):
        if name not in OFFERED:
            raise Fault((*here, number), f"{name!r} is none of {', '.join(OFFERED)}")
    return tuple(dict.fromkeys(Trigger(name) for name in listed))


__all__ = ["KEY", "OFFERED", "triggers_of"]
