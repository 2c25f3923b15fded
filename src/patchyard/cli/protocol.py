"""Our tools as the protocol's library takes them: arguments are refused in our words."""

from collections.abc import Mapping
from importlib.metadata import version
from inspect import getdoc
from typing import Any

from patchyard.cli.offering import Offered, translating
from patchyard.cli.streams import Answers, Requests, taken_over
from patchyard.domain.errors import EnvironmentUnavailable, UnknownName

INSTRUCTIONS = (
    "Patchyard carries out coding tasks on one repository with an agent in a sandbox. Make a plan"
    " with make_plan, follow it with plan_status (wait_s=50) until is_running is false, and read"
    " plan_diff. Nothing is written to the repository until a plan is applied."
)


def server_of(tools: Mapping[str, Offered]) -> Any:
    """Return a server that offers `tools`. Raises EnvironmentUnavailable without the library."""
    try:
        from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - only where it is one
        from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415 - likewise
        from mcp.server.mcpserver.tools import Tool  # noqa: PLC0415 - likewise
        from mcp.server.stdio import stdio_server  # noqa: PLC0415 - likewise
        from mcp.types import jsonrpc_message_adapter  # noqa: PLC0415 - likewise
        from pydantic import ValidationError  # noqa: PLC0415 - comes with it
    except ImportError as error:
        missing = "the MCP library is not installed"
        raise EnvironmentUnavailable(
            missing, hint="in Patchyard's clone: pip install '.[mcp]'"
        ) from error

    class Strict(Tool):
        """A tool that takes the arguments it names and no others."""

        async def run(self, arguments: dict[str, Any], *more: Any, **options: Any) -> Any:
            problem = misfit(self.name, self.parameters, arguments)
            if problem:
                raise ToolError(problem)
            try:
                return await super().run(arguments, *more, **options)
            except ToolError as error:
                if isinstance(error.__cause__, ValidationError):
                    said = error.__cause__.errors(include_url=False)
                    raise ToolError(f"{self.name}: {wrong_types(said)}") from error
                raise

    class Bounded(MCPServer):
        """A server whose client can neither fill the memory nor go without an answer."""

        async def run_stdio_async(self) -> None:
            with taken_over() as (source, target):
                answers = Answers(target)
                requests: Any = Requests(
                    source, answers, takes=jsonrpc_message_adapter.validate_json
                )
                said: Any = answers
                async with stdio_server(stdin=requests, stdout=said) as (reading, writing):
                    server = self._lowlevel_server
                    options = server.create_initialization_options()
                    await server.run(reading, writing, options)

    strict = []
    for name, tool in tools.items():
        made = Strict.from_function(
            translating(tool, ToolError), name=name, description=getdoc(tool)
        )
        made.parameters["additionalProperties"] = False
        strict.append(made)
    return Bounded(
        "patchyard",
        version=version("patchyard"),
        instructions=INSTRUCTIONS,
        log_level="ERROR",
        tools=strict,
    )


def misfit(tool: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return which argument is missing or not known, and those there are; empty: none."""
    known = schema.get("properties", {})
    for name in arguments:
        if name not in known:
            error = UnknownName.among(f"argument of {tool}:", name, known)
            return f"{error.message} {error.hint}"
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    return f"{tool} needs `{missing[0]}`" if missing else ""


def wrong_types(errors: list[Any]) -> str:
    """Return what the library says of arguments, each with its name."""
    found = {str(each["loc"][0]) if each["loc"] else "": str(each["msg"]) for each in errors}
    return "; ".join(f"`{name}`: {said[:1].lower()}{said[1:]}" for name, said in found.items())


__all__ = ["INSTRUCTIONS", "misfit", "server_of", "wrong_types"]
