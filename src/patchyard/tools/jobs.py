"""`job_output` and `job_kill`: what became of a command in the background."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

JOB = {"job_id": text_argument("id that execute_command gave")}

OUTPUT_SPEC = specification(
    "job_output",
    "Show the state and the output of a command that runs in the background.",
    Effect.READ,
    JOB,
    required=("job_id",),
)

KILL_SPEC = specification(
    "job_kill",
    "End a command that runs in the background.",
    Effect.RUN,
    JOB,
    required=("job_id",),
)


def show(result: ToolResult) -> str:
    """Return the state, then both streams."""
    if not result.success and not result.data:
        return ""
    data = result.data
    code = claims.number(data, "exit_code")
    state = "still running" if claims.flag(data, "is_running") else f"ended, exit code {code}"
    parts = [f"[{state}]"]
    parts += [claims.text(data, key).rstrip("\n") for key in ("stdout", "stderr")]
    return "\n".join(part for part in parts if part)


def output_tool(workspace: str) -> ToolboxTool:
    """Build `job_output`."""
    return ToolboxTool(spec=OUTPUT_SPEC, show=show, workspace=workspace, head_share=0.3)


def kill_tool(workspace: str) -> ToolboxTool:
    """Build `job_kill`."""
    return ToolboxTool(spec=KILL_SPEC, show=show, workspace=workspace)


__all__ = ["KILL_SPEC", "OUTPUT_SPEC", "kill_tool", "output_tool", "show"]
