"""`execute_command`: a command line in the workspace."""

from dataclasses import dataclass, replace

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

FAILED = "COMMAND_FAILED"

SPEC = specification(
    "execute_command",
    "Run a command line in the workspace with the shell. Nobody can type into it: no editors, no "
    "prompts, no pagers. It is killed after `timeout_s`; what should go on runs in `background`. "
    "Output over 16,000 characters is cut in the middle and kept for read_output.",
    Effect.RUN,
    {
        "command": text_argument("command line"),
        "cwd": text_argument("folder to run it in, relative to the workspace"),
        "timeout_s": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "seconds, default 30; give a long test run more",
        },
        "background": {"type": "boolean", "description": "return at once; ask by job_output"},
    },
    required=("command",),
)


@dataclass(frozen=True, kw_only=True)
class CommandTool(ToolboxTool):
    """`execute_command`, whose failures say how the command ended."""

    def full(self, result: ToolResult) -> str:
        """Return all of the result as text."""
        return super().full(without_time(result))


def show(result: ToolResult) -> str:
    """Return exit code and both streams; standard error under a line of its own."""
    data = result.data
    job = claims.text(data, "job_id")
    if job:
        return f'[runs in the background; job_output(job_id="{job}") shows how it goes]'
    parts = []
    code = claims.number(data, "exit_code")
    if code is not None and result.error != FAILED:
        parts.append(f"[{_ending(result)}]")
    out, err = claims.text(data, "stdout"), claims.text(data, "stderr")
    if out:
        parts.append(out.rstrip("\n"))
    if err:
        parts.append(f"[standard error]\n{err.rstrip(chr(10))}")
    if not out and not err and code is not None:
        parts.append("[no output; what asks for input gets none]" if code else "[no output]")
    if result.success and claims.text(data, "limit"):  # a failure says so in its first line
        parts.append(f"[{result.message.partition('; ')[2]}]")
    return "\n".join(parts)


def without_time(result: ToolResult) -> ToolResult:
    """Return a failed command's result with how it ended as its message, and not how long it took.

    Two runs that differ in nothing else then read the same.
    """
    if result.error != FAILED:
        return result
    return replace(result, message=_ending(result))


def _ending(result: ToolResult) -> str:
    signal = claims.text(result.data, "signal")
    killed = f", killed by {signal}" if signal else ""
    return f"exit code {claims.number(result.data, 'exit_code')}{killed}"


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return CommandTool(spec=SPEC, show=show, workspace=workspace, head_share=0.3)


__all__ = ["FAILED", "SPEC", "CommandTool", "show", "tool", "without_time"]
