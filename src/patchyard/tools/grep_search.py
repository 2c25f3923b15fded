"""`grep_search`: lines that match a regular expression."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

SPEC = specification(
    "grep_search",
    "Search the contents of files for a regular expression, line by line. Escape characters such "
    "as ( or [ to find them as they are. At most 50 matches a file. Dependencies and products, "
    "such as node_modules, dist and build, are left out; name one as `path` to search it.",
    Effect.READ,
    {
        "pattern": text_argument("regular expression"),
        "path": text_argument("file or folder to search in; default: the whole workspace"),
        "include_pattern": text_argument("glob of files to search, such as *.py"),
        "exclude_pattern": text_argument("glob of files to leave out"),
        "case_sensitive": {"type": "boolean", "description": "default: false"},
    },
    required=("pattern",),
)


def show(result: ToolResult) -> str:
    """Return `file:line: text` for each match."""
    if not result.success:
        return ""
    found = [
        f"{claims.text(row, 'file')}:{claims.number(row, 'line_number')}: "
        f"{claims.text(row, 'content')}"
        for row in claims.rows(result.data, "detailed_matches")
    ]
    found = found or ["no match"]
    more = ["[there are more; narrow the search]"] if claims.flag(result.data, "truncated") else []
    return "\n".join([*found, *more, *claims.unreadable(result.data)])


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace, head_share=0.9)


__all__ = ["SPEC", "show", "tool"]
