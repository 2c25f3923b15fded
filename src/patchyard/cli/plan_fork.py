"""`agents plan fork|retry`: a plan that begins where another one was; comments for it."""

import os
from collections.abc import Awaitable, Callable, Sequence

import click

from patchyard.casting import model_catalogue, require_actor, require_there
from patchyard.cli.asking import TerminalApprover
from patchyard.cli.opening import opened
from patchyard.cli.outcome import JSON, Outcome, carry_out, counted, format_option
from patchyard.cli.plan_act import plan_argument, stream_option
from patchyard.cli.progress import SpokenLines
from patchyard.cli.working import carried, waiting, watching
from patchyard.domain.errors import UsageError
from patchyard.engine.commenting import Remark, comment
from patchyard.engine.equipment import Equipment
from patchyard.engine.forking import fork, require_thinker, retry, with_model
from patchyard.engine.ledger import Ledger
from patchyard.engine.workflow import Workflow

Make = Callable[[Equipment, str], Awaitable[str]]  # the parent's id to the new plan's

model_option = click.option("--model", default="", help="Another model: PROVIDER:MODEL.")
start_option = click.option("--no-start", is_flag=True, help="Only make the plan.")


@click.command("fork", epilog="Example: agents plan fork @last --at 3 --model ollama:qwen3-coder")
@plan_argument
@click.option(
    "--at",
    default="",
    help="After how many steps of execute (0: none), or a checkpoint; the last one by default.",
)
@model_option
@start_option
@stream_option
@format_option
def fork_command(
    plan_id: str, at: str, model: str, output_format: str, *, no_start: bool, stream: bool
) -> None:
    """Make a plan with the files and the conversation that another one had, and carry it out."""

    async def make(equipment: Equipment, found: str) -> str:
        return await fork(equipment, found, at=at, model=model)

    _begin("plan fork", plan_id, make, output_format, model, starts=not no_start, stream=stream)


@click.command("retry", epilog="Example: agents plan retry @last 'keep the old name as an alias'")
@plan_argument
@click.argument("text", required=False, default="")
@model_option
@start_option
@stream_option
@format_option
def retry_command(
    plan_id: str, text: str, model: str, output_format: str, *, no_start: bool, stream: bool
) -> None:
    """Try again from the last checkpoint, told TEXT and the comments of `plan diff --comment`."""

    async def make(equipment: Equipment, found: str) -> str:
        return await retry(equipment, found, text, model=model)

    _begin("plan retry", plan_id, make, output_format, model, starts=not no_start, stream=stream)


def _begin(
    command: str,
    plan_id: str,
    make: Make,
    output_format: str,
    model: str,
    *,
    starts: bool,
    stream: bool,
) -> None:
    async def work() -> Outcome:
        async with opened(plan_id) as (equipment, found):
            state = (await Ledger.open(equipment.store, equipment.clock, found)).state
            require_thinker(state)
            if not model and state.known.model:
                require_there(model_catalogue(os.environ, state.known.models), state.known.model)
            require_actor(with_model(state.known, model), os.environ)
            child = await make(equipment, found)
            if not starts:
                return await waiting(equipment, child)
            is_json = output_format == JSON
            spoken = SpokenLines(opening=f"plan {child}, from plan {found}")
            with watching(child, is_json=is_json, stream=stream, spoken=spoken) as watched:
                approver = TerminalApprover(spoken, is_json=is_json)
                workflow = Workflow(equipment, watching=watched, approver=approver)
                return await carried(equipment, child, workflow.run(child))

    carry_out(command, output_format, work, stream=stream)


def keep_comments(plan_id: str, comments: Sequence[tuple[str, str]], output_format: str) -> None:
    """Journal comments on lines of a plan's change set, and leave the command."""

    async def work() -> Outcome:
        remarks = [_remark(where, text) for where, text in comments]
        async with opened(plan_id) as (equipment, found):
            await comment(equipment, found, remarks)
        said = f"{counted(len(remarks), 'comment')} kept: agents plan retry {found}"
        return Outcome(data={"plan_id": found, "comments": len(remarks)}, text=said)

    carry_out("plan diff", output_format, work)


def _remark(where: str, text: str) -> Remark:
    path, _, line = where.rpartition(":")
    if not path or not line.isdecimal() or int(line) < 1:
        raise UsageError(f"--comment {where!r} is not FILE:LINE", hint="such as src/app.py:12")
    return Remark(path=path, line=int(line), text=text)


__all__ = ["fork_command", "keep_comments", "retry_command"]
