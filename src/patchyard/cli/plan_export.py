"""`agents plan export`: one plan as one file, for people who keep or check it elsewhere."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from patchyard.cli.encoding import encoded, portable
from patchyard.cli.opening import opened
from patchyard.cli.outcome import Outcome, carry_out, counted, format_option, visible
from patchyard.cli.plan_act import plan_argument
from patchyard.cli.plan_verify import WITHOUT_HASHES, broken
from patchyard.clients.syncing import sync_name
from patchyard.domain.errors import UsageError
from patchyard.domain.machine import refused_by_machine
from patchyard.domain.receipt import receipt_markdown
from patchyard.engine.exporting import exported
from patchyard.engine.ledger import Ledger


@click.command(epilog="Example: agents plan export @last --to plan.json")
@plan_argument
@click.option("--to", "target", required=True, type=str, help="The file; it must not exist.")
@format_option
def export(plan_id: str, target: str, output_format: str) -> None:
    """Write all of a plan into one file: events with their hashes, bodies, receipt, patch.

    Into a file that ends in .md goes its receipt, as a page for people.
    """
    path = Path(target).absolute()

    async def work() -> Outcome:
        _require_new(path)
        async with opened(plan_id) as (equipment, found):
            ledger = await Ledger.open(equipment.store, equipment.clock, found)
            export = await exported(equipment, ledger, coded=_json)
            data = export.data
            await _write(path, _page(data["plan"]) if path.suffix == ".md" else export.text)
        counts = f"{counted(len(data['events']), 'event')}, {len(export.digests)} bodies"
        said = {"plan_id": found, "file": str(path), "head": data["head"]}
        problems = [f"the journal is not what was written: {each}" for each in data["problems"]]
        last = f"head {data['head']}" if data["is_hashed"] else WITHOUT_HASHES
        return Outcome(
            data={**said, "events": len(data["events"]), "problems": data["problems"]},
            text="\n".join([f"{counts} to {visible(str(path))}", *problems, last]),
            error=broken(found, data["problems"]),
        )

    carry_out("plan export", output_format, work)


def _require_new(path: Path) -> None:
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already", hint="name another file, or delete it first")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", hint="make it first")


def _json(data: Mapping[str, Any]) -> Iterator[str]:
    return encoded(data, indent=1)


async def _page(plan: Mapping[str, Any]) -> AsyncIterator[str]:
    files = (plan["changeset"] or {"files": []})["files"]
    yield receipt_markdown(portable(plan["receipt"]), portable(files))


async def _write(path: Path, content: AsyncIterator[str]) -> None:
    """Write a file that is whole or not there, and replaces no other; for its owner alone."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8") as file:
            async for piece in content:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            os.link(file.name, path)
            sync_name(path)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already", hint="name another file") from error
    except OSError as error:  # it names no file, or the one for a while
        raise refused_by_machine(OSError(error.errno, error.strerror, str(path))) from error


__all__ = ["export"]
