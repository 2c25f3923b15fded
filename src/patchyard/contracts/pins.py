"""The seam to what is remembered of MCP servers: their tools as they were when last accepted."""

from collections.abc import Sequence
from typing import Protocol

from patchyard.domain.mcp import McpServer


class Pins(Protocol):
    """One list of tools a server; a server that is started in another way is another one."""

    def read(self, server: McpServer) -> Sequence[str] | None:
        """Return the tools as canonical texts; None where the server was never seen."""
        ...

    def keep(self, server: McpServer, texts: Sequence[str]) -> None:
        """Remember these in their place. Raises Unavailable where nothing can be written."""
        ...


__all__ = ["Pins"]
