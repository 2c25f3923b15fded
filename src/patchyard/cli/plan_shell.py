"""`agents plan shell`: a shell behind the plan's walls, on a fresh copy of its result."""

import asyncio
import os
import sys
from pathlib import Path

import click

from patchyard.assembly import open_equipment
from patchyard.cli.outcome import Outcome, Speaking, carry_out, paint
from patchyard.cli.plan_act import plan_argument
from patchyard.contracts.environment import Toolbox
from patchyard.domain.errors import GuardRefused
from patchyard.engine.equipment import Equipment
from patchyard.engine.finding import find_plan
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.proof import Prover
from patchyard.engine.setup import Setup
from patchyard.engine.sites import general_kind

COMMAND_TIMEOUT_S = 3600.0
SESSION = "shell"


@click.command(epilog="Example: echo 'pytest -q' | agents plan shell @last")
@plan_argument
def shell(plan_id: str) -> None:
    """Type commands behind the plan's walls, on a fresh copy of what it made.

    The copy holds base, setup and change set, as the proof does; it is gone afterwards, and
    nothing you do there changes the plan. `exit` or the end of input leaves.
    Commands see no terminal, so editors and pagers do not work; Ctrl-C ends the shell.
    """

    async def work() -> Outcome:
        async with open_equipment(os.environ) as equipment:
            here = str(Path.cwd())
            found = await find_plan(equipment.store.summaries, plan_id, repository=here)
            async with PlanLifecycleService(equipment).owned(found) as ledger:
                return Outcome(exit_code=await _visit(equipment, ledger))

    carry_out(Speaking(command="plan shell"), work)


async def _visit(equipment: Equipment, ledger: Ledger) -> int:
    state = ledger.state
    if state.base is None:
        raise GuardRefused(
            f"plan {ledger.plan_id} has no base yet",
            hint=f"run `agents plan strategize {ledger.plan_id}` first",
        )
    layers = await Setup(equipment, ledger).layers(state.base)
    prover = Prover(equipment, ledger, layers)
    tree = state.changeset.tree if state.changeset else None
    async with prover.fresh(state.base, tree=tree, purpose="shell") as toolbox:
        kind = general_kind(state.known)
        click.echo(f"{kind}, on a fresh copy of plan {ledger.plan_id}; `exit` leaves", err=True)
        return await _converse(equipment, toolbox)


async def _converse(equipment: Equipment, toolbox: Toolbox) -> int:
    exit_code = 0
    while True:
        line = await asyncio.to_thread(_typed)
        if line is None or line.strip() in {"exit", "logout"}:
            return exit_code
        if not line.strip():
            continue
        args = {"command": line, "timeout_s": COMMAND_TIMEOUT_S, "session": SESSION}
        call_id = equipment.clock.new_id()
        result = await toolbox.call(call_id, "execute_command", args)
        _show(str(result.get("stdout", "")), str(result.get("stderr", "")))
        code = result.get("exit_code")
        exit_code = code if isinstance(code, int) and code >= 0 else 1
        if code is None:
            click.echo(str(result.get("message", "")), err=True)


def _typed() -> str | None:
    """Read one line; the prompt is for people alone."""
    try:
        prompt = paint("plan$ ", "green") if sys.stdin.isatty() else ""
        return input(prompt)
    except EOFError:
        return None


def _show(stdout: str, stderr: str) -> None:
    sys.stdout.buffer.write(stdout.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    sys.stderr.buffer.write(stderr.encode("utf-8", "surrogateescape"))
    sys.stderr.flush()


__all__ = ["COMMAND_TIMEOUT_S", "SESSION", "shell"]
