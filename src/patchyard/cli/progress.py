"""Progress while it happens, for people: one line a step (programs: `json_lines.py`)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from patchyard.cli.outcome import counted, heard, is_coloured, paint, visible
from patchyard.cli.screen_rows import assessed_line
from patchyard.domain.assessing import TaskAssessed
from patchyard.domain.checkpoint import CallRepeated, CallUndone, RolledBack
from patchyard.domain.colleagues import ColleagueAsked, ColleagueHeard
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.events import (
    BaseRecorded,
    ChangeSetCaptured,
    Event,
    InvariantChecked,
    Moved,
    Noted,
    Resumed,
    SetupFinished,
    StrategyRecorded,
    ToolCallRequested,
    ToolCallSettled,
    TurnRequested,
    Validated,
)
from patchyard.domain.failover import ModelSwitched
from patchyard.domain.inquiries import RoleAnswered, RoleAsked
from patchyard.domain.limit_hits import LIMIT
from patchyard.domain.plan import Phase, State
from patchyard.domain.removal import RemovalProven
from patchyard.domain.review import Reviewed
from patchyard.domain.review_coverage import CoverageMeasured, coverage_words
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.sampling import ModelLent
from patchyard.domain.steering import Approved, Guided, Paused, Rejected, RetryPlanned, Reverted
from patchyard.domain.traffic import NetworkUsed
from patchyard.engine.capture import PROOF_FAILED

Line = Callable[[Any], str | None]

ABOUT = ("command", "pattern", "query", "path")  # the argument that a call's line shows
PLACES_SHOWN = 3  # of what one call tried to reach
CALL_SHOWN = 90  # of what a call is about
NOTE_SHOWN = 160  # of why something goes back to the actor
PLAN_SHOWN = 110  # characters of a strategy's first line
ERROR_SHOWN = 2000  # of what is said of an error, which begins with it and ends with the cure
OUTPUT_LINE = 4000  # characters of a line that does not end; then it is shown in pieces


class SpokenLines:
    """Prints what people want to see of events, on standard error; the base comes first."""

    def __init__(
        self,
        *,
        opening: str = "",
        kind: ExecutionEnvironment | None = None,
        running: Sequence[str] = (),
    ) -> None:
        self.write: Callable[[str], None] = _to_stderr
        self.hush: Callable[[], AbstractContextManager[None]] = nullcontext  # no moving line in it
        self._held = [opening] if opening else []
        self._kind = kind
        self._running = list(running)  # tools that an earlier life of the engine left at work
        self._told: dict[str, str] = {}  # of a model, by the word that it began with
        self._has_passed = False  # the last proof, so that a check is what failed
        self._begun = {"stdout": "", "stderr": ""}  # lines of a command that have not ended

    def __call__(self, event: Event) -> None:
        """Print the line of `event`, if it has one."""
        self._end_output()
        line = _LINES.get(type(event))
        text = line(event) if line else None
        if isinstance(event, Resumed) and self._running:
            text = f"  {_mark('taken up again')} {visible(', '.join(self._running))}"
            self._running.clear()
        if isinstance(event, Validated):
            self._has_passed = event.passed
        elif isinstance(event, InvariantChecked):  # gates come after; they say more
            self._has_passed = not event.passed or self._has_passed
        elif isinstance(event, ChangeSetCaptured):
            self._has_passed = False
        elif text and _is_of_proof(event) and self._has_passed:
            text = f"  {_mark('check')} an invariant does not hold: back to the actor"
        if not text:
            return
        if isinstance(event, BaseRecorded):
            self._held.insert(0, text + self._confinement())
        else:
            self._held.append(text)
        if not _is_beginning(event):
            self.flush()

    def tell(self, mark: str, words: str) -> None:
        """Say once of a model what `mark` begins: what is waited for, which was chosen."""
        if words != self._told.get(mark):
            self._told[mark] = words
            self._held.append(f"{_mark(mark)} {visible(words)}")
            self.flush()

    def output(self, stream: str, text: str) -> None:
        """Print the whole lines of what a running command prints; the rest when it ends."""
        *lines, rest = (self._begun.get(stream, "") + text).split("\n")
        if len(rest) > OUTPUT_LINE:
            lines, rest = [*lines, rest], ""
        self._begun[stream] = rest
        for line in lines:
            self.write(_output_line(line))

    def _end_output(self) -> None:
        for stream, rest in self._begun.items():
            if rest:
                self.write(_output_line(rest))
            self._begun[stream] = ""

    def flush(self) -> None:
        """Print what was held back for the base."""
        for text in self._held:
            self.write(text)
        self._held.clear()

    def _confinement(self) -> str:
        """Say plainly what runs without walls (F2.16)."""
        if self._kind not in UNCONFINED:
            return ""
        return f" {paint(f'in {self._kind}: not confined', 'red', to_stderr=True)}"


def _to_stderr(text: str) -> None:
    with heard(sys.stderr):
        click.echo(text, err=True)


def _output_line(line: str) -> str:
    text = f"    │ {visible(line.removesuffix(chr(13)))}"
    return click.style(text, dim=True) if is_coloured(to_stderr=True) else text


def _is_beginning(event: Event) -> bool:
    """Whether the base may be said next."""
    return isinstance(event, Moved) and (event.phase, event.state) in {
        (Phase.STRATEGIZE, State.QUEUED),
        (Phase.STRATEGIZE, State.PROCESSING),
    }


def _base(event: BaseRecorded) -> str:
    return f"{_mark('base')} {visible(event.base.shown)}"


def _moved(event: Moved) -> str | None:
    if event.state == State.QUEUED:
        return None
    colour = {"complete": "green", "applied": "green", "processing": "blue"}.get(event.state, "red")
    says_more = event.reason and event.reason != str(event.state)
    reason = f": {visible(event.reason)}" if says_more else ""
    state = paint(str(event.state), colour, to_stderr=True)
    return f"{_mark(str(event.phase))} {state}{reason}"


def _called(event: ToolCallRequested) -> str:
    arguments = event.arguments.value if isinstance(event.arguments.value, Mapping) else {}
    named = [arguments[name] for name in ABOUT if name in arguments]
    about = next((str(value) for value in (*named, *arguments.values())), "")
    first = about.splitlines()[0] if about else ""
    where = f" in {event.site}" if event.site else ""
    name = _cut(" ".join(event.name.split()), CALL_SHOWN)
    return f"  {paint('→', 'blue', to_stderr=True)} {name} {_cut(first, CALL_SHOWN)}{where}"


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text as people see it, with a sign where more follows."""
    shown = visible(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _settled(event: ToolCallSettled) -> str | None:
    if event.success and event.limit is None:
        return None
    word = LIMIT if event.success else event.error or "failed"
    return f"    {paint(visible(word), 'yellow', to_stderr=True)} {_whole(event.message)}"


def _whole(text: str) -> str:
    """Return the first line of what is said of an error: the cure at its end is never cut off."""
    first = visible(text.splitlines()[0] if text else "")
    half = ERROR_SHOWN // 2
    return first if len(first) <= ERROR_SHOWN else f"{first[:half]} … {first[-half:]}"


def _reached(event: NetworkUsed) -> str:
    places = [
        f"{visible(each.place) or 'others'} {counted(each.attempts, 'request')}"
        + (paint(f" ({each.refused} not)", "yellow", to_stderr=True) if each.refused else "")
        for each in event.traffic[:PLACES_SHOWN]
    ]
    more = len(event.traffic) - len(places)
    further = f" and {counted(more, 'further place')}" if more else ""
    return f"    {_mark('network')} {', '.join(places)}{further}"


def _asked(event: TurnRequested) -> str | None:
    if not event.note:
        return None
    if event.note.startswith(PROOF_FAILED):
        return f"  {_mark('proof')} failed: back to the actor"
    return f"  {_mark('back')} to the actor: {_cut(event.note.splitlines()[0], NOTE_SHOWN)}"


def _is_of_proof(event: Event) -> bool:
    return isinstance(event, TurnRequested) and event.note.startswith(PROOF_FAILED)


def _noticed(event: RemovalProven) -> str:
    said = f"fails, as it should: {', '.join(event.noticed)}" if event.noticed else "passes too"
    return f"{_mark('proof')} without {_cut(event.subject, PLAN_SHOWN)}: {_whole(said)}"


def _colleague(event: ColleagueAsked) -> str:
    return f"{_mark(event.role)} looks at the result, in plan {event.colleague_id}"


def _heard(event: ColleagueHeard) -> str:
    said = event.verdict.replace("_", " ") or f"added {', '.join(event.added) or 'nothing'}"
    return f"{_mark(event.role)} {_whole(said)}"


def _asked_role(event: RoleAsked) -> str:
    return f"{_mark(event.role)} is asked, in plan {event.colleague_id}"


def _answered(event: RoleAnswered) -> str:
    said = f"gave no answer ({visible(event.error)})" if event.error else "answers"
    return f"{_mark(event.role)} {said}"


def _reviewed(event: Reviewed) -> str:
    verdict = str(event.verdict).replace("_", " ")
    return f"{_mark('review')} {verdict}, {counted(event.findings, 'finding')}"


def _covered(event: CoverageMeasured) -> str:
    return f"{_mark('coverage')} {_whole(coverage_words(event))}"


def _set_up(event: SetupFinished) -> str:
    how = (
        "layer found"
        if event.is_cached
        else f"{counted(len(event.commands), 'command')}, layer kept"
    )
    return f"{_mark('setup')} {how}"


def _strategy(event: StrategyRecorded) -> str:
    first = event.summary.splitlines()[0] if event.summary else ""
    return f"  {_mark('plan')} {_cut(first, PLAN_SHOWN)}"


def _assessed(event: TaskAssessed) -> str | None:
    return f"  {_mark('task')} {said}" if (said := assessed_line(event)) else None


def _captured(event: ChangeSetCaptured) -> str:
    return f"{_mark('changes')} {counted(event.files, 'file')}, +{event.added} -{event.removed}"


def _validated(event: Validated) -> str:
    verdict = ("passed", "green") if event.passed else ("failed", "red")
    return f"{_mark('proof')} round {event.round}: {paint(*verdict, to_stderr=True)}"


def _noted(event: Noted) -> str:
    return f"{_mark('note')} {visible(event.text)}"


def _guided(event: Guided) -> str:
    return f"  {_mark('guidance')} {_cut(event.text.splitlines()[0], PLAN_SHOWN)}"


def _paused(_event: Paused) -> str:
    return f"  {_mark('paused')} until `agents plan resume`"


def _retry(event: RetryPlanned) -> str:
    said, of = _whole(event.message), f" of {event.most}" if event.most else ""
    return f"  {_mark('retry')} {event.number}{of} in {event.wait_s:g} s: {said}"


def _lent(event: ModelLent) -> str:
    return f"{_mark('model')} answers MCP server {visible(event.server)}"


def _switched(event: ModelSwitched) -> str:
    why = f": {_whole(event.message)}" if event.message else ""
    return f"  {_mark('model')} {visible(event.to_model)} goes on{why}"


def _reverted(event: Reverted) -> str:
    why = _whole(event.reason or event.findings or event.by)
    return f"{_mark('back')} to {event.to_phase} ({event.by}): {why}"


def _approved(event: Approved) -> str:
    return f"  {_mark('approved')} by {visible(event.by)}"


def _rejected(event: Rejected) -> str:
    said = f": {_cut(event.reason, PLAN_SHOWN)}" if event.reason else ""
    return f"  {_mark('rejected')} by {visible(event.by)}{said}"


def _undone(event: CallUndone) -> str:
    return f"    {paint('undone', 'yellow', to_stderr=True)} {_whole(event.reason)}"


def _repeated(event: CallRepeated) -> str:
    return f"    {paint('again', 'blue', to_stderr=True)} the call runs once more ({event.number})"


def _rolled_back(event: RolledBack) -> str:
    why = f": {visible(event.reason)}" if event.reason else ""
    return f"{_mark('rollback')} to {event.checkpoint_id}{why}"


def _mark(word: str) -> str:
    return paint(f"{visible(word)}:", "cyan", to_stderr=True)


_LINES: Mapping[type[Event], Line] = {
    BaseRecorded: _base,
    Moved: _moved,
    ToolCallRequested: _called,
    ToolCallSettled: _settled,
    TurnRequested: _asked,
    NetworkUsed: _reached,
    SetupFinished: _set_up,
    StrategyRecorded: _strategy,
    TaskAssessed: _assessed,
    ChangeSetCaptured: _captured,
    Validated: _validated,
    Noted: _noted,
    CallUndone: _undone,
    CallRepeated: _repeated,
    RolledBack: _rolled_back,
    Guided: _guided,
    Paused: _paused,
    RetryPlanned: _retry,
    ModelLent: _lent,
    ModelSwitched: _switched,
    ColleagueAsked: _colleague,
    ColleagueHeard: _heard,
    RoleAsked: _asked_role,
    RoleAnswered: _answered,
    RemovalProven: _noticed,
    Reverted: _reverted,
    Reviewed: _reviewed,
    CoverageMeasured: _covered,
    Approved: _approved,
    Rejected: _rejected,
}

__all__ = [
    "ABOUT",
    "CALL_SHOWN",
    "ERROR_SHOWN",
    "NOTE_SHOWN",
    "OUTPUT_LINE",
    "PLACES_SHOWN",
    "PLAN_SHOWN",
    "SpokenLines",
]
