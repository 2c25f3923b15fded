"""`agents plan pause|prompt|approve|reject|revert|correct`: words to a plan."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import click

from patchyard.cli.opening import opened
from patchyard.cli.outcome import Outcome, carry_out, counted, format_option, visible
from patchyard.cli.plan_act import plan_argument
from patchyard.cli.working import waiting
from patchyard.domain.plan import Phase, State
from patchyard.domain.steering import ApprovalAsked, Subject
from patchyard.engine.directing import Directing

Told = Callable[[Directing, str], Awaitable[str]]  # does it, and returns what people read


@click.command(epilog="Example: agents plan pause @last && agents plan resume @last")
@plan_argument
@format_option
def pause(plan_id: str, output_format: str) -> None:
    """Hold a plan after its present call, until `agents plan resume`."""

    async def job(directing: Directing, found: str) -> str:
        state = await directing.pause(found)
        if state.steered.paused is not None:
            return f"paused; {_onward(found)}"
        if state.state == State.PROCESSING:
            return f"its present call goes on; it is paused after that; {_onward(found)}"
        return "not paused: its work was done before"

    _tell("plan pause", plan_id, output_format, job)


@click.command(epilog="Example: agents plan prompt @last 'keep the old name as an alias'")
@click.argument("plan_id", metavar="ID")
@click.argument("text")
@format_option
def prompt(plan_id: str, text: str, output_format: str) -> None:
    """Give guidance to a running or stopped plan; it is told with the next turn."""

    async def job(directing: Directing, found: str) -> str:
        await directing.prompt(found, text)
        return f"it is told with the next turn; of a plan that is stopped, {_onward(found)}"

    _tell("plan prompt", plan_id, output_format, job)


@click.command(epilog="Example: agents plan approve @last && agents plan resume @last")
@plan_argument
@format_option
def approve(plan_id: str, output_format: str) -> None:
    """Say yes to what a plan waits for; `agents plan resume` goes on then."""

    async def job(directing: Directing, found: str) -> str:
        asked = await directing.approve(found)
        return f"approved: {visible(asked.shown)}\n{_onward(found)}"

    _tell("plan approve", plan_id, output_format, job)


@click.command(epilog="Example: agents plan reject @last 'not with sudo'")
@plan_argument
@click.argument("reason", required=False, default="")
@format_option
def reject(plan_id: str, reason: str, output_format: str) -> None:
    """Say no to what a plan waits for; of a call the actor is told, with REASON."""

    async def job(directing: Directing, found: str) -> str:
        asked = await directing.reject(found, reason)
        return f"rejected: {visible(asked.shown)}\n{_after_no(found, asked)}"

    _tell("plan reject", plan_id, output_format, job)


@click.command(epilog="Example: agents plan revert @last --reason 'wrong module' && ...")
@plan_argument
@click.option(
    "--to-phase",
    type=click.Choice([str(Phase.STRATEGIZE), str(Phase.EXECUTE)]),
    default=str(Phase.STRATEGIZE),
    help="strategize (a new strategy, the default), execute (the same one, from the base).",
)
@click.option("--reason", default="", help="Told to the next attempt, with a failed proof's words.")
@format_option
def revert(plan_id: str, to_phase: str, reason: str, output_format: str) -> None:
    """Take a plan back to an earlier phase; counted, and bounded."""

    async def job(directing: Directing, found: str) -> str:
        state = await directing.revert(found, to=Phase(to_phase), reason=reason)
        times = counted(state.reverts, "time")
        return f"back at {state.phase}/{state.state}, {times} by now; {_onward(found)}"

    _tell("plan revert", plan_id, output_format, job)


@click.command(epilog="Example: agents plan correct @last --mode append --guidance 'test it too'")
@plan_argument
@click.option(
    "--mode",
    type=click.Choice(["revert", "append"]),
    required=True,
    help="revert: plan anew with the guidance; append: go on with it, also when all was done.",
)
@click.option("--guidance", required=True, help="What is to be done otherwise, or as well.")
@format_option
def correct(plan_id: str, mode: str, guidance: str, output_format: str) -> None:
    """Set a plan right, by a new strategy or by going on with guidance."""

    async def job(directing: Directing, found: str) -> str:
        state = await directing.correct(found, mode, guidance)
        return f"at {state.phase}/{state.state} with the guidance; {_onward(found)}"

    _tell("plan correct", plan_id, output_format, job)


def _after_no(plan_id: str, asked: ApprovalAsked) -> str:
    """Say what can be done now: a call is told to the actor, a phase is not begun by itself."""
    if asked.subject != Subject.PHASE:
        return _onward(plan_id)
    begin = f"agents plan {asked.name} {plan_id}"
    return f"agents plan revert {plan_id} --reason TEXT plans anew; {begin} goes on all the same"


def _onward(plan_id: str) -> str:
    return f"agents plan resume {plan_id} carries it on"


def _tell(command: str, plan_id: str, output_format: str, job: Told) -> None:
    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            said = await job(Directing(equipment), found)
            return replace(await waiting(equipment, found), text=said)

    carry_out(command, output_format, work)


__all__ = ["approve", "correct", "pause", "prompt", "reject", "revert"]
