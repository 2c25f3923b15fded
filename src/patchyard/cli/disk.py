"""`agents disk`: what lies where, how much of it, whose, and what may go."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from patchyard.assembly import open_equipment
from patchyard.cli.cataloguing import table
from patchyard.cli.gc import readable, row
from patchyard.cli.outcome import Outcome, carry_out, format_option, visible
from patchyard.config import places
from patchyard.domain.keeping import Rules
from patchyard.engine.janitor import Janitor, Returned
from patchyard.upkeep import rules

LARGEST = 10  # plans that are named to people


@click.command(epilog="Example: agents disk --format json")
@format_option
def disk(output_format: str) -> None:
    """Say what lies where, how much of it, whose it is, and what `agents gc` would return."""

    async def work() -> Outcome:
        known = rules(os.environ)
        async with open_equipment(os.environ) as equipment:
            sweep = await Janitor(equipment, kept=known.retention, is_dry=True).sweep()
        return _outcome(sweep.things, sweep.freed, known)

    carry_out("disk", output_format, work)


def _outcome(things: Sequence[Returned], freed: int, known: Rules) -> Outcome:
    where = places(os.environ)
    database = sum(_size(where.database, end) for end in ("", "-wal", "-shm"))
    free = shutil.disk_usage(where.home).free
    data = {
        "home": str(where.home),
        "free_bytes": free,
        "needed_bytes": known.free,
        "database_bytes": database,
        "may_go_bytes": freed,
        "families": _families(things),
        "plans": _plans(things),
        "things": [{**row(each), "may_go": each.verdict.may_go} for each in things],
    }
    return Outcome(data=data, text=_text(data))


def _size(path: Path, end: str) -> int:
    try:
        return path.with_name(path.name + end).stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _families(things: Sequence[Returned]) -> list[dict[str, Any]]:
    """Return a row for each family: what there is, and what may go."""
    found: dict[str, dict[str, Any]] = {}
    for each in things:
        name = str(each.verdict.found.family)
        of = {"family": name, "things": 0, "bytes": 0, "may_go": 0, "may_go_bytes": 0}
        entry = found.setdefault(name, of)
        entry["things"] += 1
        entry["bytes"] += each.bytes
        entry["may_go"] += each.verdict.may_go
        entry["may_go_bytes"] += each.bytes if each.verdict.may_go else 0
    return list(found.values())


def _plans(things: Sequence[Returned]) -> list[dict[str, Any]]:
    """Return what each plan takes for itself, the largest first."""
    taken: dict[str, int] = {}
    for each in things:
        plan_id = each.verdict.found.plan_id
        if plan_id:
            taken[plan_id] = taken.get(plan_id, 0) + each.bytes
    largest = sorted(taken.items(), key=lambda item: -item[1])
    return [{"plan_id": plan_id, "bytes": size} for plan_id, size in largest]


def _text(data: dict[str, Any]) -> str:
    cells = [["database", "1", readable(data["database_bytes"]), ""]]
    for entry in data["families"]:
        may_go = f"{readable(entry['may_go_bytes'])} may go" if entry["may_go"] else ""
        count, size = str(entry["things"]), readable(entry["bytes"])
        cells.append([entry["family"], count, size, may_go])
    plans = [["plan", p["plan_id"], readable(p["bytes"])] for p in data["plans"][:LARGEST]]
    free = f"{readable(data['free_bytes'])} free, {readable(data['needed_bytes'])} needed to begin"
    return "\n".join(
        [
            f"{visible(data['home'])}: {free}",
            *table(cells, empty="").splitlines(),
            *table(plans, empty="").splitlines(),
            f"`agents gc` would give back {readable(data['may_go_bytes'])}",
        ]
    )


__all__ = ["LARGEST", "disk"]
