"""`agents gc`: the janitor by hand."""

import os
from typing import Any

import click

from patchyard.assembly import open_equipment
from patchyard.cli.cataloguing import table
from patchyard.cli.outcome import Outcome, carry_out, counted, format_option, visible
from patchyard.domain.errors import WorkFailed
from patchyard.engine.janitor import Janitor, Returned, Sweep
from patchyard.upkeep import rules

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
STEP = 1024.0


@click.command(epilog="Example: agents gc --dry-run")
@click.option("--dry-run", is_flag=True, help="Say what would be returned, and return nothing.")
@format_option
def gc(output_format: str, *, dry_run: bool) -> None:
    """Return what plans and killed processes have left on this machine.

    Nothing that Patchyard did not make, nothing that a plan needs: what a plan that stopped wrote
    stays for `plan resume`. Exit 1 when something that may go cannot.
    """

    async def work() -> Outcome:
        async with open_equipment(os.environ) as equipment:
            kept = rules(os.environ).retention
            sweep = await Janitor(equipment, kept=kept, is_dry=dry_run).sweep()
        return _outcome(sweep)

    carry_out("gc", output_format, work)


def _outcome(sweep: Sweep) -> Outcome:
    going = [each for each in sweep.things if each.verdict.may_go]
    stuck = [each for each in going if each.obstacle]
    error = None
    if stuck:
        error = WorkFailed(
            f"{counted(len(stuck), 'thing')} could not be returned",
            hint=stuck[0].obstacle,
        )
    verb = "would be given back" if sweep.is_dry else "given back"
    total = f"{counted(len(going) - len(stuck), 'thing')}, {readable(sweep.freed)} {verb}"
    data = {
        "dry_run": sweep.is_dry,
        "freed_bytes": sweep.freed,
        "returned": [row(each) for each in going if not each.obstacle],
        "stuck": [row(each) for each in stuck],
        "kept": [row(each) for each in sweep.things if not each.verdict.may_go],
    }
    kept = [f"kept all of a plan: {visible(reason)}" for reason in sweep.damaged]
    return Outcome(data=data, text="\n".join([*_lines(going), *kept, total]), error=error)


def _lines(going: list[Returned]) -> list[str]:
    cells = [
        [
            str(each.verdict.found.family),
            readable(each.bytes),
            visible(each.verdict.found.place),
            visible(each.obstacle or each.verdict.reason),
        ]
        for each in going
    ]
    return table(cells, empty="").splitlines()


def row(each: Returned) -> dict[str, Any]:
    """Return one thing for programs."""
    found = each.verdict.found
    return {
        "family": str(found.family),
        "name": found.name,
        "path": found.place,
        "plan_id": found.plan_id or None,
        "bytes": each.bytes,
        "reason": each.verdict.reason,
        "obstacle": each.obstacle or None,
    }


def readable(size: float) -> str:
    """Return bytes as people read them."""
    for unit in UNITS[:-1]:
        if abs(size) < STEP:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= STEP
    return f"{size:.1f} {UNITS[-1]}"


__all__ = ["STEP", "UNITS", "gc", "readable", "row"]
