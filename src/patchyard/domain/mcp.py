"""MCP servers as settings describe them, and the tools that they list. Pure.

What a server says of itself is a claim: it is read within bounds, and taken as it is only as long
as its hash is the one that was seen first.
"""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchyard.domain.codec import is_deeper
from patchyard.domain.entrusted import names_in
from patchyard.domain.nearness import near_names
from patchyard.domain.schemas import DEEPEST, schema_problem
from patchyard.toolbox.wire import loaded

MCP_CALL = "mcp_call"  # operations of the toolbox
MCP_ANSWER = "mcp_answer"
MCP_LIST = "mcp_list"
PREFIX = "mcp__"
TOOL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_BYTES = 64 * 1024  # of one tool's description and schema
MOST_TOOLS = 512
SHOWN_CHARS = 4_000  # of a description, to a model


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """One server, as it was configured. Holds no secret value."""

    name: str
    command: str = ""  # program inside the environment; empty: it is reached by `url`
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # ${NAME}: the engine's variable
    url: str = ""  # of one that listens (streamable HTTP)
    idempotent: bool = False  # a call that was lost may be made again
    tools: tuple[str, ...] | None = None  # those that are offered; None: all
    read_only_tools: tuple[str, ...] = ()  # by the user's word: may be called while planning
    allow: tuple[str, ...] = ()  # what it may ask for in mid-call: elicitation
    timeout_s: float = 60.0  # of one call, the server's start included

    @property
    def is_entrusted(self) -> bool:
        """Whether it holds a credential: it has an environment of its own then."""
        return bool(names_in(self.env))

    @property
    def identity(self) -> str:
        """A hash of what is started or reached: another one is another server."""
        whole = json.dumps([self.name, self.command, list(self.args), self.url])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()

    def launch(self) -> dict[str, Any]:
        """Return the arguments of the toolbox that start or reach it."""
        how: dict[str, Any] = {"url": self.url} if self.url else {}
        if self.command:
            how["command"] = [self.command, *self.args]
        if self.allow:
            how["allow"] = list(self.allow)
        return {"server": self.name, "env": dict(self.env), "timeout_s": self.timeout_s, **how}


@dataclass(frozen=True, kw_only=True)
class ListedTool:
    """One tool that a server lists, and can be offered."""

    name: str  # as the server calls it
    full_name: str  # as models see it: mcp__SERVER__TOOL
    description: str
    parameters: Mapping[str, Any]  # JSON Schema, an object
    pin: str  # hash of all that describes it


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What can be offered of a server's list, and what not, a sentence each."""

    tools: tuple[ListedTool, ...] = ()
    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # named in the settings, and the server has none of that name
    names: tuple[str, ...] = ()  # of all that it lists


def listing_of(server: McpServer, texts: Sequence[Any]) -> Listing:
    """Return what can be offered of the tools that `texts` describe, as a toolbox gives them."""
    found: dict[str, list[ListedTool]] = {}
    left_out: list[str] = []
    for text in texts[:MOST_TOOLS]:
        try:
            tool = _tool(server, text)
        except ValueError as error:
            left_out.append(str(error))
            continue
        if server.tools is None or tool.name in server.tools:
            found.setdefault(tool.full_name, []).append(tool)
    twice = [(name, len(alike)) for name, alike in found.items() if len(alike) > 1]
    left_out += [f"{name} is the name of {count} tools" for name, count in twice]
    tools = {name: alike[0] for name, alike in found.items() if len(alike) == 1}
    names = tuple(texts_by_name(texts))
    wanted = dict.fromkeys((*(server.tools or ()), *server.read_only_tools))
    unknown = tuple(name for name in wanted if name not in names)
    left_out += [f"it has no tool {name}{_guess(name, names)}" for name in unknown]
    if server.tools is not None:
        beside = [n for n in server.read_only_tools if n in names and n not in server.tools]
        left_out += [f"{name} of `read_only_tools` is none of `tools`" for name in beside]
    return Listing(
        tools=tuple(tools.values()), left_out=tuple(left_out), unknown=unknown, names=names
    )


def _guess(name: str, names: Sequence[str]) -> str:
    near = near_names(name, names)
    return f"; did you mean {near[0]}?" if near else ""


