"""Commands that carry a plan on: progress while it happens, one screen at the end."""

import asyncio
import sys
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import click

from patchyard.assembly import open_equipment
from patchyard.cli.asking import TerminalApprover
from patchyard.cli.json_lines import JsonLines
from patchyard.cli.outcome import (
    Interrupted,
    Outcome,
    counted,
    heard,
    is_open,
    paint,
    say_warnings,
    visible,
)
from patchyard.cli.progress import SpokenLines
from patchyard.cli.screen import plan_screen
from patchyard.clients.allocator import keep_one_heap
from patchyard.domain.budget import PlanLimits
from patchyard.domain.changeset import Base
from patchyard.domain.errors import PatchyardError, ReviewRejected, WorkFailed
from patchyard.domain.events import BaseRecorded, Event, PlanCreated
from patchyard.domain.plan import MANUAL, PlanSpec, State
from patchyard.domain.remotes import is_remote, remote_of
from patchyard.domain.review import Verdict
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.sites import weakest_walls
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked, Intake
from patchyard.making import considered, made
from patchyard.upkeep import tidied

WAITS = "waits for"  # begins what is said of a model
CHOSEN = "model"


@contextmanager
def watching(
    plan_id: str,
    *,
    is_json: bool,
    stream: bool,
    spoken: SpokenLines | None = None,
    limits: PlanLimits | None = None,
) -> Iterator[Watching]:
    """Yield who watches: JSON Lines, spoken lines (with a moving one on a terminal), or nobody.

    What commands print is among them with `stream`.
    """
    lines = spoken or SpokenLines()
    on_output = lines.output if stream else None
    on_terms = partial(lines.tell, CHOSEN)
    if is_json:  # whoever gives up waiting for the object still has the plan's id
        lines.flush()
    if is_json and stream:
        told = JsonLines(plan_id=plan_id)
        yield Watching(on_event=told, on_output=told.output)
    elif is_json:
        yield Watching()
    elif not (is_open(sys.stderr) and sys.stderr.isatty()):
        on_wait = partial(lines.tell, WAITS)
        yield Watching(on_event=lines, on_output=on_output, on_wait=on_wait, on_terms=on_terms)
    else:
        from patchyard.cli.live import Pulse, moving  # noqa: PLC0415 - rich, for terminals alone

        pulse = Pulse(limits=limits or PlanLimits())

        def both(event: Event) -> None:
            pulse.take(event)
            lines(event)

        with moving(pulse, lines):
            yield Watching(
                on_event=both,
                on_output=on_output,
                on_text=pulse.hear,
                on_wait=pulse.wait,
                on_terms=on_terms,
            )


async def run_plan(
    asked: Asked, environ: Mapping[str, str], *, is_json: bool, stream: bool
) -> Outcome:
    """Make the plan that `asked` describes and carry it out."""
    keep_one_heap()
    async with open_equipment(environ) as equipment:
        plan_id, spec, base = await made_plan(equipment, asked, environ)
        if spec.automation_profile == MANUAL:
            return await waiting(equipment, plan_id)
        opening = f"plan {plan_id} in {visible(spec.repository)}"
        spoken = SpokenLines(opening=opening, kind=weakest_walls(spec))
        seen = watching(plan_id, is_json=is_json, stream=stream, spoken=spoken, limits=spec.limits)
        with seen as watched:
            announce(watched, spec, base)
            approver = TerminalApprover(spoken, is_json=is_json)
            work = Workflow(equipment, watching=watched, approver=approver).run(plan_id)
            async with tidied(equipment, environ, told=lambda text: say_warnings([text])):
                return await carried(equipment, plan_id, work)


async def made_plan(
    equipment: Equipment, asked: Asked, environ: Mapping[str, str]
) -> tuple[str, PlanSpec, Base]:
    """Make the plan that `asked` describes; say what was found and what was passed over.

    What cannot become a plan (no repository, an unknown name) is refused before there is one.
    """
    if is_remote(asked.repository):
        say_notes([f"clones or fetches {remote_of(asked.repository).url}"])
    intake = await considered(equipment, asked, environ)
    tell(intake)
    plan_id, base = await made(equipment, intake.spec)
    return plan_id, intake.spec, base


async def waiting(equipment: Equipment, plan_id: str) -> Outcome:
    """Return the screen of a plan that was only made: each step is for somebody to begin."""
    ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
    data = await plan_data(ledger)
    return Outcome(data=data, text=plan_screen(data))


def announce(watched: Watching, spec: PlanSpec, base: Base) -> None:
    """Say that there is a plan and what it stands on: recorded before anybody watched."""
    if watched.on_event is not None:
        watched.on_event(PlanCreated(spec=spec))
        watched.on_event(BaseRecorded(base=base))


def tell(intake: Intake) -> None:
    """Say on standard error what a person should know before the plan begins."""
    with heard(sys.stderr):
        say_warnings(intake.warnings)
    say_notes(intake.notes)


def say_notes(texts: Iterable[str]) -> None:
    """Say on standard error what is no warning."""
    with heard(sys.stderr):
        for text in texts:
            click.echo(f"{paint('note:', 'cyan', to_stderr=True)} {visible(text)}", err=True)


async def carried(equipment: Equipment, plan_id: str, work: Awaitable[PlanState]) -> Outcome:
    """Await `work` and return the plan's data and screen, whatever it came to."""
    error: PatchyardError | None = None
    try:
        await work
    except PatchyardError as failure:
        error = failure
    except asyncio.CancelledError:
        error = Interrupted(f"interrupted; `agents plan resume {plan_id}` carries it on")
    ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
    data = await plan_data(ledger)
    is_done = ledger.state.state == State.APPLIED and ledger.state.intended is None
    if isinstance(error, Interrupted) and is_done:
        error = None  # the interrupt came after it
    if error is None and ledger.state.known.requires_changes and not data["changed"]:
        error = WorkFailed("nothing was changed", hint="--require-changes asked for a change")
    if error is None and data["review"] and data["review"]["verdict"] == Verdict.REQUEST_CHANGES:
        count = counted(len(data["review"]["findings"]), "finding")
        error = ReviewRejected(f"the review asks for changes: {count}")
    if isinstance(error, Interrupted):
        return Outcome(data=data, error=error)
    said = data["error_message"]
    is_last = error is not None and said == error.message[: len(said or "")]  # said at the end
    shown = {**data, "error_message": None} if is_last else data
    return Outcome(data=data, text=plan_screen(shown), error=error)


__all__ = [
    "CHOSEN",
    "WAITS",
    "announce",
    "carried",
    "made_plan",
    "run_plan",
    "say_notes",
    "tell",
    "waiting",
    "watching",
]
