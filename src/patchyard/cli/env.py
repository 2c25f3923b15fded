"""`agents env list|check`: which kinds of environment start here, and what they show."""

import os
from collections.abc import Mapping
from typing import Any

import click

from patchyard.assembly import open_equipment
from patchyard.cli.cataloguing import table
from patchyard.cli.main import Group
from patchyard.cli.outcome import Outcome, carry_out, format_option, paint, visible
from patchyard.domain.codec import to_json
from patchyard.domain.environment import STRENGTH, Readiness, parse_kind
from patchyard.domain.errors import EnvironmentUnavailable


@click.group(cls=Group, epilog="Example: agents env check process")
def env() -> None:
    """Say which kinds of environment work here, and what they let an agent see."""


@env.command(
    "list",
    short_help="List the kinds and whether they start here.",
    epilog="Example: agents env list --format json",
)
@format_option
def list_kinds(output_format: str) -> None:
    """List the kinds, weakest first, each really started with a time limit."""

    async def work() -> Outcome:
        async with open_equipment(os.environ) as equipment:
            found = [await adapter.check() for adapter in equipment.environments.values()]
        rows = [_row(readiness) for readiness in sorted(found, key=lambda r: STRENGTH[r.kind])]
        text = "\n".join(readiness_line(row) for row in rows)
        return Outcome(data={"environments": rows}, text=text)

    carry_out("env list", output_format, work)


@env.command(
    short_help="Really start one kind and print what can be seen from inside.",
    epilog="Example: agents env check process",
)
@click.argument("kind")
@format_option
def check(kind: str, output_format: str) -> None:
    """Start KIND with a time limit and print what can be seen from inside."""

    async def work() -> Outcome:
        async with open_equipment(os.environ) as equipment:
            readiness = await equipment.environment(parse_kind(kind)).check()
        row = _row(readiness)
        error = None
        if not readiness.is_ready:
            error = EnvironmentUnavailable(readiness.cause, hint=readiness.cure)
        text = "\n".join([readiness_line(row), *_visible_rows(row)])
        return Outcome(data=row, text=text, error=error)

    carry_out("env check", output_format, work)


def _row(readiness: Readiness) -> dict[str, Any]:
    return {
        "kind": str(readiness.kind),
        "strength": STRENGTH[readiness.kind],
        "is_ready": readiness.is_ready,
        "cause": readiness.cause,
        "cure": readiness.cure,
        "facts": to_json(readiness.facts),
    }


def readiness_line(row: Mapping[str, Any]) -> str:
    """Return one line that says whether a kind works."""
    if row["is_ready"]:
        return f"{row['kind']:10} {paint('works', 'green')}"
    cure = f" (cure: {visible(row['cure'])})" if row["cure"] else ""
    return f"{row['kind']:10} {paint('does not start', 'red')}: {visible(row['cause'])}{cure}"


def _visible_rows(row: Mapping[str, Any]) -> list[str]:
    listed = row["facts"].get("visible", [])
    cells = [[str(value) for value in entry.values()] for entry in listed]
    return [f"  {line}" for line in table(cells, empty="").splitlines()]


__all__ = ["env", "readiness_line"]
