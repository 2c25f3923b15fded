"""`agents mcp list|check|serve`: the servers whose tools plans are given, and the engine as one."""

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from patchyard.casting import require_actor
from patchyard.cli.cataloguing import WIDTH, brief, checkout_of, table
from patchyard.cli.main import Group
from patchyard.cli.offering import Offer
from patchyard.cli.opening import engine_opened
from patchyard.cli.outcome import (
    RICH,
    Outcome,
    carry_out,
    counted,
    format_option,
    paint,
    say_warnings,
    visible,
)
from patchyard.cli.protocol import server_of
from patchyard.clients.glimpse import glimpse
from patchyard.domain.entrusted import names_in
from patchyard.domain.errors import (
    EnvironmentBroken,
    EnvironmentUnavailable,
    PatchyardError,
    StateRefusal,
    UnknownName,
    quoted,
)
from patchyard.domain.mcp import Listing, McpServer, changes, listing_of
from patchyard.domain.mcp_cures import cure_of_start
from patchyard.domain.mcp_differences import differences
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment
from patchyard.engine.serving import tools_of
from patchyard.intake import Asked, Intake, take_in

SHOWN_PIN = 12  # characters of a hash that people compare
STARTS_SHOWN = 50  # of how a server is started; all of it is in the JSON


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
            [row["name"], "not seen yet" if n is None else f"{counted(n, 'tool')} held", starts]
            for row in rows
            for n in [row["tools"]]
            for starts in [brief(row["starts"], STARTS_SHOWN)]
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
    and was not accepted; 2: your settings name a tool that it has not.
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
            "differences": {} if held is None else dict(differences(held, texts)),
            "accepted": held is None or accept or not differs,
            "tools": _tools(server, listing, differs),
            "left_out": list(listing.left_out),
        }
        return Outcome(data=data, text=_text(data), error=_mistake(data, listing))

    carry_out("mcp check", output_format, work)


@mcp.command(
    short_help="Be an MCP server: let another agent make plans here.",
    epilog="Example: agents mcp serve --repo ~/shop",
)
@click.option("--repo", default=".", help="The repository, a path.")
@click.option("--model", "model_name", help="PROVIDER:MODEL of the plans.")
@click.option("--in", "kind", help="Where plans work: process (default), a linked resource, ...")
@click.option("--allow-apply", is_flag=True, help="Let it approve, resume and apply plans, too.")
def serve(repo: str, model_name: str | None, kind: str | None, *, allow_apply: bool) -> None:
    """Offer the engine over standard input and output to any client of the protocol.

    Tools make a plan, follow it, read its diff, cancel it. Nothing is written to the repository
    without --allow-apply. Plans that run when the client goes can be resumed.
    """

    async def work() -> Outcome:
        top = checkout_of(repo)
        asked = Asked(model=model_name, kind=kind, repository=top)
        await _require_plans(asked)
        await asyncio.to_thread(glimpse, Path(top), "head")  # raises where no commit is there
        offer = Offer(asked, top, os.environ)
        served = server_of(offer.tools(may_apply=allow_apply))
        try:
            await served.run_stdio_async()
        finally:
            await offer.close()
        return Outcome()

    carry_out("mcp serve", RICH, work)


async def _require_plans(asked: Asked) -> None:
    """Raise UsageError, or what a place that is not there does, where no plan could be made."""
    async with engine_opened() as equipment:
        holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
        intake = take_in(replace(asked, task="mcp"), os.environ, holdings)
    require_actor(intake.spec, os.environ)


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
        words = () if server.url else (server.command, *server.args)
        cure = cure_of_start(error.message, words)
        raise EnvironmentUnavailable(f"{server.name}: {error.message}", hint=cure) from error


def _mistake(data: Mapping[str, Any], listing: Listing) -> PatchyardError | None:
    """Return what is wrong with a server that starts, None where nothing is."""
    name = data["server"]
    if not data["accepted"]:
        return StateRefusal(
            f"{name} differs from what it is held to: {_said(data['changes'])}",
            hint=f"look at it; `agents mcp check {name} --accept` holds it to this",
        )
    if listing.unknown:
        what = f"tool in `tools` or `read_only_tools` of {name}:"
        return UnknownName.among(what, listing.unknown[0], listing.names)
    return None


def _named(servers: Sequence[McpServer], name: str) -> McpServer:
    found = next((server for server in servers if server.name == name), None)
    if found is None and not servers:
        raise UnknownName(
            f"there is no MCP server {quoted(name)}: none is named in any settings",
            hint="name it in `mcp_servers` of your own config.yaml; those of a repository count"
            " once `agents trust` was called there",
        )
    if found is None:
        raise UnknownName.among("MCP server", name, [server.name for server in servers])
    return found


def _row(equipment: Equipment, server: McpServer) -> dict[str, Any]:
    held = equipment.pins.read(server)
    return {
        "name": server.name,
        "starts": server.url or shlex.join((server.command, *server.args)),
        "tools": None if held is None else len(held),
        "idempotent": server.idempotent,
        "read_only_tools": list(server.read_only_tools),
        "credentials": list(names_in(server.env)),
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
        [tool["name"], tool["hash"][:SHOWN_PIN], ", ".join(_marks(tool))] for tool in data["tools"]
    ]
    listed = table(rows, empty="it offers no tool").splitlines()
    told = [
        f"{line}{_described(tool['description'])}"
        for line, tool in zip(listed, data["tools"], strict=False)
    ]
    left = [f"not offered: {visible(why)}" for why in data["left_out"]]
    differing = [
        f"\n{visible(name)} was {data['changes'][name]}:\n{_diff(lines)}"
        for name, lines in data["differences"].items()
    ]
    return "\n".join([_head(data), *(told or listed), *left, *differing])


def _described(text: str) -> str:
    return f"\n    {brief(visible(text), WIDTH - 4)}" if text else ""


def _marks(tool: Mapping[str, Any]) -> list[str]:
    own = [] if tool["state"] == "as held" else [tool["state"]]
    return [*own, "also while planning"] if tool["in_planning"] else own


def _head(data: Mapping[str, Any]) -> str:
    name = data["server"]
    if not data["accepted"]:
        return f"{name} starts, and {paint('differs from what it is held to', 'yellow')}"
    said = "seen for the first time, and held to this" if data["is_new"] else ""
    if data["changes"]:
        said = "held to this from now on"
    return f"{name} {paint('works', 'green')}{said and f': {said}'}"


def _diff(lines: Sequence[str]) -> str:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    shown = [(line[:1], visible(line)) for line in lines]
    painted = [paint(text, colours[sign]) if sign in colours else text for sign, text in shown]
    return "\n".join(f"  {text}" for text in painted or ["only what nobody sees differs"])


def _said(differs: Mapping[str, str]) -> str:
    return ", ".join(f"{visible(name)} ({how})" for name, how in differs.items())


__all__ = ["SHOWN_PIN", "STARTS_SHOWN", "mcp"]
