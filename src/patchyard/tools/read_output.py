"""`read_output`: the rest of an output that was cut. The engine answers it from what it kept."""

from patchyard.domain.tooling import OUTPUT_PAGE_CHARS, READ_OUTPUT, Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument, whole_argument

SPEC = specification(
    READ_OUTPUT,
    f"Read the full output of an earlier call, {OUTPUT_PAGE_CHARS:,} characters at once.",
    Effect.READ,
    {
        "call_id": text_argument("id of the call, from the line that says what was left out"),
        "offset": whole_argument("first character wanted, from 0", minimum=0),
    },
    required=("call_id",),
)


def show(result: ToolResult) -> str:
    """Return the page under a line that says where it stands."""
    if not result.success:
        return ""
    following = claims.number(result.data, "next_offset")
    more = f"; go on with offset={following}" if following is not None else ""
    return f"[{result.message}{more}]\n{claims.text(result.data, 'content')}"


def tool(workspace: str) -> ToolboxTool:
    """Build the tool; a page is never cut again."""
    return ToolboxTool(spec=SPEC, show=show, workspace=workspace, limit=2 * OUTPUT_PAGE_CHARS)


__all__ = ["SPEC", "show", "tool"]
