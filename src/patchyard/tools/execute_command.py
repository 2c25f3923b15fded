"""`execute_command`: a command line in the workspace."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

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
            "description": "seconds, default 30",
        },
        "background": {"type": "boolean", "description": "return at once; ask by job_output"},
    },
    required=("command",),
)


def show(result: ToolResult) -> str:
    """Return exit code and both streams; standard error under a line of its own."""
    data = result.data
    job = claims.text(data, "job_id")
    if job:
        return f'[runs in the background; job_output(job_id="{job}") shows how it goes]'
    parts = []
    code = claims.number(data, "exit_code")
    if code is not None:
        signal = claims.text(data, "signal")
        parts.append(f"[exit code {code}{f', killed by {signal}' if signal else ''}]")
    out, err = claims.text(data, "stdout"), claims.text(data, "stderr")
    if out:
        parts.append(out.rstrip("\n"))
    if err:
        parts.append(f"[standard error]\n{err.rstrip(chr(10))}")
    if not out and not err and code is not None:
        parts.append("[no output]")
    return "\n".join(parts)


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace, head_share=0.3)


__all__ = ["SPEC", "show", "tool"]
