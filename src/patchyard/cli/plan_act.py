"""`agents plan strategize|execute|resume|cancel`: what carries a plan on or stops it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import click

from patchyard.cli.asking import TerminalApprover
from patchyard.cli.done_again import is_over, nothing_done
from patchyard.cli.looking import look_at
from patchyard.cli.opening import opened
from patchyard.cli.outcome import JSON, Outcome, carry_out, format_option, visible
from patchyard.cli.progress import SpokenLines
from patchyard.cli.queued import queued
from patchyard.cli.screen import plan_screen
from patchyard.cli.working import carried, watching
from patchyard.domain.codec import to_json
from patchyard.domain.environment import place_named
from patchyard.domain.state import PlanState
from patchyard.domain.steering import PauseEnded
from patchyard.engine.equipment import Equipment
from patchyard.engine.integrity import intact
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.outlook import outlook
from patchyard.engine.report import plan_data
from patchyard.engine.steering import Steering
from patchyard.engine.workflow import Workflow

Job = Callable[[Workflow, str], Awaitable[PlanState]]

plan_argument = click.argument("plan_id", metavar="[ID]", default="@last")
stream_option = click.option("--stream", is_flag=True, help="Show progress while it happens.")


@click.command(epilog="Example: agents plan strategize @last")
@plan_argument
@stream_option
@format_option
def strategize(plan_id: str, output_format: str, *, stream: bool) -> None:
    """Plan without writing; harmless when that is done already."""
    _work("plan strategize", plan_id, lambda w, p: w.strategize(p), output_format, stream=stream)


@click.command(epilog="Example: agents plan execute @last --stream")
@plan_argument
@click.option("--execution-environment", "--in", "kind", help="Another kind than planned.")
@stream_option
@format_option
def execute(plan_id: str, output_format: str, kind: str | None, *, stream: bool) -> None:
    """Carry out a strategized plan and prove it; harmless when that is done already."""

    async def job(workflow: Workflow, found: str) -> PlanState:
        return await workflow.execute(found, environment=place)

    place = place_named(kind) if kind else None
    _work("plan execute", plan_id, job, output_format, stream=stream, place=place)


@click.command(epilog="Example: agents plan resume @last")
@plan_argument
@click.option("-d", "--detach", is_flag=True, help="Leave it to `agents worker`; return at once.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done, call by call.")
@stream_option
@format_option
def resume(plan_id: str, output_format: str, *, detach: bool, dry_run: bool, stream: bool) -> None:
    """Carry a plan on from where it stopped: crash, cancel, pause, approval, limit or failure."""
    if dry_run:
        look_at("plan resume", plan_id, output_format, _outlook)
    if detach:
        _leave("plan resume", plan_id, output_format)
    _work("plan resume", plan_id, lambda w, p: w.resume(p), output_format, stream=stream)


async def _outlook(equipment: Equipment, ledger: Ledger) -> Outcome:
    await intact(equipment.store.journal, ledger.plan_id)
    found = await outlook(equipment, ledger)
    lines = [f"{number:3}  {visible(step)}" for number, step in enumerate(found.steps, start=1)]
    would = {"steps": list(found.steps), "open_calls": [to_json(c) for c in found.open_calls]}
    return Outcome(data={"would": would}, text="\n".join(lines))


@click.command(epilog="Example: agents plan cancel @last")
@plan_argument
@format_option
def cancel(plan_id: str, output_format: str) -> None:
    """Stop a plan and its whole process tree, whoever works on it."""

    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            before = (await Ledger.open(equipment.store, equipment.clock, found)).state
            outcome = await carried(equipment, found, Workflow(equipment).cancel(found))
            step = (outcome.data["phase"], outcome.data["state"])
            if outcome.error or step != (before.phase, before.state):
                return outcome
            nothing = f"nothing to cancel: the plan is {'/'.join(step)}"
            return replace(outcome, text=f"{nothing}\n{outcome.text}")

    carry_out("plan cancel", output_format, work)


def _leave(command: str, plan_id: str, output_format: str) -> None:
    """Put a plan into the queue, unless nothing is left to do, and leave the command."""

    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            async with PlanLifecycleService(equipment).owned(found) as ledger:
                await Steering(equipment, ledger).take_in()
                if is_over(ledger.state):
                    data = {**await plan_data(ledger), "queue": None}
                    note = nothing_done(ledger.state, ledger.state)
                    return _with_note(Outcome(data=data, text=plan_screen(data)), note)
                if ledger.state.steered.paused is not None:
                    await ledger.record(PauseEnded())
            return await queued(equipment, found)

    carry_out(command, output_format, work)


def _work(
    command: str,
    plan_id: str,
    job: Job,
    output_format: str,
    *,
    stream: bool,
    place: str | None = None,
) -> None:
    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            state = (await Ledger.open(equipment.store, equipment.clock, found)).state
            spoken = SpokenLines(running=[call.name for call in state.open_calls.values()])
            is_json = output_format == JSON
            with watching(found, is_json=is_json, stream=stream, spoken=spoken) as watched:
                approver = TerminalApprover(spoken, is_json=is_json)
                work = job(Workflow(equipment, watching=watched, approver=approver), found)
                outcome = await carried(equipment, found, work)
            if outcome.error:
                return outcome
            now = (await Ledger.open(equipment.store, equipment.clock, found)).state
            return _with_note(outcome, nothing_done(state, now, place=place))

    carry_out(command, output_format, work, stream=stream)


def _with_note(outcome: Outcome, note: str) -> Outcome:
    """Return the outcome with one line on top, in its data as `nothing_done`; "" adds none."""
    if not note:
        return outcome
    data = {**outcome.data, "nothing_done": note}
    return replace(outcome, data=data, text=f"{visible(note)}\n{outcome.text}")


__all__ = ["Job", "cancel", "execute", "plan_argument", "resume", "strategize", "stream_option"]
