"""`search_replace`: one exact text of a file becomes another."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

SPEC = specification(
    "search_replace",
    "Replace one text in a file. `old_string` must occur exactly once, with its white space and "
    "without line numbers; give lines around it to make it unique.",
    Effect.WRITE,
    {
        "path": text_argument("file, relative to the workspace"),
        "old_string": text_argument("text as it stands in the file"),
        "new_string": text_argument("text that takes its place; empty deletes it"),
    },
    required=("path", "old_string", "new_string"),
)


def show(result: ToolResult) -> str:
    """Return what changed; for a text not found, what lies nearest."""
    if not result.success:
        return "\n".join(claims.texts(result.data, "nearest"))
    added, removed = (claims.number(result.data, k) for k in ("lines_added", "lines_removed"))
    return f"replaced: +{added or 0} -{removed or 0} lines"


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace)


__all__ = ["SPEC", "show", "tool"]
