"""The engine as an MCP server: tools that make plans, follow them, read what they changed.

Who asks is another program's model: it says what is to be done, never where, with what reach or
at what cost; and it hands nothing over unless whoever started the server allowed that.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from patchyard.assembly import open_equipment
from patchyard.cli.event_words import event_words
from patchyard.cli.patch_output import page_of
from patchyard.cli.working import made_plan
from patchyard.contracts.handover import Receipt
from patchyard.domain.errors import PatchyardError, StateRefusal, UnknownName, UsageError
from patchyard.domain.plan import MANUAL, State
from patchyard.engine.directing import Directing
from patchyard.engine.equipment import Equipment
from patchyard.engine.finding import find_plan, list_plans
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger
from patchyard.engine.lifecycle import PlanLifecycleService
from patchyard.engine.report import plan_data
from patchyard.engine.workflow import Workflow
from patchyard.intake import Asked

AT_ONCE = 4  # plans of one server
TASK_CHARS = 200_000
PAGE_CHARS = 60_000  # of a diff
EVENT_CHARS = 1_000  # of one event
EVENTS = 100  # of one page
LISTED = 50  # plans
ROWS = 200  # of one list in an answer: a client's model reads all of it
WAIT_S = 50.0  # for a change; clients give up after a minute
DESTINATIONS = ("worktree", "branch", "merge")
TOLD = (
    *("plan_id", "phase", "state", "reason", "task", "summary", "changed", "validation"),
    *("changeset", "findings", "applied", "cost", "waiting", "approval", "error_message"),
)
"""What is told of a plan, of all that `agents plan status --format json` says."""

HANDED = ("to", "is_done", "touched", "commit", "reference", "journal_head")
"""What is told of a hand-over: not how it is taken back."""

Offered = Callable[..., Awaitable[dict[str, Any]]]


class Offer:
    """The tools over one repository. Plans that it began go on while it is open."""

    def __init__(self, asked: Asked, repository: str, environ: Mapping[str, str]) -> None:
        """`asked` says what every plan begins with; its task is each caller's."""
        self._asked = replace(asked, apply_to="none")  # what applies is a call of its own
        self._repository = repository
        self._environ = environ
        self._running: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, str] = {}  # why plans stopped, where no event says so

    def tools(self, *, may_apply: bool) -> Mapping[str, Offered]:
        """Return the tools by name."""
        found: list[Offered] = [self.make_plan, self.list_plans, self.plan_status]
        found += [self.plan_events, self.plan_diff, self.cancel_plan]
        if may_apply:
            found += [self.approve_plan, self.reject_plan, self.apply_plan, self.resume_plan]
        return {str(getattr(tool, "__name__", "")): tool for tool in found}

    async def close(self) -> None:
        """Stop what runs: `agents plan resume` carries it on."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def make_plan(self, task: str, validate: list[str] | None = None) -> dict[str, Any]:
        """Let an agent carry out a task on this repository, isolated, and prove it; begins at once.

        `task` says what to do. `validate`: shell commands that must pass on the result; the
        repository's own tests where none is said. Nothing is written to the repository.
        """
        if not task.strip():
            raise UsageError("`task` is empty", hint="say what to do")
        if len(task) > TASK_CHARS:
            raise UsageError(f"a task is a text of {TASK_CHARS:,} characters at most")
        if sum(not each.done() for each in self._running.values()) >= AT_ONCE:
            raise StateRefusal(f"{AT_ONCE} plans run already", hint="wait for one, or cancel one")
        asked = replace(self._asked, task=task, validate=tuple(validate or ()))
        async with self._engine() as equipment:
            plan_id, spec, _ = await made_plan(equipment, asked, self._environ)
        if spec.automation_profile != MANUAL:
            self._begin(plan_id)
        return await self.plan_status(plan_id)

    async def list_plans(self) -> dict[str, Any]:
        """List the newest plans of this repository."""
        async with self._engine() as equipment:
            rows = await list_plans(equipment.store.summaries, repository=self._repository)
        kept = ("plan_id", "task", "phase", "state", "created")
        return {"plans": [{key: row[key] for key in kept} for row in rows[:LISTED]]}

    async def plan_status(self, plan_id: str = "@last", wait_s: float = 0) -> dict[str, Any]:
        """Say how a plan stands; with `wait_s` (50 at most) wait so long for it to stop."""
        async with self._ledger(plan_id) as (_, ledger):
            found = ledger.plan_id
        running = self._running.get(found)
        if running is not None and not running.done() and wait_s > 0:
            await asyncio.wait([running], timeout=min(wait_s, WAIT_S))
        async with self._ledger(found) as (_, ledger):
            data = await plan_data(ledger)
        told = first_rows({key: data[key] for key in TOLD})
        is_running = running is not None and not running.done()
        return {**told, "is_running": is_running, "stopped_by": self._ended.get(found, "")}

    async def plan_events(self, plan_id: str = "@last", after: int = 0) -> dict[str, Any]:
        """Follow a plan: what happened in it, in order, from the event number `after` on."""
        async with self._ledger(plan_id) as (_, ledger):
            events = await ledger.events()
        rows: list[dict[str, Any]] = []
        for number, _, event in events:
            if number > after and len(rows) < EVENTS:
                said = event_words(event, EVENT_CHARS)
                rows.append({"number": number, "event": type(event).__name__, "says": said})
        return {"events": rows, "next_after": rows[-1]["number"] if rows else after}

    async def plan_diff(self, plan_id: str = "@last", offset: int = 0) -> dict[str, Any]:
        """Read what a plan changed, as a patch, in pages of 60,000 characters."""
        async with self._ledger(plan_id) as (equipment, ledger):
            base, changeset = await Handing(equipment, ledger).changeset()
            start = max(0, offset)
            end = start + PAGE_CHARS
            page, has_more = await page_of(equipment.trees.diff(base, changeset), start, end)
        following = end if has_more else None
        return {"changeset_id": changeset.id, "patch": page, "next_offset": following}

    async def cancel_plan(self, plan_id: str) -> dict[str, Any]:
        """Stop a plan and all that runs for it."""
        async with self._ledger(plan_id) as (equipment, ledger):
            await Workflow(equipment).cancel(ledger.plan_id)
        return await self.plan_status(ledger.plan_id)

    async def approve_plan(self, plan_id: str) -> dict[str, Any]:
        """Say yes to what a plan waits for, and let it go on."""
        async with self._ledger(plan_id) as (equipment, ledger):
            await Directing(equipment).approve(ledger.plan_id)
        self._begin(ledger.plan_id)
        return await self.plan_status(ledger.plan_id)

    async def reject_plan(self, plan_id: str, reason: str = "") -> dict[str, Any]:
        """Say no to what a plan waits for."""
        async with self._ledger(plan_id) as (equipment, ledger):
            await Directing(equipment).reject(ledger.plan_id, reason)
        return await self.plan_status(ledger.plan_id)

    async def resume_plan(self, plan_id: str) -> dict[str, Any]:
        """Let a plan that stopped go on from where it was."""
        async with self._ledger(plan_id) as (_, ledger):
            state = ledger.state.state
        if state in {State.APPLIED, State.CANCELLED}:
            raise StateRefusal(f"the plan is {state}", hint="make another one")
        self._begin(ledger.plan_id)
        return await self.plan_status(ledger.plan_id)

    async def apply_plan(self, plan_id: str, to: str = "worktree") -> dict[str, Any]:
        """Hand a plan's change set over: to the worktree, as a branch or a merge.

        Protected paths are refused; a person may let them pass.
        """
        if to not in DESTINATIONS:
            raise UnknownName.among("destination", to, DESTINATIONS)
        async with (
            self._ledger(plan_id) as (equipment, seen),
            PlanLifecycleService(equipment).owned(seen.plan_id) as ledger,
        ):
            receipt = await Handing(equipment, ledger).apply(to)
        return {"plan_id": seen.plan_id, "receipt": _handed(receipt)}

    @contextlib.asynccontextmanager
    async def _engine(self) -> AsyncIterator[Equipment]:
        async with open_equipment(self._environ) as equipment:
            yield equipment

    @contextlib.asynccontextmanager
    async def _ledger(self, typed: str) -> AsyncIterator[tuple[Equipment, Ledger]]:
        """Yield the engine and a plan of this repository. Raises UnknownName for another's."""
        async with self._engine() as equipment:
            summaries = equipment.store.summaries
            plan_id = await find_plan(summaries, typed, repository=self._repository)
            ledger = await Ledger.open(equipment.store, equipment.clock, plan_id)
            if ledger.state.known.repository != self._repository:
                raise UnknownName(f"there is no plan {typed} of this repository")
            yield equipment, ledger

    def _begin(self, plan_id: str) -> None:
        present = self._running.get(plan_id)
        if present is None or present.done():
            self._ended.pop(plan_id, None)
            self._running[plan_id] = asyncio.create_task(self._carried(plan_id))

    async def _carried(self, plan_id: str) -> None:
        """Carry a plan on; why it stopped is told with its state."""
        try:
            async with self._engine() as equipment:
                await Workflow(equipment).resume(plan_id)
        except PatchyardError as error:
            self._ended[plan_id] = said(error)


