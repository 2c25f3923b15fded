"""`agents action`: reusable templates of plans."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from patchyard.cli.cataloguing import fields, table, with_catalogue
from patchyard.cli.main import Group
from patchyard.cli.outcome import Outcome, format_option, one_line
from patchyard.domain.action import Action
from patchyard.domain.codec import to_json
from patchyard.engine.catalogue import Catalogue
from patchyard.intake_actions import find_action, read_action, shipped_actions
from patchyard.intake_roles import role_folder
from patchyard.roles.library import role_names


@click.group(cls=Group, epilog="Example: agents action create --file bump.yaml")
def action() -> None:
    """Reusable templates of plans, in YAML."""


@action.command(epilog="Example: agents action create --file bump.yaml")
@click.option("--file", "path", required=True, help="The action file.")
@format_option
def create(path: str, output_format: str) -> None:
    """Check an action file and keep it under its name; an older one is replaced."""

    async def job(catalogue: Catalogue) -> Outcome:
        made = read_action(Path(path), roles=role_names(role_folder(os.environ)))
        await catalogue.save_action(made)
        data = _data(made)
        return Outcome(data=data, text=f"kept the action {made.name}\n{_use(made)}")

    with_catalogue("action create", output_format, job)


def _use(made: Action) -> str:
    asked = [f" --arg {n}=..." for n, argument in made.arguments.items() if argument.required]
    return f"use it: agents plan use {made.name} PROJECT{''.join(asked)}"


def _data(found: Action) -> dict[str, Any]:
    body: dict[str, Any] = to_json(found)
    return {**body, "actor": "recipe" if found.steps else "model"}


@action.command("list", epilog="Example: agents action list --format json")
@format_option
def list_actions(output_format: str) -> None:
    """List the actions, those that ship with Patchyard too."""

    async def job(catalogue: Catalogue) -> Outcome:
        known = {**shipped_actions(), **(await catalogue.holdings()).actions}
        found = [known[name] for name in sorted(known)]
        rows = [[a.name, a.source, a.description or a.goal[:60]] for a in found]
        data = {"actions": [_data(a) for a in found]}
        return Outcome(data=data, text=table(rows, empty="no actions"))

    with_catalogue("action list", output_format, job)


@action.command(epilog="Example: agents action show licence-headers")
@click.argument("name")
@format_option
def show(name: str, output_format: str) -> None:
    """Show an action."""

    async def job(catalogue: Catalogue) -> Outcome:
        found = find_action(name, await catalogue.holdings())
        data = _data(found)
        plain = {key: value for key, value in data.items() if key != "steps"}
        steps = ["steps:", *_nested(data["steps"], depth=1)] if data.get("steps") else []
        return Outcome(data=data, text="\n".join([fields(plain), *steps, _use(found)]))

    with_catalogue("action show", output_format, job)


def _nested(value: Any, *, depth: int) -> list[str]:
    """Return steps as they are written in an action file, as far as people need it."""
    pad = "  " * depth
    if isinstance(value, (list, tuple)):
        entries = [_nested(item, depth=depth + 1) for item in value]
        return [f"{pad}- {first.lstrip()}" if n == 0 else first
                for entry in entries for n, first in enumerate(entry)]  # fmt: skip
    if not isinstance(value, Mapping):
        return [pad + one_line(str(value))]
    lines = []
    for key, item in value.items():
        if item is None:
            continue
        if isinstance(item, (Mapping, list, tuple)) and item:
            lines += [f"{pad}{key}:", *_nested(item, depth=depth + 1)]
        else:
            lines.append(f"{pad}{key}: {one_line(str(item))}")
    return lines


__all__ = ["action"]
