"""What a person can do about an MCP server that does not work, read from why it does not. Pure."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from patchyard.domain.mcp import PREFIX, family_of
from patchyard.domain.tooling import ToolResult

CHANGED = "MCP_TOOL_CHANGED"  # errors of the toolbox
FAILED = "MCP_SERVER_FAILED"
MOUNTS = "(`mounts` in settings: for all plans)"
HOSTS = "(`network.allow_hosts` in settings: for all plans)"
CURES = (
    (
        re.compile(
            r"there is no program|Cannot find (?:module|package)|No module named|[Nn]o such file"
            r"|ENOENT|can't open file|: not found|command not found"
        ),
        (
            f"it must be found inside: `--mount PATH` shows it there {MOUNTS}, `--in PLACE` works"
            " elsewhere"
        ),
    ),
    (
        re.compile(r"cannot be reached"),
        f"it must be reached from inside: `--allow-host HOST` grants its host {HOSTS}",
    ),
    (
        re.compile(r"the variable \S+ is not set"),
        "set the variable where `agents` is called, or take it out of the server's `env`",
    ),
    (
        re.compile(r"gave no answer within"),
        "`timeout_s` of the server in `mcp_servers` gives it longer",
    ),
    (
        re.compile(r"ended with exit code 0|closed its output|refused to begin"),
        "`command` and `args` must start what speaks MCP over its standard input and output",
    ),
)


FETCHING = frozenset({"bunx", "npx", "pipx", "pnpm", "uvx", "yarn"})
"""Programs that fetch what they start."""
SILENT = re.compile(r"gave no answer within")


def cure_of(why: str) -> str:
    """Return what helps where a server does not work for that reason; empty: none is known."""
    return next((cure for found, cure in CURES if found.search(why)), "")


def cure_of_start(why: str, words: Sequence[str]) -> str:
    """Return what helps where a server that `words` start does not work for that reason.

    `words` are its program and arguments, empty for a server that is reached over HTTP. Where no
    cure is known, or the server says nothing, a person is told how to see more.
    """
    is_silent = SILENT.search(why) is not None
    program = words[0].rpartition("/")[2] if words else ""
    if is_silent and program in FETCHING:
        return (
            f"`{program}` fetches the server first, and no registry is reached from inside: install"
            " the server beforehand and name its own program in `command`, or grant the registry"
            " with `--allow-host HOST`"
        )
    cure = cure_of(why)
    if cure and not is_silent:
        return cure
    by_hand = f"start it by hand to see more: `{shlex.join(words)}`"
    look = by_hand if words else "look at the log of that server"
    return f"{cure}; {look}" if cure else look


def told(server: str, why: str) -> str:
    """Return why a server does not work, with what to do about it at the end of the first line."""
    return _behind_first(why, cure_of(why), f"`agents mcp check {server}` tries it alone")


def with_cure(tool: str, result: ToolResult) -> ToolResult:
    """Return a result of the tool that models call so; a failure of its server says the cure."""
    if not tool.startswith(PREFIX) or result.error not in {CHANGED, FAILED}:
        return result
    server = family_of(tool).removeprefix(PREFIX)
    if result.error == FAILED:
        return replace(result, message=told(server, result.message))
    look = f"`agents mcp check {server}` shows what changed"
    accept = f"`agents mcp check {server} --accept` holds it to that"
    return replace(result, message=_behind_first(result.message, look, accept))


def _behind_first(text: str, *more: str) -> str:
    first, end, rest = text.partition("\n")
    return "; ".join(part for part in (first, *more) if part) + end + rest


__all__ = [
    "CHANGED",
    "CURES",
    "FAILED",
    "FETCHING",
    "cure_of",
    "cure_of_start",
    "told",
    "with_cure",
]
