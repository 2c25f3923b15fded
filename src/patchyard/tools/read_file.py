"""`read_file`: a page of a text file."""

from patchyard.domain.tooling import Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import (
    FILE_CHARS,
    ToolboxTool,
    specification,
    text_argument,
    whole_argument,
)

SPEC = specification(
    "read_file",
    "Read a text file. At most 1,000 lines come at once; ask for the next ones by `start_line`. "
    "The text comes exactly as it is, without line numbers. An image is shown, if you can see.",
    Effect.READ,
    {
        "path": text_argument("file, relative to the workspace"),
        "start_line": whole_argument("first line wanted, from 1"),
        "end_line": whole_argument("last line wanted, itself included"),
    },
    required=("path",),
)


def show(result: ToolResult) -> str:
    """Return the text under a line that says which lines of how many it holds."""
    if not result.success:
        return ""
    data = result.data
    start, end = claims.number(data, "start_line"), claims.number(data, "end_line")
    total = claims.number(data, "total_lines")
    content = claims.text(data, "content")
    if not content:
        return "[the file is empty]" if not total else f"[no lines there; it has {total}]"
    more = ""
    if total is not None and end is not None and end < total:
        more = f"; go on with start_line={end + 1}"
    return f"[lines {start} to {end} of {total}{more}]\n{content}"


def tool(workspace: str) -> ToolboxTool:
    """Build the tool for a workspace at that absolute path."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace, limit=FILE_CHARS, head_share=0.9)


__all__ = ["SPEC", "show", "tool"]
