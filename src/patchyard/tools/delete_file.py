"""`delete_file`: one file less."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

SPEC = specification(
    "delete_file",
    "Delete one file. A file that is not there is no failure.",
    Effect.WRITE,
    {"path": text_argument("file, relative to the workspace")},
    required=("path",),
)


def show(result: ToolResult) -> str:
    """Return whether there was anything to delete."""
    if not result.success:
        return ""
    gone = claims.flag(result.data, "was_already_deleted")
    return "there was no such file" if gone else "deleted"


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace)


__all__ = ["SPEC", "show", "tool"]
