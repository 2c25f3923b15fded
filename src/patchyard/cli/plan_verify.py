"""`agents plan verify`: the journal of a plan, checked against its hashes."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import click

from patchyard.cli.opening import opened
from patchyard.cli.outcome import Outcome, carry_out, format_option
from patchyard.cli.plan_act import plan_argument
from patchyard.domain.codec import to_json
from patchyard.domain.errors import JournalBroken, Unavailable, UsageError, WorkFailed
from patchyard.engine.contents import inspect_contents
from patchyard.engine.equipment import Equipment
from patchyard.engine.handing import Handing
from patchyard.engine.inspecting import doubt_of, inspect_around
from patchyard.engine.ledger import Ledger
from patchyard.engine.verifying import Verification, verify

SHOWN = 20  # problems that are printed
DOUBTED = (
    "what its last calls wrote may be lost; when it goes on, it does so from its last checkpoint"
)
WITHOUT_HASHES = "They are of a version of Patchyard that wrote no hashes"


@click.command("verify", epilog="Example: agents plan verify @last --head 3f0c9a51b2d7")
@plan_argument
@click.option("--head", help="A hash noted earlier: its event must still be there.")
@format_option
def verify_command(plan_id: str, head: str | None, output_format: str) -> None:
    """Check that a plan's journal is whole, and what it names beside it.

    That is the contents of its checkpoints, the trees of base and result, and the branch that it
    handed over.
    """

    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            checked = await verify(equipment.store.journal, found, head=head)
            around = await inspect_around(equipment, found)
            checked = replace(checked, problems=(*checked.problems, *around))
            damaged, gone, lost = await _beside(equipment, found, is_whole=not checked.problems)
            why = "" if checked.problems else await doubt_of(equipment, found)
        old = [f"{why}: {DOUBTED}"] if why else []
        said = f"{_said(checked)}{_found(checked, head)}"
        return Outcome(
            data={
                **to_json(checked),
                "damaged": [*damaged],
                "gone": [*gone],
                "lost": [*lost],
                "doubted": why,
            },
            text="\n".join([said, *lost, *damaged, *gone, *old]),
            error=broken(checked.plan_id, checked.problems) or _lost(lost) or _damaged(damaged),
        )

    carry_out("plan verify", output_format, work)


async def _beside(
    equipment: Equipment, plan_id: str, *, is_whole: bool
) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Return what is damaged and gone of hand-overs, and lost of what the journal names."""
    if not is_whole:
        return (), (), ()
    ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
    lost = await inspect_contents(equipment, ledger)
    return *await _handed(equipment, ledger), lost


async def _handed(equipment: Equipment, ledger: Ledger) -> tuple[Sequence[str], Sequence[str]]:
    """Return what is damaged and what is gone of the hand-overs; nothing without the repository."""
    with suppress(Unavailable, UsageError):
        return await Handing(equipment, ledger).looked_after()
    return (), ()


def _lost(found: Sequence[str]) -> WorkFailed | None:
    """Return the error that lost contents are; None without any."""
    if not found:
        return None
    return WorkFailed(
        f"the journal is whole, but what it names is not: {found[0]}",
        hint="nothing was changed here. A base comes back from the repository when the plan goes"
        " on; a result is made anew from a checkpoint that is whole (`agents plan rollback ID`"
        " lists them); else restore PATCHYARD_HOME from a backup",
        details={"lost": [*found[:SHOWN]]},
    )


def _damaged(found: Sequence[str]) -> WorkFailed | None:
    """Return the error that damaged hand-overs are; None without any."""
    if not found:
        return None
    return WorkFailed(
        f"the journal is whole, but what was handed over is damaged: {found[0]}",
        hint="mend it as said, then `agents plan apply` looks whether all of it is there",
        details={"damaged": [*found]},
    )


def _said(checked: Verification) -> str:
    counts = f"{checked.events:,} events, {checked.blobs:,} bodies"
    if checked.problems:
        more = len(checked.problems) - SHOWN
        tail = [f"and {more:,} more"] if more > 0 else []
        return "\n".join([counts, *checked.problems[:SHOWN], *tail])
    if not checked.is_hashed:
        return (
            f"{counts}: all there and readable. {WITHOUT_HASHES}, so an edit of them would not be"
            " seen; the next command that goes on with the plan hashes them"
        )
    return f"{counts}: all as they were written\nhead {checked.head}"


def _found(checked: Verification, head: str | None) -> str:
    return f"\nan event still carries {head.lower()}" if head and not checked.problems else ""


def broken(plan_id: str, problems: Sequence[str]) -> JournalBroken | None:
    """Return the error that `problems` of a plan's journal are; None where there are none."""
    if not problems:
        return None
    return JournalBroken(
        f"the journal of plan {plan_id} is not what was written",
        hint="restore the database from a backup; nothing was changed here",
        details={"problems": list(problems[:SHOWN])},
    )


__all__ = ["SHOWN", "WITHOUT_HASHES", "broken", "verify_command"]
