"""`agents invariant`: what must stay true."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from patchyard.cli.cataloguing import table, with_catalogue
from patchyard.cli.main import Group
from patchyard.cli.opening import engine_opened, owned
from patchyard.cli.outcome import Outcome, carry_out, format_option
from patchyard.clients.clock import SystemClock
from patchyard.domain.codec import to_json
from patchyard.domain.errors import UsageError
from patchyard.domain.invariant import Invariant, Scope
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.lifecycle import declare
from patchyard.intake_actions import find_action


@click.group(
    cls=Group, epilog="Example: agents invariant add 'the API stays' --check 'python tools/api.py'"
)
def invariant() -> None:
    """What must stay true, told to every actor and checked where there is a command."""


@invariant.command(epilog="Example: agents invariant add 'no new dependency' --project shop")
@click.argument("text")
@click.option("--global", "is_global", is_flag=True, help="For every plan (the default).")
@click.option("--project", help="For plans of this project.")
@click.option("--action", help="For plans made of this action.")
@click.option("--plan", "plan_id", help="For this plan, before it is strategized.")
@click.option("--check", help="Command that exits 0 while it holds; run before and after.")
@click.option("--non-overridable", is_flag=True, help="No narrower one may replace it.")
@format_option
def add(text: str, output_format: str, **options: Any) -> None:
    """Add an invariant."""

    async def work() -> Outcome:
        scope, target = _scope(options)
        made = Invariant(
            invariant_id=SystemClock().new_id(),
            text=text,
            scope=scope,
            target=target,
            check=options["check"],
            non_overridable=options["non_overridable"],
        )
        return await (_declared(made) if scope == Scope.PLAN else _kept(made))

    carry_out("invariant add", output_format, work)


async def _declared(asked: Invariant) -> Outcome:
    """Add an invariant to the one plan that its target names."""
    async with owned(asked.target) as (_, ledger):
        made = replace(asked, target=ledger.plan_id)
        await declare(ledger, made)
    return Outcome(data=_data(made), text=f"added to plan {made.target}")


async def _kept(asked: Invariant) -> Outcome:
    """Keep an invariant for the plans to come."""
    async with engine_opened() as equipment:
        catalogue = Catalogue(equipment.store.journal, equipment.clock)
        if asked.scope == Scope.ACTION:
            find_action(asked.target, await catalogue.holdings())
        made = await catalogue.add_invariant(asked)
    return Outcome(data=_data(made), text=f"added {made.invariant_id}")


def _scope(options: Mapping[str, Any]) -> tuple[Scope, str]:
    said = [
        (Scope.PROJECT, options["project"]),
        (Scope.ACTION, options["action"]),
        (Scope.PLAN, options["plan_id"]),
    ]
    chosen = [(scope, name) for scope, name in said if name is not None]
    if len(chosen) + options["is_global"] > 1:
        raise UsageError(
            "an invariant has one scope", hint="--global, --project P, --action A or --plan ID"
        )
    return chosen[0] if chosen else (Scope.GLOBAL, "")


def _data(found: Invariant) -> dict[str, Any]:
    defaults = {"target": "", "check": None, "non_overridable": False}
    return {**defaults, **to_json(found)}


@invariant.command("list", epilog="Example: agents invariant list --format json")
@format_option
def list_invariants(output_format: str) -> None:
    """List the invariants."""

    async def job(catalogue: Catalogue) -> Outcome:
        found = (await catalogue.holdings()).invariants
        rows = [
            [
                i.invariant_id,
                f"{i.scope}{f' {i.target}' if i.target else ''}",
                i.text,
                i.check or "",
            ]
            for i in found
        ]
        data = {"invariants": [_data(i) for i in found]}
        return Outcome(data=data, text=table(rows, empty="no invariants"))

    with_catalogue("invariant list", output_format, job)


@invariant.command(epilog="Example: agents invariant remove 01K")
@click.argument("invariant_id", metavar="ID")
@format_option
def remove(invariant_id: str, output_format: str) -> None:
    """Take an invariant away; ID or a unique beginning of it."""

    async def job(catalogue: Catalogue) -> Outcome:
        removed = await catalogue.remove_invariant(invariant_id)
        return Outcome(data=_data(removed), text=f"removed {removed.text}")

    with_catalogue("invariant remove", output_format, job)


__all__ = ["invariant"]
