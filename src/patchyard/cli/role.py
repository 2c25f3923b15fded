"""`agents role list|show`: who can work on a task."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Sequence
from textwrap import wrap

import click

from patchyard.cli.cataloguing import WIDTH
from patchyard.cli.encoding import portable
from patchyard.cli.main import Group
from patchyard.cli.outcome import (
    JSON,
    Interrupted,
    Outcome,
    carry_out,
    format_option,
    heard,
    paint,
    say_warnings,
    visible,
)
from patchyard.cli.seeing import models_here
from patchyard.domain.announcing import TOPIC, Announcement, announcement_of
from patchyard.domain.codec import to_json
from patchyard.domain.limit_settings import LIMIT_KEYS, shown
from patchyard.domain.role import Role
from patchyard.engine.enduring import Enduring
from patchyard.storage import open_storage

NO_CHAIN = "the first that is there; `roles` in models.yaml names some"


@click.group(cls=Group, epilog="Example: agents role show reviewer")
def role() -> None:
    """Say which roles there are."""


@role.command("list", short_help="List the roles there are.", epilog="Example: agents role list")
@click.option("--announced", is_flag=True, help="List the living workers and their roles instead.")
@click.option("--follow", is_flag=True, help="With --announced: go on as workers tell of changes.")
@format_option
def list_roles(output_format: str, *, announced: bool, follow: bool) -> None:
    """List the roles: those of the package, and your own beside `config.yaml`."""
    if follow and not announced:
        raise click.UsageError("--follow goes with --announced")
    if follow:
        carry_out("role list", output_format, lambda: _followed(output_format), stream=True)
    if announced:
        carry_out("role list", output_format, _announced)
        return

    async def work() -> Outcome:
        from patchyard.casting import model_catalogue  # noqa: PLC0415 - only for this
        from patchyard.intake_roles import role_folder, tool_names  # noqa: PLC0415 - likewise
        from patchyard.roles.library import all_roles, strays  # noqa: PLC0415 - likewise

        folder = role_folder(os.environ)
        say_warnings(strays(folder))
        found = all_roles(folder, tools=tool_names())
        catalogue = model_catalogue(os.environ, await models_here())
        rows, lines = [], []
        for name, each in found.items():
            models = catalogue.roles.get(name, ())
            rows.append({**_short(each), "models": list(models)})
            purpose = wrap(visible(each.purpose), WIDTH - 23) or [""]
            lines.append(f"{name:12} {each.output!s:9} {purpose[0]}".rstrip())
            lines += [f"{' ' * 22} {part}" for part in purpose[1:]]
            lines += [f"{' ' * 22} {paint(part, 'blue')}" for part in _chained(models)]
        return Outcome(data={"roles": rows}, text="\n".join(lines))

    carry_out("role list", output_format, work)


def _chained(models: Sequence[str]) -> list[str]:
    """Return the models in the order they are asked, one a line."""
    return [visible(f"-> {name}" if number else name) for number, name in enumerate(models)]


async def _announced() -> Outcome:
    """Return what the living workers say of themselves, oldest first."""
    async with open_storage(os.environ) as stores:
        found = [each.announced for each in await stores.queue.members() if each.announced]
    text = "\n".join(map(_said, found)) or "no worker is alive: start one with `agents worker`"
    return Outcome(data={"workers": [said.data() for said in found]}, text=text)


async def _followed(output_format: str) -> Outcome:
    """Print the living workers, then what each tells on the bus that is another than before."""
    known: dict[str, Announcement] = {}
    endures = Enduring()

    def tell(said: Announcement, at: float) -> None:
        if known.get(said.member_id) == said:
            return
        known[said.member_id] = said
        line = {"event": "Announced", "at": at, **said.data()}
        with heard(sys.stdout):
            click.echo(json.dumps(portable(line)) if output_format == JSON else _said(said))

    async with open_storage(os.environ) as stores, stores.bus.subscribe(TOPIC) as listening:
        try:
            for each in await stores.queue.members():
                if each.announced is not None:
                    tell(each.announced, stores.clock.now())
            while True:
                message = await listening.next()
                with endures.passing(f"an announcement of {message.sender}"):
                    tell(announcement_of(message.body), message.at)
        except asyncio.CancelledError:
            return Outcome(error=Interrupted("followed no longer; the workers themselves go on"))


def _said(said: Announcement) -> str:
    whose = "all roles" if said.skills.takes_all else ", ".join(said.skills.roles)
    state = "draining" if said.is_draining else f"{said.load} of {said.concurrency}"
    can = ", ".join((*said.skills.capabilities, *said.skills.expertise))
    head = f"{paint(visible(said.worker), 'cyan')}  {state}  {visible(whose)}"
    return f"{head}  ({visible(said.skills.version)})\n  {visible(can)}"


@role.command(short_help="Show one role.", epilog="Example: agents role show tester")
@click.argument("name")
@format_option
def show(name: str, output_format: str) -> None:
    """Show role NAME: its policy, the models it is given, and its prompt."""

    async def work() -> Outcome:
        from patchyard.casting import model_catalogue  # noqa: PLC0415 - only for this
        from patchyard.intake_roles import role_folder, tool_names  # noqa: PLC0415 - likewise
        from patchyard.roles.library import role_named  # noqa: PLC0415 - likewise

        found = role_named(name, role_folder(os.environ), tools=tool_names())
        catalogue = model_catalogue(os.environ, await models_here())
        own = catalogue.roles.get(name, ())
        shipped = catalogue.shipped_roles.get(name, ())
        preferred = catalogue.preferred.get(name, {})
        data = {
            **to_json(found),
            "models": list(own),
            "shipped_models": list(shipped),
            "task_types": {kind: list(chain) for kind, chain in preferred.items()},
        }
        usual = f"{' -> '.join(shipped)} (shipped; as far as it is there)" if shipped else NO_CHAIN
        models = " -> ".join(own) or usual
        if name in catalogue.in_repository:
            models = f"{models} (of this repository)"
        rows = {
            "output": str(found.output),
            "tools": ", ".join(found.tools) or "all",
            "environments": ", ".join(found.environments) or "any",
            "limits": ", ".join(_limits(found)),
            "gates": ", ".join(_gates(found)),
            "models": models,
            **{f"for {kind}": " -> ".join(chain) for kind, chain in preferred.items()},
            "may ask": ", ".join(found.may_ask),
            "can": ", ".join((*found.capabilities, *found.expertise)),
            "from": found.source,
        }
        head = f"{paint(found.title, 'cyan', bold=True)}: {visible(found.purpose)}"
        lines = [f"  {key.ljust(13)} {visible(value)}" for key, value in rows.items() if value]
        return Outcome(data=data, text="\n".join([head, *lines, "", visible(found.prompt)]))

    carry_out("role show", output_format, work)


def _limits(found: Role) -> Iterator[str]:
    for key in LIMIT_KEYS:
        value = getattr(found.limits, key)
        if value is not None:
            yield f"{key} {shown(key, value)}"


def _gates(found: Role) -> Iterator[str]:
    for name, gate in found.gates.items():
        yield f"{name} (switched off)" if gate is None else f"{name} ({gate.shown})"


def _short(found: Role) -> dict[str, object]:
    return {
        "name": found.name,
        "title": found.title,
        "purpose": found.purpose,
        "output": str(found.output),
        "capabilities": list(found.capabilities),
        "expertise": list(found.expertise),
        "source": found.source,
    }


__all__ = ["role"]
