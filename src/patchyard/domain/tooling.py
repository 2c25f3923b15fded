"""What a tool is, what a call asks for and what comes back. Knows no place where a tool runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Effect(StrEnum):
    """What a tool may do; planning allows `read`, and `run` behind a read-only mount."""

    READ = "read"
    WRITE = "write"
    RUN = "run"


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str  # snake_case, one of the nine or a namespaced MCP name
    description: str  # for the model: one or two sentences
    parameters: Mapping[str, Any]  # JSON Schema of the arguments, an object
    effect: Effect


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call, asked for by an actor; `call_id` is ours and unique for ever."""

    call_id: str  # ULID, set by the engine
    name: str  # tool name
    arguments: Mapping[str, Any] = field(default_factory=dict)  # as validated against the schema


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What a call came to. A failure that was to be expected is a result, not an exception."""

    call_id: str  # of the call it settles
    success: bool  # the operation did what it was asked (a command: exit code 0)
    message: str  # one line for people and models
    error: str | None = None  # code: TEXT_NOT_FOUND, FILE_NOT_FOUND, TIMEOUT, OUTCOME_UNKNOWN, ...
    data: Mapping[str, Any] = field(default_factory=dict)  # the operation's own fields (D+)


def result_from_wire(call_id: str, payload: Mapping[str, Any]) -> ToolResult:
    """Build a result from what a toolbox said; whatever is missing or of another type is mended."""
    success = payload.get("success") is True
    message = payload.get("message")
    error = payload.get("error")
    own = {k: v for k, v in payload.items() if k not in {"success", "message", "error"}}
    return ToolResult(
        call_id=call_id,
        success=success,
        message=message if isinstance(message, str) else "",
        error=error if isinstance(error, str) else None if success else "UNKNOWN_ERROR",
        data=own,
    )


__all__ = ["Effect", "ToolCall", "ToolResult", "ToolSpec", "result_from_wire"]
