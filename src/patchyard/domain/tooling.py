"""What a tool is, what a call asks for and what comes back. Knows no place where a tool runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

COMMAND = "execute_command"  # the one operation whose programs could reach anything
OF_JOBS = frozenset({"job_kill", "job_output"})  # about what a command left running
ASK_ROLE = "ask_role"  # the one operation that another role carries out, in a plan of its own
READ_OUTPUT = "read_output"  # the one operation that the engine answers itself, from the journal
OUTPUT_PAGE_CHARS = 16_000  # of a kept output, a page
DEEPEST = 100  # that arguments may be nested: more is no use, and our own code would not follow


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


def finite(value: object, default: float) -> float:
    """Return a claimed number as a float; `default` for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    try:
        number = float(value)
    except OverflowError:
        return default
    return number if math.isfinite(number) else default


def output_page(text: str, *, offset: int = 0, size: int = OUTPUT_PAGE_CHARS) -> Mapping[str, Any]:
    """Return one page of a call's full text as a payload for `result_from_wire`.

    `offset` and `next_offset` count characters; `next_offset` is None on the last page.
    """
    start = min(max(offset, 0), len(text))
    end = min(start + size, len(text))
    return {
        "success": True,
        "message": f"characters {start:,} to {end:,} of {len(text):,}",
        "content": text[start:end],
        "offset": start,
        "next_offset": end if end < len(text) else None,
        "total_chars": len(text),
    }


__all__ = [
    "ASK_ROLE",
    "COMMAND",
    "DEEPEST",
    "OF_JOBS",
    "OUTPUT_PAGE_CHARS",
    "READ_OUTPUT",
    "Effect",
    "ToolResult",
    "ToolSpec",
    "finite",
    "output_page",
    "result_from_wire",
]
