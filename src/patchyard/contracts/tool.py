"""The seam to tools: what a model is shown, and how a call becomes an operation of the toolbox."""

from collections.abc import Mapping
from typing import Any, Protocol

from patchyard.domain.messages import Image
from patchyard.domain.tooling import ToolResult, ToolSpec


class Tool(Protocol):
    """One tool. It acts only through the toolbox operation it names.

    The one exception is the operation `domain.tooling.READ_OUTPUT` (arguments `call_id` and
    `offset`): the engine answers it itself with `output_page` of the earlier result's `full` text.
    """

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema and effect, as data."""
        ...

    def prepare(self, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """Return the toolbox operation and its arguments. Raises UsageError if they do not fit.

        That error is a result for the actor (code VALIDATION_ERROR), not an end of the plan.
        """
        ...

    def render(self, result: ToolResult) -> str:
        """Return the text the model reads: `full`, cut to the tool's stated size.

        What was cut says how `read_output` shows the rest.
        """
        ...

    def images(self, result: ToolResult) -> tuple[Image, ...]:
        """Return the pictures that the result holds, checked as far as their form shows."""
        ...

    def full(self, result: ToolResult) -> str:
        """Return all that the result says, uncut; the engine keeps it for `read_output`."""
        ...


__all__ = ["Tool"]
