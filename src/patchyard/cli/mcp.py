"""`agents mcp list|check`: which servers plans are given tools of, and what those tools are."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from patchyard.cli.cataloguing import checkout_of, table
from patchyard.cli.main import Group
from patchyard.cli.opening import engine_opened
from patchyard.cli.outcome import Outcome, carry_out, format_option, paint, say_warnings, visible
from patchyard.domain.errors import (
    EnvironmentBroken,
    EnvironmentUnavailable,
    StateRefusal,
    UnknownName,
)
from patchyard.domain.mcp import Listing, McpServer, changes, listing_of
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment
from patchyard.engine.serving import tools_of
from patchyard.intake import Asked, Intake, take_in

SHOWN_PIN = 12  # characters of a hash that people compare


@click.group(cls=Group, epilog="Example: agents mcp check fs")
def mcp() -> None:
    """Servers of the Model Context Protocol: those whose tools plans use."""


@mcp.command("list", short_help="List the servers there are.", epilog="Example: agents mcp list")
@format_option
def list_servers(output_format: str) -> None:
    """List the servers of your settings here, how they are started, and how many tools are held."""

    async def work() -> Outcome:
        async with engine_opened() as equipment:
            intake = await _here(equipment, Asked(task="mcp"))
            rows = [_row(equipment, server) for server in intake.spec.mcp_servers]
        lines = [
            [row["name"], row["starts"], "not seen yet" if n is None else f"{n} tools held"]
            for row in rows
            for n in [row["tools"]]
        ]
        empty = "no server is named; `mcp_servers` in your settings does (docs/how-to/mcp.md)"
        return Outcome(data={"servers": rows}, text=table(lines, empty=empty))

    carry_out("mcp list", output_format, work)


@mcp.command(
    short_help="Start a server, list its tools, say what changed.",
    epilog="Example: agents mcp check fs --accept",
)
@click.argument("name")
@click.option("--in", "kind", help="Where: host, process (default), a linked resource.")
@click.option("--mount", "mounts", multiple=True, help="PATH[:ro|rw] to show inside.")
@click.option("--allow-host", "allow_hosts", multiple=True, help="HOST[:PORT] to reach from there.")
@click.option("--secret", "secrets", multiple=True, help="NAME@HOST: used there, never read.")
@click.option("--accept", is_flag=True, help="Hold it to what it lists now.")
@format_option
def check(name: str, output_format: str, *, accept: bool, **options: Any) -> None:
    """Start the server NAME as a plan here would, and list its tools with their hashes.

    What it lists the first time is what it is held to. Exit code 3: something differs from that,
    and was not accepted.
    """

    async def work() -> Outcome:
        async with engine_opened() as equipment:
            intake = await _here(equipment, Asked(task="mcp", **options))
            server = _named(intake.spec.mcp_servers, name)
            held = equipment.pins.read(server)
            texts = await _seen(equipment, intake, server)
            differs = {} if held is None else changes(held, texts)
            if held is None or accept:
                equipment.pins.keep(server, texts)
        listing = listing_of(server, texts)
        data = {
            "server": server.name,
            "is_new": held is None,
            "changes": dict(differs),
            "accepted": held is None or accept or not differs,
            "tools": _tools(server, listing, differs),
            "left_out": list(listing.left_out),
        }
        error = None
        if differs and not accept:
            error = StateRefusal(
                f"{server.name} differs from what it is held to: {_said(differs)}",
                hint=f"look at it; `agents mcp check {server.name} --accept` holds it to this",
            )
        return Outcome(data=data, text=_text(data), error=error)

    carry_out("mcp check", output_format, work)


async def _here(equipment: Equipment, asked: Asked) -> Intake:
    """Return what a plan in this checkout would be given. Raises UsageError."""
    checkout_of(".")
    holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
    intake = take_in(asked, os.environ, holdings)
    say_warnings(intake.warnings)
    return intake


async def _seen(equipment: Equipment, intake: Intake, server: McpServer) -> Sequence[str]:
    """Return what the server lists. Raises EnvironmentUnavailable with its last words."""
    try:
        return await tools_of(equipment, intake.spec, server)
    except EnvironmentBroken as error:
        hint = (
            "it must be found inside: `--mount PATH` shows it there, `--in PLACE` looks elsewhere"
        )
        raise EnvironmentUnavailable(f"{server.name}: {error.message}", hint=hint) from error


def _named(servers: Sequence[McpServer], name: str) -> McpServer:
    found = next((server for server in servers if server.name == name), None)
    if found is None:
        raise UnknownName.among("MCP server", name, [server.name for server in servers])
    return found


def _row(equipment: Equipment, server: McpServer) -> dict[str, Any]:
    held = equipment.pins.read(server)
    return {
        "name": server.name,
        "starts": server.url or " ".join((server.command, *server.args)),
        "tools": None if held is None else len(held),
        "idempotent": server.idempotent,
        "read_only_tools": list(server.read_only_tools),
    }


def _tools(server: McpServer, listing: Listing, differs: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "full_name": tool.full_name,
            "hash": tool.pin,
            "state": differs.get(tool.name, "as held"),
            "in_planning": tool.name in server.read_only_tools,
            "description": tool.description,
        }
        for tool in listing.tools
    ]


def _text(data: Mapping[str, Any]) -> str:
    rows = [
        [
            tool["name"],
            tool["hash"][:SHOWN_PIN],
            "" if tool["state"] == "as held" else tool["state"],
            "also while planning" if tool["in_planning"] else "",
            " ".join(tool["description"].split())[:70],
        ]
        for tool in data["tools"]
    ]
    said = "seen for the first time, and held to this" if data["is_new"] else ""
    head = f"{data['server']} {paint('works', 'green')}{said and f': {said}'}"
    left = [f"not offered: {visible(why)}" for why in data["left_out"]]
    return "\n".join([head, table(rows, empty="it offers no tool"), *left])


def _said(differs: Mapping[str, str]) -> str:
    return ", ".join(f"{visible(name)} ({how})" for name, how in differs.items())


__all__ = ["SHOWN_PIN", "mcp"]
