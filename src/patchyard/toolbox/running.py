"""`execute_command` and the three operations on background jobs."""

from __future__ import annotations

import os

from . import arguments
from .answers import Refusal, success
from .commands import DEFAULT_TIMEOUT_S, SHELLS, Command, Launch, environment, find_shell
from .denials import denied_folder
from .levels import level_of
from .room import MAX_JOBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator

    from .calls import Call
    from .room import Room

LONGEST_COMMAND = 120_000  # the kernel takes 131,072 bytes in one argument


def execute_command(room: Room, call: Call, args: dict[str, Any]) -> None:
    """Start the command line; the call is settled when it ends, or at once for a job."""
    command = arguments.text(args, "command")
    if not command.strip() or "\0" in command:
        raise Refusal("VALIDATION_ERROR", "`command` must be a command line")
    if len(arguments.data(args, "command")) > LONGEST_COMMAND:
        message = "a command line holds %d bytes at most; write it to a file and run that"
        raise Refusal("VALIDATION_ERROR", message % LONGEST_COMMAND)
    timeout_s = arguments.number(args, "timeout_s", DEFAULT_TIMEOUT_S)
    session = args.get("session")
    if session is not None:
        from .shells import run_in_session  # noqa: PLC0415 - rarely used

        run_in_session(room, call, args, timeout_s)
        return
    is_background = arguments.flag(args, "background")
    if is_background and sum(job.is_running for job in room.jobs.values()) >= MAX_JOBS:
        raise Refusal("TOO_MANY_JOBS", "%d jobs run already; end one by job_kill" % MAX_JOBS)
    own = {
        "command": command,
        "is_background": is_background,
        "security_level": level_of(command),
    }

    def done(result: dict[str, Any]) -> None:
        if not is_background:
            call.settle({**result, **own})

    running = start(room, call, command, args, done)
    call.running = running
    if not is_background:
        running.limit(timeout_s)
        return
    if args.get("wall_s") is not None:
        running.limit(arguments.number(args, "wall_s", DEFAULT_TIMEOUT_S))
    _forget_old_jobs(room)
    room.jobs[call.call_id] = running
    call.settle(success("started in the background", job_id=call.call_id, pid=running.pid, **own))


def start(
    room: Room,
    call: Call,
    command: str,
    args: dict[str, Any],
    done: Callable[[dict[str, Any]], None],
) -> Command:
    """Start a command line by the shell, in the folder that `cwd` names."""
    directory = open_directory(room, args)
    try:
        argv = [find_shell() or SHELLS[-1], "-c", command]
        launch = Launch(argv, environment(room, variables(args), call.mark), directory)
        try:
            return Command(room, launch, call.emit, done)
        except BlockingIOError:  # no further process may begin: what is left over makes room
            from .sweeping import clear  # noqa: PLC0415 - rarely needed

            clear(room)
        try:
            return Command(room, launch, call.emit, done)
        except BlockingIOError as error:
            message = "the command cannot be started: %s" % os.strerror(error.errno or 0)
            raise Refusal("COMMAND_FAILED", message) from error
    finally:
        os.close(directory)


def open_directory(room: Room, args: dict[str, Any]) -> int:
    """Return the folder that `cwd` names, opened. Raises Refusal, Denied."""
    cwd = arguments.text(args, "cwd", ".")
    try:
        with room.workspace.locate(cwd) as place:
            folder = place.open_folder()
            try:
                os.stat(".", dir_fd=folder)  # as a command that starts in it has to
            except PermissionError as error:
                denied = denied_folder(error, place.relative, folder)
                os.close(folder)
                raise denied from error
            return folder
    except Refusal as refusal:
        if refusal.result["error"] == "FILE_NOT_FOUND":
            raise Refusal("DIRECTORY_NOT_FOUND", "no folder %s" % cwd) from None
        raise


def variables(args: dict[str, Any]) -> dict[str, str]:
    """Return the further variables of a command."""
    given = args.get("env") or {}
    if not isinstance(given, dict) or not all(map(_is_variable, given.items())):
        raise Refusal("VALIDATION_ERROR", "`env` must be an object of texts")
    return dict(given)


def _is_variable(pair: tuple[str, object]) -> bool:
    name, value = pair
    if not isinstance(value, str) or not name or "=" in name or "\0" in name + value:
        return False
    try:
        (name + value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _forget_old_jobs(room: Room) -> None:
    ended = [name for name, job in room.jobs.items() if not job.is_running]
    for name in ended[: max(0, len(room.jobs) - MAX_JOBS + 1)]:
        del room.jobs[name]


def _job(room: Room, args: dict[str, Any]) -> Command:
    name = arguments.text(args, "job_id")
    if name not in room.jobs:
        known = ", ".join(room.jobs) or "none"
        raise Refusal("UNKNOWN_JOB", "no job %s; known: %s" % (name, known))
    return room.jobs[name]


def job_status(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Return whether a job runs, its exit code and how much it has written."""
    fields = _job(room, args).fields()
    del fields["stdout"], fields["stderr"]
    return success(_state(fields), **fields)


def job_output(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Return a job's state and its output so far."""
    fields = _job(room, args).fields()
    return success(_state(fields), **fields)


def job_kill(room: Room, args: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
    """Kill a job's whole tree; return its state when that is done."""
    job = _job(room, args)
    job.kill("CANCELLED")
    while job.is_running:
        yield 0.002
    fields = job.fields()
    return success(_state(fields), **fields)


def _state(fields: dict[str, Any]) -> str:
    if fields["is_running"]:
        return "still running after %.3g s" % fields["elapsed_s"]
    return "ended with exit code %s" % fields["exit_code"]


__all__ = [
    "LONGEST_COMMAND",
    "execute_command",
    "job_kill",
    "job_output",
    "job_status",
    "open_directory",
    "start",
    "variables",
]
