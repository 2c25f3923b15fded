"""The seam to tools: what a model is shown, and how a call becomes an operation of the toolbox."""

from collections.abc import Mapping
from typing import Any, Protocol

from patchyard.domain.tooling import ToolResult, ToolSpec


class Tool(Protocol):
    """One tool. It acts only through the toolbox operation it names."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema and effect, as data."""
        ...

    def prepare(self, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """Return the toolbox operation and its arguments. Raises UsageError if they do not fit."""
        ...

    def render(self, result: ToolResult) -> str:
        """Return the text the model reads for this result."""
        ...


__all__ = ["Tool"]
