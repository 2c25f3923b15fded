"""`agents plan use ACTION PROJECT`: makes a plan of an action and strategizes it."""

import os
from dataclasses import replace
from typing import Any

import click

from patchyard.assembly import open_equipment
from patchyard.cli.outcome import JSON, Outcome, carry_out, format_option
from patchyard.cli.plan_act import stream_option
from patchyard.cli.progress import SpokenLines
from patchyard.cli.working import announce, carried, made_plan, waiting, watching
from patchyard.domain.environment import Priority
from patchyard.domain.errors import UsageError
from patchyard.domain.plan import MANUAL
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.sites import weakest_walls
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked
from patchyard.intake_actions import find_action

PLACE_HELP = (
    "A kind (process, host, ...) or a linked resource; else what project and settings say, and"
    " host where none does."
)


@click.command(epilog="Example: agents plan use bump-dependency shop --arg package=click")
@click.argument("action")
@click.argument("project")
@click.option(
    "--arg", "arguments", multiple=True, help="NAME=VALUE of the action; may be repeated."
)
@click.option("--execution-environment", "--in", "kind", help=PLACE_HELP)
@click.option(
    "--execution-env-priority",
    "priority",
    type=click.Choice([str(each) for each in Priority]),
    help="override: before all but a tool's own setting; fallback: after a devcontainer.",
)
@click.option("--agent", help="model or recipe; recipe where the action has steps.")
@click.option("--model", "model_name", help="PROVIDER:MODEL, recorded:FILE or scripted:FILE.")
@click.option("--limit", "limits", multiple=True, help="Of environments: memory=2G, cpus=1.5, …")
@click.option("--no-strategize", is_flag=True, help="Only make the plan.")
@click.option("--automation-profile", help="Under manual only the plan is made.")
@stream_option
@format_option
def use(output_format: str, **options: Any) -> None:
    """Make a plan of ACTION for PROJECT and strategize it; prints its id."""
    is_json = output_format == JSON
    stream = bool(options["stream"])
    carry_out("plan use", output_format, lambda: _use(options, is_json=is_json), stream=stream)


async def _use(options: dict[str, Any], *, is_json: bool) -> Outcome:
    async with open_equipment(os.environ) as equipment:
        holdings = await Catalogue(equipment.store.journal, equipment.clock).holdings()
        asked = Asked(
            action=find_action(options["action"], holdings),
            project=options["project"],
            arguments=_arguments(options["arguments"]),
            kind=options["kind"],
            environment_priority=Priority(options["priority"]) if options["priority"] else None,
            agent=options["agent"],
            model=options["model_name"],
            limits=options["limits"],
            automation_profile=options["automation_profile"],
            has_run_default=False,
        )
        plan_id, spec, base = await made_plan(equipment, asked, os.environ)
        if options["no_strategize"] or spec.automation_profile == MANUAL:
            return replace(await waiting(equipment, plan_id), text=plan_id)
        spoken = SpokenLines(opening=f"plan {plan_id}", kind=weakest_walls(spec))
        stream = bool(options["stream"])
        with watching(plan_id, is_json=is_json, stream=stream, spoken=spoken) as watched:
            announce(watched, spec, base)
            work = Workflow(equipment, watching=watched).strategize(plan_id)
            outcome = await carried(equipment, plan_id, work)
        return outcome if outcome.error else replace(outcome, text=plan_id)


def _arguments(given: tuple[str, ...]) -> dict[str, str]:
    arguments = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--arg {text!r} is not NAME=VALUE")
        arguments[name] = value
    return arguments


__all__ = ["use"]
