"""Shadow's ToolExecutor (D8): nine operations on one task's workspace, by the toolbox of a kind.

An operation never raises for what happens to it: the result says so (D12, F2.8). What is wrong with
the call itself, such as a name of nothing, is the result's error code too.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from patchyard.domain.errors import Unavailable, WorkFailed
from patchyard.domain.tooling import Effect
from patchyard.execution.outcomes import (
    CodebaseSearchResult,
    CommandResult,
    DeleteFileResult,
    GrepSearchResult,
    ListDirectoryResult,
    Outcome,
    ReadFileResult,
    Result,
    SearchFilesResult,
    SearchReplaceResult,
    WriteFileResult,
    failed,
    outcome_of,
)
from patchyard.execution.owned import OwnedFiles
from patchyard.execution.place import LostCall, Place
from patchyard.toolbox.operations import OF_FILES

COMMAND_TIMEOUT_S = 30.0  # D+
CLOSINGS = 2  # how often an environment that does not end is told so
OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"  # it was sent, and nobody knows what it did


class ToolExecutor:
    """The operations of one task. An asynchronous context manager, else `close` it.

    Paths are those of the workspace, relative or absolute; none leads out of it. A result whose
    `retryable` is set may be asked for again; nothing is ever sent twice from here.
    """

    def __init__(
        self,
        task_id: str,
        place: Place,
        *,
        is_remote: bool = False,
        files: OwnedFiles | None = None,
    ) -> None:
        """Take whose operations these are, and where; those on files may have another place."""
        self._task_id = task_id
        self._place = place
        self._is_remote = is_remote
        self._files = files

    def get_task_id(self) -> str:
        """Return whose operations these are."""
        return self._task_id

    def get_workspace_path(self) -> str:
        """Return where the workspace lies."""
        return self._place.spec.workspace.source

    def is_remote(self) -> bool:
        """Whether this stands for another machine."""
        return self._is_remote

    async def read_file(
        self, path: str, *, start_line: int | None = None, end_line: int | None = None
    ) -> ReadFileResult:
        """Read lines of a text file, 1,000 at most; lines out of range are brought into it."""
        args = {"path": path, "start_line": start_line, "end_line": end_line}
        return await self._asked(ReadFileResult, "read_file", args, f"read {path}")

    async def write_file(self, path: str, content: str) -> WriteFileResult:
        """Write a whole file in one step, with the folders that it needs."""
        args = {"path": path, "content": content}
        return await self._asked(WriteFileResult, "write_file", args, f"write {path}", Effect.WRITE)

    async def delete_file(self, path: str) -> DeleteFileResult:
        """Delete a file; one that is not there is a success."""
        args = {"path": path}
        what = f"delete {path}"
        return await self._asked(DeleteFileResult, "delete_file", args, what, Effect.WRITE)

    async def search_replace(
        self, path: str, old_string: str, new_string: str
    ) -> SearchReplaceResult:
        """Replace a text that occurs exactly once in a file."""
        args = {"path": path, "old_string": old_string, "new_string": new_string}
        what = f"change {path}"
        return await self._asked(SearchReplaceResult, "search_replace", args, what, Effect.WRITE)

    async def list_directory(
        self, path: str = "", *, recursive: bool = False
    ) -> ListDirectoryResult:
        """List a folder, the workspace itself without a path; `recursive` passes caches over."""
        args = {"path": self._inside(path), "recursive": recursive}
        return await self._asked(ListDirectoryResult, "list_directory", args, f"list {path or '/'}")

    def _inside(self, path: Any) -> Any:
        """Read a leading slash as the workspace's (D+), where it does not begin its real path."""
        root = self.get_workspace_path().rstrip("/")
        if not isinstance(path, str):
            return path  # refused inside
        return path if f"{path}/".startswith(f"{root}/") else path.lstrip("/") or "."

    async def search_files(self, query: str) -> SearchFilesResult:
        """Find files by part of their name, or by a pattern; 100 at most, then `truncated`."""
        args = {"query": query}
        return await self._asked(SearchFilesResult, "search_files", args, "search for files")

    async def grep_search(
        self,
        pattern: str,
        *,
        path: str = ".",
        include_pattern: str = "",
        exclude_pattern: str = "",
        case_sensitive: bool = False,
    ) -> GrepSearchResult:
        """Find lines that fit a regular expression, 50 of a file at most; none is a success."""
        args = {
            "pattern": pattern,
            "path": path,
            "include_pattern": include_pattern,
            "exclude_pattern": exclude_pattern,
            "case_sensitive": case_sensitive,
        }
        return await self._asked(GrepSearchResult, "grep_search", args, "search in files")

    async def codebase_search(self, query: str) -> CodebaseSearchResult:
        """Find pieces of files that share words with the query, best first."""
        args = {"query": query}
        return await self._asked(CodebaseSearchResult, "codebase_search", args, "search the code")

    async def execute_command(
        self,
        command: str,
        *,
        cwd: str = ".",
        timeout_s: float = COMMAND_TIMEOUT_S,
        background: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a command line; after `timeout_s` its whole tree is killed.

        In the `background` it returns at once with a `job_id`; see `job_output` and `job_kill`.
        """
        args = {
            "command": command,
            "cwd": cwd,
            "timeout_s": timeout_s,
            "background": background,
            "env": dict(env or {}),
        }
        what = f"run {str(command)[:80]}"
        return await self._asked(
            CommandResult, "execute_command", args, what, Effect.RUN, command=command
        )

    async def job_status(self, job_id: str) -> CommandResult:
        """Return whether a background command runs, without its output."""
        return await self._job("job_status", job_id, "ask for a job")

    async def job_output(self, job_id: str) -> CommandResult:
        """Return what a background command has written so far, and how it ended where it has."""
        return await self._job("job_output", job_id, "ask for a job")

    async def job_kill(self, job_id: str) -> CommandResult:
        """Kill a background command with its whole tree."""
        return await self._job("job_kill", job_id, "end a job", Effect.RUN)

    async def _job(
        self, op: str, job_id: str, what: str, effect: Effect = Effect.READ
    ) -> CommandResult:
        args = {"job_id": job_id}
        known = {"job_id": job_id, "is_background": True}
        return await self._asked(CommandResult, op, args, what, effect, **known)

    async def _asked(
        self,
        kind: type[Result],
        op: str,
        args: Mapping[str, Any],
        what: str,
        effect: Effect = Effect.READ,
        **known: Any,
    ) -> Result:
        """Return the result of one operation; one that failed has the fallback's values."""
        given = {name: value for name, value in args.items() if value is not None}
        try:
            place = await self._place_of(op)
            if not place.is_open and not await self._has_workspace():
                message = f"Failed to {what}: there is no folder {self.get_workspace_path()}"
                return kind(message=message, error="WORKSPACE_NOT_FOUND", **known)
            payload = await place.call(op, given)
        except LostCall as error:
            if effect == Effect.READ:
                return failed(kind, what, error, **known)
            unknown = {"error": OUTCOME_UNKNOWN, "retryable": False}
            return failed(kind, what, error, **unknown, **known)
        except (Unavailable, WorkFailed, OSError) as error:
            return failed(kind, what, error, **known)
        return outcome_of(kind, payload, **known)

    async def _place_of(self, op: str) -> Place:
        if self._files is None or op not in OF_FILES:
            return self._place
        return await self._files.place()

    async def _has_workspace(self) -> bool:
        return await asyncio.to_thread(Path(self.get_workspace_path()).is_dir)

    async def close(self) -> Outcome:
        """End the environment with all that runs there; called again it does nothing."""
        for _ in range(CLOSINGS):
            has_ended = self._files is None or await self._files.close()
            if await self._place.close() and has_ended:
                return Outcome(success=True, message="closed")
        message = "Failed to close: the environment does not end; without us it does after a minute"
        return Outcome(message=message, error="ENVIRONMENT_BROKEN", retryable=True)

    async def __aenter__(self) -> Self:
        """Return itself; the environment starts with the first operation."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()


__all__ = ["CLOSINGS", "COMMAND_TIMEOUT_S", "OUTCOME_UNKNOWN", "ToolExecutor"]
