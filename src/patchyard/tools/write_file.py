"""`write_file`: a whole file, new or replaced."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

SPEC = specification(
    "write_file",
    "Write a whole file; folders are made, an existing file is replaced. To change part of a "
    "file use search_replace.",
    Effect.WRITE,
    {
        "path": text_argument("file, relative to the workspace"),
        "content": text_argument("the whole new text"),
    },
    required=("path", "content"),
)


def show(result: ToolResult) -> str:
    """Return what changed, in one line."""
    if not result.success:
        return ""
    verb = "created" if claims.flag(result.data, "is_new_file") else "replaced"
    added, removed = (claims.number(result.data, k) for k in ("lines_added", "lines_removed"))
    return f"{verb}: +{added or 0} -{removed or 0} lines"


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace)


__all__ = ["SPEC", "show", "tool"]
