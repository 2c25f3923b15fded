"""`agents plan rollback`: files and conversation of a plan, back to one of its checkpoints."""

import sys

import click

from patchyard.cli.asking import YES, typed_line
from patchyard.cli.opening import opened, owned
from patchyard.cli.outcome import Outcome, carry_out, format_option, is_open, visible
from patchyard.cli.screen import plan_screen
from patchyard.domain.errors import ApprovalNeeded
from patchyard.domain.events import Noted
from patchyard.domain.marks import Mark
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.rolling_back import find_mark, roll_back, told


@click.command(epilog="Example: agents plan rollback @last 01KB2V6X --yes")
@click.argument("plan_id", metavar="ID")
@click.argument("checkpoint", required=False, default="")
@click.option("--yes", is_flag=True, help="Do not ask.")
@format_option
def rollback(plan_id: str, checkpoint: str, output_format: str, *, yes: bool) -> None:
    """Take a plan's files and conversation back to CHECKPOINT; `plan resume` goes on from there.

    What was new and ignored files come back too. Without a checkpoint's name they are listed.
    """

    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            before = await Ledger.open(equipment.store, equipment.clock, found)
            mark = find_mark(before.state, checkpoint)
        await _confirm(mark, yes=yes)
        async with owned(found) as (equipment, ledger):
            mark = find_mark(ledger.state, mark.checkpoint_id)
            notes: list[str] = []
            ledger.listeners.append(
                lambda e: notes.append(e.text) if isinstance(e, Noted) else None
            )
            await roll_back(equipment, ledger, mark, reason="by command")
            data = await plan_data(ledger) | {"notes": notes}
        where = f"back at {told(mark)}: agents plan resume {found}"
        text = "\n".join([plan_screen(data), *map(visible, notes), where])
        return Outcome(data=data, text=text)

    carry_out("plan rollback", output_format, work)


async def _confirm(mark: Mark, *, yes: bool) -> None:
    """Ask a person; raise ApprovalNeeded where there is none, or they say no."""
    if yes:
        return
    question = f"go back to {told(mark)}? What came after it is passed over"
    if is_open(sys.stdin) and sys.stdin.isatty():
        click.echo(f"{question} [y/N]: ", err=True, nl=False)
        line = await typed_line()  # which Ctrl-C ends
        if line is not None and line.strip().lower() in YES:
            return
        raise ApprovalNeeded("nothing was changed")
    raise ApprovalNeeded(
        f"{question}: nobody can be asked here", hint="say it with --yes; nothing was changed"
    )


__all__ = ["rollback"]
