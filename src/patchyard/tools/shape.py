"""The shape that all tools share: a specification, a way to fit arguments and to show results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.messages import Image
from patchyard.domain.tooling import Effect, ToolResult, ToolSpec
from patchyard.tools import claims
from patchyard.tools.arguments import fit
from patchyard.tools.cutting import cut

OUTPUT_CHARS = 16_000  # of one result, as the model sees it
FILE_CHARS = 60_000  # of one page of a file: 1,000 lines of code fit

Show = Callable[[ToolResult], str]


@dataclass(frozen=True, kw_only=True)
class ToolboxTool:
    """A tool whose calls go to the toolbox operation of the same name."""

    spec: ToolSpec
    show: Show  # the body of a result's text; failures get their code in front
    workspace: str = ""  # absolute path of the work tree as the model knows it
    limit: int = OUTPUT_CHARS
    head_share: float = 0.5

    def prepare(self, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """Return the operation and its fitted arguments. Raises UsageError."""
        return self.spec.name, fit(self.spec, arguments, workspace=self.workspace)

    def render(self, result: ToolResult) -> str:
        """Return the text for the model, cut to `limit` characters."""
        text = self.full(result)
        return cut(text, limit=self.limit, call_id=result.call_id, head_share=self.head_share)

    def images(self, result: ToolResult) -> tuple[Image, ...]:
        """Return the pictures that the result holds."""
        return claims.images(claims.rows(result.data, "images"), named="media_type")

    def full(self, result: ToolResult) -> str:
        """Return all of the result as text."""
        body = self.show(result)
        if result.success:
            return body or result.message or "done"
        hint = self._hint(result)
        first = f"failed ({result.error or 'UNKNOWN_ERROR'}): {result.message}{hint}"
        return f"{first}\n{body}" if body and body != result.message else first

    def _hint(self, result: ToolResult) -> str:
        if result.error == "PATH_OUTSIDE_WORKSPACE" and self.workspace:
            return f" (write paths relative to {self.workspace})"
        return ""


def specification(
    name: str,
    description: str,
    effect: Effect,
    properties: Mapping[str, Mapping[str, Any]],
    *,
    required: tuple[str, ...] = (),
) -> ToolSpec:
    """Build a ToolSpec whose arguments are an object with `properties` and nothing else."""
    return ToolSpec(
        name=name,
        description=description,
        effect=effect,
        parameters={
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        },
    )


def text_argument(description: str) -> dict[str, Any]:
    """Return the schema of a text."""
    return {"type": "string", "description": description}


def whole_argument(description: str, *, minimum: int = 1) -> dict[str, Any]:
    """Return the schema of a whole number."""
    return {"type": "integer", "minimum": minimum, "description": description}


__all__ = [
    "FILE_CHARS",
    "OUTPUT_CHARS",
    "Show",
    "ToolboxTool",
    "specification",
    "text_argument",
    "whole_argument",
]
