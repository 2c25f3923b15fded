"""`codebase_search`: pieces of code ranked by words."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

SPEC = specification(
    "codebase_search",
    "Find the pieces of code that fit some words best, ranked. For when you do not know the "
    "exact text; else use grep_search.",
    Effect.READ,
    {"query": text_argument("words that describe what you look for")},
    required=("query",),
)


def show(result: ToolResult) -> str:
    """Return each piece under its path and lines."""
    if not result.success:
        return ""
    pieces = [
        f"--- {claims.text(row, 'path')}:{claims.number(row, 'line_start')}"
        f"-{claims.number(row, 'line_end')}\n{claims.text(row, 'content').rstrip()}"
        for row in claims.rows(result.data, "results")
    ]
    if claims.flag(result.data, "truncated"):
        pieces.append("[not every file was searched; grep_search does that]")
    pieces = pieces or ["nothing fits these words"]
    return "\n".join([*pieces, *claims.unreadable(result.data)])


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace, head_share=0.9)


__all__ = ["SPEC", "show", "tool"]