def _tool(server: McpServer, text: Any) -> ListedTool:
    if not isinstance(text, str) or len(text) > TOOL_BYTES:
        raise ValueError(f"a tool's description is larger than {TOOL_BYTES:,} bytes")
    body = _body(text)
    name, schema = body.get("name"), body.get("inputSchema")
    if not isinstance(name, str) or not TOOL.fullmatch(name):
        raise ValueError(f"{str(name)[:80]!r} cannot name a tool")
    full_name = f"{PREFIX}{server.name}__{name}"
    if not TOOL.fullmatch(full_name):
        raise ValueError(f"{full_name} is longer than 64 characters")
    is_of_object = isinstance(schema, Mapping) and schema.get("type") == "object"
    problem = schema_problem(schema) if is_of_object else "it is of no object"
    if problem:
        raise ValueError(f"{name}: its schema cannot be used: {problem}")
    description = body.get("description")
    return ListedTool(
        name=name,
        full_name=full_name,
        description=cleaned(description)[:SHOWN_CHARS] if isinstance(description, str) else "",
        parameters=cleaned(schema),
        pin=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _body(text: str) -> Mapping[str, Any]:
    """Return what describes a tool. A number that JSON does not have would break each request."""
    try:
        body = loaded(text, parse_constant=_number, parse_float=_number)
    except _NoNumber:
        raise
    except ValueError as error:
        raise ValueError("a tool's description cannot be read") from error
    if not isinstance(body, dict) or is_deeper(body, 2 * DEEPEST):
        raise ValueError("a tool's description is of another shape")
    return body


class _NoNumber(ValueError):
    """A description holds a number that JSON does not have."""


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NoNumber(f"a tool's description holds {text[:20]}, which is no number")
    return number


def cleaned(value: Any) -> Any:
    """Return texts, at any depth, without what nobody sees: controls, tags, turned directions."""
    if isinstance(value, str):
        return "".join(c for c in value if c in "\n\t" or unicodedata.category(c)[0] != "C")
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, list) else value


def family_of(tool: str) -> str:
    """Return what all tools of the server are called together: mcp__SERVER; ours stand alone."""
    if not tool.startswith(PREFIX):
        return tool
    return PREFIX + tool.removeprefix(PREFIX).partition("__")[0]


def server_named(servers: Sequence[McpServer], name: str) -> McpServer | None:
    """Return the server of that name."""
    return next((server for server in servers if server.name == name), None)


def entrusted_name(servers: Sequence[McpServer], tool: str) -> str:
    """Return the server with an environment of its own whose tool that is; empty: none."""
    family = family_of(tool)
    if family == tool and not tool.startswith(PREFIX):
        return ""
    found = server_named(servers, family.removeprefix(PREFIX))
    return found.name if found is not None and found.is_entrusted else ""


def may_repeat(servers: Sequence[McpServer], tool: str) -> bool:
    """Whether a lost call of the tool that models call so may be undone and made again.

    Nobody knows what a server does, so the user has to vouch for its tools.
    """
    for server in servers:
        own, _, name = tool.partition(f"{PREFIX}{server.name}__")
        if not own and name:
            return server.idempotent or name in server.read_only_tools
    return not tool.startswith(PREFIX)


def changes(old: Sequence[Any], new: Sequence[Any]) -> Mapping[str, str]:
    """Return which tools differ between two lists, by name: added, removed, changed."""
    before, after = texts_by_name(old), texts_by_name(new)
    found = {name: "removed" for name in before if name not in after}
    for name, text in after.items():
        if before.get(name) != text:
            found[name] = "changed" if name in before else "added"
    return dict(sorted(found.items()))


def texts_by_name(texts: Sequence[Any]) -> Mapping[str, str]:
    """Return what describes each tool, by its name."""
    found = {}
    for text in texts:
        try:
            name = str(_body(str(text)).get("name"))
        except ValueError:
            name = ""
        found[name] = str(text)
    return found


__all__ = [
    "MCP_ANSWER",
    "MCP_CALL",
    "MCP_LIST",
    "MOST_TOOLS",
    "PREFIX",
    "SHOWN_CHARS",
    "TOOL",
    "TOOL_BYTES",
    "ListedTool",
    "Listing",
    "McpServer",
    "changes",
    "cleaned",
    "entrusted_name",
    "family_of",
    "listing_of",
    "may_repeat",
    "server_named",
    "texts_by_name",
]
