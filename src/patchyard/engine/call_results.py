"""What calls come to, as results and as the events that settle them. Sends nothing."""

from collections.abc import Mapping
from typing import Any

from patchyard.domain.codec import from_json, to_json
from patchyard.domain.events import Body, ToolCallSettled
from patchyard.domain.limit_hits import limit_in
from patchyard.domain.tooling import ToolResult, finite
from patchyard.domain.usage import Usage
from patchyard.engine.rows import body_of

LATEST = 32_503_680_000.0  # seconds since the epoch: the year 3000
OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
NOT_ANSWERED: Mapping[str, Any] = {
    "success": False,
    "error": "CANCELLED",
    "message": "the engine was killed before it answered this itself; nothing was done",
}
CANCELLED: Mapping[str, Any] = {
    "success": False,
    "error": "CANCELLED",
    "message": "the call was cancelled",
}


def settled_event(result: ToolResult, *, is_reattached: bool = False) -> ToolCallSettled:
    """Return the event that settles a call with `result`."""
    data = dict(result.data)
    started, ended = _span(data.pop("started", None), data.pop("ended", None))
    usage = data.pop("usage", None)
    paths = data.get("paths")
    listed = paths if isinstance(paths, (list, tuple)) else ()
    return ToolCallSettled(
        call_id=result.call_id,
        success=result.success,
        message=result.message[:2000],
        error=result.error,
        data=body_of(data) if data else Body(),
        started=started,
        ended=ended,
        paths=tuple(path for path in listed if isinstance(path, str))[:100],
        is_reattached=is_reattached,
        usage=from_json(Usage, usage) if usage else None,
        limit=limit_in(data),
    )


def _span(started: object, ended: object) -> tuple[float, float]:
    """Return two claimed moments in their order, zeros for what cannot be when a call ran.

    Changes are attributed to calls by them.
    """
    span = finite(started, 0.0), finite(ended, 0.0)
    return span if 0.0 <= span[0] <= span[1] <= LATEST else (0.0, 0.0)


def result_of(event: ToolCallSettled, data: Any) -> ToolResult:
    """Return the result that `event` settled its call with; `data` is the value of its body."""
    own = data if isinstance(data, dict) else {}
    return ToolResult(
        call_id=event.call_id,
        success=event.success,
        message=event.message,
        error=event.error,
        data=own if event.usage is None else {**own, "usage": to_json(event.usage)},
    )


def refused(call_id: str, error: str, message: str) -> ToolResult:
    """Return the result of a call that is not made."""
    return ToolResult(call_id=call_id, success=False, message=message, error=error)


def unknown_outcome(cause: str) -> Mapping[str, Any]:
    """Return what is told of a call whose effects nobody knows."""
    return {
        "success": False,
        "error": OUTCOME_UNKNOWN,
        "message": f"it is not known whether this call took effect ({cause}); it was not run"
        " again. Look at the present state before you go on.",
    }


__all__ = [
    "CANCELLED",
    "LATEST",
    "NOT_ANSWERED",
    "OUTCOME_UNKNOWN",
    "refused",
    "result_of",
    "settled_event",
    "unknown_outcome",
]