def first_rows(value: Any) -> Any:
    """Return JSON values with at most ROWS of each list in a mapping.

    How many were left off `NAME` is `NAME_left_off` beside it. Of a view no other row is made.
    """
    if not isinstance(value, Mapping):
        return value
    told: dict[str, Any] = {}
    for name, each in value.items():
        if isinstance(each, str) or not isinstance(each, Sequence):
            told[name] = first_rows(each)
            continue
        told[name] = [first_rows(row) for row in each[:ROWS]]
        if len(each) > ROWS:
            told[f"{name}_left_off"] = len(each) - ROWS
    return told


def _handed(receipt: Receipt | None) -> dict[str, Any] | None:
    if receipt is None:
        return None
    told: dict[str, Any] = first_rows({name: getattr(receipt, name) for name in HANDED})
    return told


def said(error: PatchyardError) -> str:
    """Return an error and its cure as one text."""
    return f"{error.message}; {error.hint}" if error.hint else error.message


def translating(tool: Offered, failure: Callable[[str], Exception]) -> Offered:
    """Return `tool` with our errors as those of the protocol's library; its signature stays."""

    @functools.wraps(tool)
    async def translated(**arguments: Any) -> dict[str, Any]:
        try:
            return await tool(**arguments)
        except PatchyardError as error:
            raise failure(said(error)) from error

    return translated


__all__ = [
    "AT_ONCE",
    "DESTINATIONS",
    "HANDED",
    "PAGE_CHARS",
    "ROWS",
    "TOLD",
    "Offer",
    "Offered",
    "first_rows",
    "said",
    "translating",
]
