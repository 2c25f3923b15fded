"""Tools of MCP servers: offered beside ours under names of their own, carried out like any."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.codec import is_deeper
from patchyard.domain.errors import UsageError
from patchyard.domain.mcp import MCP_CALL, ListedTool, McpServer
from patchyard.domain.messages import Image
from patchyard.domain.schemas import misfit
from patchyard.domain.tooling import DEEPEST, Effect, ToolResult, ToolSpec
from patchyard.toolbox.wire import loaded
from patchyard.tools import claims
from patchyard.tools.shape import ToolboxTool


@dataclass(frozen=True, kw_only=True)
class McpTool(ToolboxTool):
    """One tool of one server."""

    server: McpServer
    listed: ListedTool

    def prepare(self, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """Return the operation, with how its server is started. Raises UsageError."""
        problem = misfit(self.listed.parameters, arguments)
        if problem:
            raise UsageError(f"{self.spec.name}: {problem}", hint="look at its schema")
        call = {"tool": self.listed.name, "arguments": dict(arguments), "pin": self.listed.pin}
        return MCP_CALL, {**self.server.launch(), **call}

    def images(self, result: ToolResult) -> tuple[Image, ...]:
        """Return the pictures in the answer."""
        answer = _answered(claims.text(result.data, "answer")) or {}
        found = [row for row in claims.rows(answer, "content") if row.get("type") == "image"]
        return claims.images(found, named="mimeType")


def show(result: ToolResult) -> str:
    """Return what the tool answered, as text: it is data, whatever it says."""
    text = claims.text(result.data, "answer")
    parts = _parts(text)
    refused = ", ".join(claims.texts(result.data, "refused"))
    if refused:
        parts.append(f"[the server asked for what it is not given: {refused}]")
    return "\n".join(parts)


def _answered(text: str) -> Mapping[str, Any] | None:
    """Return the answer as an object, None where it is none that can be read."""
    try:
        answer = loaded(text) if text else {}
    except ValueError:
        return None  # it was cut on its way
    return answer if isinstance(answer, dict) and not is_deeper(answer, DEEPEST) else None


def _parts(text: str) -> list[str]:
    answer = _answered(text)
    if answer is None:
        return [text]
    shown = [_part(block) for block in claims.rows(answer, "content")]
    structured = answer.get("structuredContent")
    if structured is not None and not any(shown):
        shown.append(json.dumps(structured, ensure_ascii=False))
    return [part for part in shown if part]


def _part(block: Mapping[str, Any]) -> str:
    kind = claims.text(block, "type")
    if kind == "text":
        return claims.text(block, "text")
    if kind == "resource":
        resource = block.get("resource")
        body = resource if isinstance(resource, Mapping) else {}
        head = f"[resource {claims.text(body, 'uri')}]"
        return f"{head}\n{claims.text(body, 'text')}" if "text" in body else head
    if kind == "resource_link":
        return f"[resource {claims.text(block, 'uri')} {claims.text(block, 'name')}]"
    return f"[{kind or 'something'} {claims.text(block, 'mimeType')}, {_size(block)} bytes]"


def _size(block: Mapping[str, Any]) -> int:
    try:
        return len(base64.b64decode(claims.text(block, "data")))
    except (binascii.Error, ValueError):
        return 0


def served(server: McpServer, listed: ListedTool) -> McpTool:
    """Return a server's tool as it is offered."""
    spec = ToolSpec(
        name=listed.full_name,
        description=listed.description,
        parameters=listed.parameters,
        effect=Effect.RUN,
    )
    return McpTool(spec=spec, show=show, server=server, listed=listed)


__all__ = ["McpTool", "served", "show"]
