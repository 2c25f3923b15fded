"""The operations by name; a module is imported when its first call comes."""

from __future__ import annotations

import importlib

from .answers import Refusal, failure, from_os_error, internal
from .denials import Denied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator, Iterator

    from .calls import Call
    from .room import Room

PLACES = {
    "codebase_search": "ranking",
    "delete_file": "files",
    "execute_command": "running",
    "freeze": "freezing",
    "get_file": "transfer",
    "grep_search": "grep",
    "job_kill": "running",
    "job_output": "running",
    "job_status": "running",
    "list_directory": "listing",
    "mcp_answer": "mcp",
    "mcp_call": "mcp",
    "mcp_list": "mcp",
    "put_file": "transfer",
    "read_file": "files",
    "replica_get": "replicating",
    "replica_known": "replicating",
    "replica_look": "replicating",
    "replica_page": "replicating",
    "replica_put": "replicating",
    "replica_settle": "replicating",
    "search_files": "listing",
    "search_replace": "replacing",
    "sweep": "sweeping",
    "thaw": "freezing",
    "write_file": "files",
}
WRITING = frozenset(
    {
        *("delete_file", "execute_command", "mcp_answer", "mcp_call"),
        *("mcp_list", "put_file", "search_replace", "write_file"),
    }
)
"""Operations after which a replica may be another."""
SETTLING = frozenset({"execute_command", "mcp_answer", "mcp_call", "mcp_list"})
"""Operations that settle their call themselves, when what they started has answered."""
OF_FILES = frozenset(
    {
        *("codebase_search", "delete_file", "grep_search", "list_directory", "read_file"),
        *("search_files", "search_replace", "write_file"),
    }
)
"""What a toolbox for files alone does; none of it starts a program."""
ASTRAY = frozenset({"FILE_NOT_FOUND", "DIRECTORY_NOT_FOUND", "PATH_OUTSIDE_WORKSPACE"})
"""Failures of a path that may be a slip of the pen: they get the nearest names that exist."""


def begin(room: Room, call: Call, op: str, args: dict[str, Any]) -> None:
    """Start `op`; the call is settled now or later, with a failure when it cannot be done.

    An exception in a callback of it is such a failure, and ends nothing else.
    """
    room.begun += 1
    with room.loop.owned(lambda error: call.fail(_failure(room, error, {}))):
        _begin(room, call, op, args)


def _begin(room: Room, call: Call, op: str, args: dict[str, Any]) -> None:
    if op in WRITING and room.replica is not None and not room.settings.is_read_only:
        call.complete = room.replica.completing(room)
    try:
        function = _find(room, op)
        if op in SETTLING:
            function(room, call, args)
            return
        answer = function(room, args)
    except Exception as error:  # noqa: BLE001 - a call always ends in a result
        call.settle(_failure(room, error, args))
        return
    if isinstance(answer, dict):
        call.settle(answer)
        return
    call.on_cancel = lambda: call.settle(failure("CANCELLED", "cancelled"))
    room.loop.step_through(_drive(room, call, answer, args))


def _find(room: Room, op: str) -> Callable[..., Any]:
    if op not in PLACES:
        known = ", ".join(PLACES)
        raise Refusal("UNKNOWN_OPERATION", "no operation %r; known: %s" % (op, known))
    if room.settings.has_files_alone and op not in OF_FILES:
        raise Refusal("FILES_ALONE", "%s is not done here: it is for files alone" % op)
    function: Callable[..., Any] = getattr(
        importlib.import_module("." + PLACES[op], __package__), op
    )
    return function


def _drive(
    room: Room, call: Call, work: Generator[float, None, dict[str, Any]], args: dict[str, Any]
) -> Iterator[float]:
    try:
        while not call.is_over:
            try:
                delay_s = next(work)
            except StopIteration as stop:
                call.settle(stop.value)
                return
            yield delay_s
    except Exception as error:  # noqa: BLE001 - a call always ends in a result
        call.settle(_failure(room, error, args))
    finally:
        work.close()


def _failure(room: Room, error: Exception, args: dict[str, Any]) -> dict[str, Any]:
    path = str(args.get("path") or args.get("cwd") or "")
    if isinstance(error, Refusal):
        return _with_near_paths(room, error.result, path)
    if isinstance(error, OSError):
        result = from_os_error(error, path)
        if isinstance(error, Denied):
            result["message"] += ": %s" % error.told(room.workspace.root)
        return result
    if isinstance(error, MemoryError):
        return failure("FILE_TOO_LARGE", "there is not enough memory for this")
    return internal(error)


def _with_near_paths(room: Room, result: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the failure; where it is about a path, with the existing ones that may be meant."""
    if result["error"] not in ASTRAY:
        return result
    from .nearest import near_paths  # noqa: PLC0415 - 4 ms that only a failure needs

    try:
        only_folders = result["error"] == "DIRECTORY_NOT_FOUND"
        near = near_paths(room.workspace, path, only_folders=only_folders)
    except (Refusal, OSError):  # the failure is told, with or without
        near = []
    if near:
        result["message"] += "; did you mean %s?" % " or ".join(near)
    return {**result, "near": near}


__all__ = ["ASTRAY", "OF_FILES", "PLACES", "SETTLING", "WRITING", "begin"]
