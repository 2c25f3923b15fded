"""`search_files`: files by name."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

SPEC = specification(
    "search_files",
    "Find files by part of their name, or by a glob such as `**/test_*.py`. At most 100. "
    "Dependencies and products, such as node_modules, dist and build, are left out.",
    Effect.READ,
    {"query": text_argument("part of a file name, or a glob")},
    required=("query",),
)


def show(result: ToolResult) -> str:
    """Return one path a line."""
    if not result.success:
        return ""
    files = claims.texts(result.data, "files") or ["no file has such a name"]
    more = ["[there are more; narrow the query]"] if claims.flag(result.data, "truncated") else []
    return "\n".join([*files, *more, *claims.unreadable(result.data)])


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace)


__all__ = ["SPEC", "show", "tool"]
