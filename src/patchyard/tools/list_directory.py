"""`list_directory`: what lies in a folder."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument

SPEC = specification(
    "list_directory",
    "List a folder, folders first. Without `path`: the top of the workspace.",
    Effect.READ,
    {
        "path": text_argument("folder, relative to the workspace"),
        "recursive": {
            "type": "boolean",
            "description": "also what lies in its folders, but in node_modules, build and such",
        },
    },
)


def show(result: ToolResult) -> str:
    """Return one name a line, folders with a slash; below the folder, paths from it."""
    if not result.success:
        return ""
    entries = claims.rows(result.data, "contents")
    lines = [
        (claims.text(entry, "relative_path") or claims.text(entry, "name"))
        + ("/" if claims.flag(entry, "is_directory") else "")
        for entry in entries
    ]
    if claims.flag(result.data, "truncated"):
        lines.append("[there are more; list one of the folders]")
    lines += claims.unreadable(result.data)
    return "\n".join(lines) or "[the folder is empty]"


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace)


__all__ = ["SPEC", "show", "tool"]
