"""`agents plan shell`: a shell behind the plan's walls, on a fresh copy of its result."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import click

from patchyard.cli.opening import owned
from patchyard.cli.outcome import (
    RICH,
    Outcome,
    carry_out,
    heard,
    is_open,
    paint,
    visible,
)
from patchyard.cli.plan_act import plan_argument
from patchyard.domain.errors import GuardRefused
from patchyard.domain.plan import Phase
from patchyard.domain.tooling import COMMAND
from patchyard.engine.answers import answer_in_time
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import Metered
from patchyard.engine.proof import Prover
from patchyard.engine.reaching import Reaching, Visited, reaching
from patchyard.engine.setup import Setup

COMMAND_TIMEOUT_S = 3600.0
MOST_CODE = 255  # of a program that has ended, wait(2)
PIECE_BYTES = 65536
SESSION = "shell"


@click.command(epilog="Example: echo 'pytest -q' | agents plan shell @last")
@plan_argument
def shell(plan_id: str) -> None:
    """Type commands behind the plan's walls, on a fresh copy of what it made.

    The copy holds base, setup and change set, as the proof does; it is gone afterwards, and
    nothing you do there changes the plan. `exit` or the end of input leaves. Commands reach what
    the plan was granted (`--allow-host`, `--secret`), by the same rules, journalled as of the plan.
    Commands have no terminal: what asks for one (editors, pagers, `python` alone) does not work,
    and control characters in what they print are shown escaped. One shell runs them all, so `cd`
    and variables stay. Ctrl-C stops the command that runs, and a new shell takes the next one.
    """

    async def work() -> Outcome:
        async with owned(plan_id) as (equipment, ledger):
            return Outcome(exit_code=await _visit(equipment, ledger))

    carry_out("plan shell", RICH, work)


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
    async with (
        prover.fresh(state.base, tree=tree, purpose="shell") as toolbox,
        reaching(equipment, ledger, Phase.EXECUTE, Visited(toolbox)) as reached,
    ):
        kind = toolbox.handle.kind
        about = f"{kind}, on a fresh copy of plan {ledger.plan_id}, without a terminal"
        click.echo(f"{about}; Ctrl-C stops a command, `exit` leaves", err=True)
        return await _Conversation(equipment, ledger, toolbox, reached).hold()


class _Conversation:
    """Lines of standard input, each run as one command of one shell behind the walls."""

    def __init__(
        self, equipment: Equipment, ledger: Ledger, toolbox: Metered, reached: Reaching
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._toolbox = toolbox
        self._reached = reached
        self._running = ""  # id of the call, empty at the prompt
        self._typed = b""
        self._exit_code = 0
        self._stopping: set[asyncio.Task[None]] = set()

    async def hold(self) -> int:
        """Run what is typed until `exit` or the end; return the last command's exit code."""
        loop = asyncio.get_running_loop()
        before = signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            while (line := await self._line()) not in {None, "exit", "logout"}:
                if line:
                    await self._run(line)
        finally:
            loop.remove_signal_handler(signal.SIGINT)  # which leaves Python's own in its place
            signal.signal(signal.SIGINT, before)
        return self._exit_code

    def _interrupt(self) -> None:
        """Stop the command that runs; at the prompt begin a new line."""
        if self._running:
            task = asyncio.ensure_future(self._toolbox.cancel(self._running))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
        else:
            click.echo(err=True)
            _prompt()

    async def _line(self) -> str | None:
        """Return the next line, None at the end. Nothing is held up while it waits."""
        if not is_open(sys.stdin):
            return None
        _prompt()
        while b"\n" not in self._typed:
            await _readable(sys.stdin.fileno())
            piece = os.read(sys.stdin.fileno(), PIECE_BYTES)
            if not piece:
                rest, self._typed = self._typed, b""
                return os.fsdecode(rest).strip() or None
            self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return os.fsdecode(line).strip()

    async def _run(self, line: str) -> None:
        args = {"command": line, "timeout_s": COMMAND_TIMEOUT_S, "session": SESSION}
        self._running = self._equipment.clock.new_id()
        kind = self._toolbox.handle.kind
        try:
            furnished = await self._reached.furnished(kind, self._toolbox, COMMAND, args)
            call = self._toolbox.call(self._running, COMMAND, furnished, on_output=_show)
            result = await answer_in_time(call, furnished)
        finally:
            self._running = ""
        if used := self._reached.used():
            await self._ledger.record(*used)
        self._exit_code = exit_code_in(result)
        if (
            result.get("exit_code") is None
            or result.get("error") in {"CANCELLED", "TIMEOUT"}
            or "limit" in result
        ):
            click.echo(visible(str(result.get("message", ""))), err=True)


def exit_code_in(result: Mapping[str, Any]) -> int:
    """Return how a command ended, as a program can end; 1 for what no program ends with."""
    code = result.get("exit_code")
    return code if type(code) is int and 0 <= code <= MOST_CODE else 1


async def _readable(descriptor: int) -> None:
    """Wait for something to read; a file always has it."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _prompt() -> None:
    """Say that a line is waited for; the prompt is for people alone."""
    if sys.stdin.isatty():
        click.echo(paint("plan$ ", "green", to_stderr=True), nl=False, err=True)


def _show(stream: str, text: str) -> None:
    """Pass on what a command prints: exact bytes to a pipe, nothing that steers a terminal."""
    to = sys.stdout if stream == "stdout" else sys.stderr
    if is_open(to):
        with heard(to):
            shown = visible(text.replace("\r\n", "\n")) if to.isatty() else text
            to.buffer.write(shown.encode("utf-8", "surrogateescape"))
            to.flush()


__all__ = ["COMMAND_TIMEOUT_S", "MOST_CODE", "PIECE_BYTES", "SESSION", "exit_code_in", "shell"]
