"""`agents plan list`: by the stores alone, so that a long list is there at once."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchyard.cli.outcome import JSON, Outcome, carry_out, format_option, visible
from patchyard.domain.queue import Limits
from patchyard.engine.finding import list_plans
from patchyard.storage import Storage, open_storage

if TYPE_CHECKING:
    from patchyard.engine.standing import Standing


@click.command("list", epilog="Example: agents plan list --all --format json")
@click.option("--all", "everything", is_flag=True, help="Of every repository.")
@format_option
def list_plans_command(output_format: str, *, everything: bool) -> None:
    """List the plans of this repository, newest first."""

    async def work() -> Outcome:
        async with open_storage(os.environ) as storage:
            repository = None if everything else str(Path.cwd())
            rows = await list_plans(storage.journal, repository=repository)
            places = await _places(storage)
            if output_format == JSON:
                data = {"plans": [_listed(row, places.get(row["plan_id"])) for row in rows]}
                return Outcome(data=data)
            lines = [_plan_line(row, places.get(row["plan_id"])) for row in rows]
            none = "no plans yet" if everything else "no plans of this folder; --all lists all"
            return Outcome(text="\n".join(lines) or none)

    carry_out("plan list", output_format, work)


async def _places(storage: Storage) -> Mapping[str, "Standing"]:
    if not await storage.queue.jobs():
        return {}
    from patchyard.configuration import configure  # noqa: PLC0415 - only where plans wait
    from patchyard.engine.standing import standings  # noqa: PLC0415 - likewise

    limits = configure(os.environ).value("slots") or Limits()
    return await standings(storage.queue, storage.clock, limits)


def _listed(row: Mapping[str, Any], place: "Standing | None") -> Mapping[str, Any]:
    return {**row, "queue": place.data() if place else None}


def _plan_line(row: Mapping[str, Any], place: "Standing | None") -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created"]))
    step = f"{row['phase']}/{row['state']}"
    first = row["task"].splitlines()[0] if row["task"] else ""
    kin = f"{row['kinship']}: " if row.get("kinship") else ""
    note = f"  ({row['note']})" if row.get("note") else ""
    line = f"{row['plan_id']}  {when}  {step:22} {kin}{visible(first)[:70]}{note}"
    if place is None:
        return line
    said = f"worker {place.worker}" if place.worker else f"waits for {place.waits_for}"
    return f"{line}  ({visible(said)})"


__all__ = ["list_plans_command"]
