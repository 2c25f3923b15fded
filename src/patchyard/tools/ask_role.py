"""`ask_role`: a question to another role, who looks at the work and answers. It changes nothing."""

from collections.abc import Sequence

from patchyard.domain.role import Role
from patchyard.domain.tooling import ASK_ROLE, Effect, ToolResult
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool, specification, text_argument


def show(result: ToolResult) -> str:
    """Return the answer under a line that says whose word it is, and about what."""
    if not result.success:
        return ""
    about = claims.text(result.data, "about")
    head = f"[{result.message}, about {about}: an opinion, which may be wrong; check it]"
    return f"{head}\n{claims.text(result.data, 'answer')}"


def tool(roles: Sequence[Role]) -> ToolboxTool:
    """Build the tool for whoever may ask `roles`."""
    listed = "; ".join(f"`{each.name}` {each.purpose or each.title}" for each in roles)
    spec = specification(
        ASK_ROLE,
        "Ask a colleague one question, which costs time and money: only where the answer changes"
        " what you do. The colleague sees the repository as it is now and nothing of this"
        f" conversation, and changes nothing. {listed}.",
        Effect.READ,
        {
            "role": {**text_argument("whom to ask"), "enum": [each.name for each in roles]},
            "question": text_argument("the question, with all that is needed to understand it"),
        },
        required=("role", "question"),
    )
    return ToolboxTool(spec=spec, show=show)


__all__ = ["show", "tool"]
