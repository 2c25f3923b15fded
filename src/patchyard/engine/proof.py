"""Gates: commands in a fresh environment, on a tree that the engine put together itself."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from patchyard.contracts.environment import Toolbox
from patchyard.domain.changeset import Base
from patchyard.domain.closing_lines import MOST_READ, Closing, closing, missing_tests
from patchyard.domain.environment import AWAY
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.events import Noted
from patchyard.domain.gate_verdicts import Ground
from patchyard.domain.gates import GATE_TIMEOUT_S
from patchyard.domain.tooling import ToolResult, finite, result_from_wire
from patchyard.engine.answers import answer_in_time
from patchyard.engine.equipment import Equipment
from patchyard.engine.evidence import Watch
from patchyard.engine.grounds import ground, ground_name
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import Metered
from patchyard.engine.sites import general_kind
from patchyard.engine.visits import visit

T = TypeVar("T")

UNSEEN = (
    "which files the proof reads cannot be seen there: changed files are listed by their names"
    " and by what its commands name"
)
UNTOLD = (
    "the kernel has no room to tell of files and folders (see `/proc/sys/fs/inotify`): a copy that"
    " it makes within the tree, and a folder that is moved and put back, are not seen"
)

OUTPUT_CHARS = 20_000  # kept of a gate's output, its end
# What test runners say that leave with 0 although they ran no test: unittest before Python 3.12,
# node's own, and jest or vitest told to pass without tests.
RAN_NOTHING = re.compile(
    r"^(Ran 0 tests in \S+|(# |\u2139 )tests 0$|No tests? (files )?found, exiting with code 0)",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What one command said about one tree."""

    command: str
    exit_code: int | None  # None: it never ended by itself
    passed: bool
    output: str  # the end of both streams
    elapsed_s: float = 0.0
    closing: Closing = field(default_factory=Closing)  # what test runners say at its end
    is_cut: bool = False  # whether the middle of the output is not known


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One gate on the base and on the result."""

    command: str  # what it runs, or what stands for that
    exit_code: int | None
    passed: bool
    before: GateResult | None  # None: it was not run on the base
    output: str
    elapsed_s: float = 0.0

    @property
    def stops(self) -> bool:
        """Whether it keeps the plan from going on."""
        return not self.passed


class Prover:
    """Runs commands on fresh trees of one plan. Nothing of the actor is there."""

    def __init__(
        self,
        equipment: Equipment,
        ledger: Ledger,
        layers: Sequence[Path],
        *,
        watch: Watch | None = None,
        told: set[str] | None = None,
    ) -> None:
        """Without `watch` nothing is noted of what its commands read.

        `told` is what was said of how little can be seen, and is not said again.
        """
        self._equipment = equipment
        self._ledger = ledger
        self._layers = tuple(layers)
        self._watch = watch
        self._told: set[str] = set() if told is None else told

    def over(self, layers: Sequence[Path]) -> "Prover":
        """Return a prover of the same plan over other setup layers."""
        told = self._told
        return Prover(self._equipment, self._ledger, layers, watch=self._watch, told=told)

    def watching(self, watch: Watch) -> "Prover":
        """Return a prover that notes in `watch` which of its files are read and written."""
        told = self._told
        return Prover(self._equipment, self._ledger, self._layers, watch=watch, told=told)

    async def run(
        self, base: Base, commands: Sequence[str], *, tree: str | None = None
    ) -> Sequence[GateResult]:
        """Run each of `commands` on `base`, or on `tree` over it, in a fresh environment.

        Each in one of its own: a gate runs what the actor wrote, which could rewrite the next.
        A gate whose environment is lost is run once more; raises EnvironmentBroken when that is
        lost too, since neither says anything about the tree.
        """
        return [
            await self.alone(base, command, partial(_gate, self._new_id, command), tree=tree)
            for command in commands
        ]

    async def alone(
        self,
        base: Base,
        name: str,
        work: Callable[[Metered], Awaitable[T]],
        *,
        tree: str | None,
    ) -> T:
        """Do `work` in a fresh environment of its own; in another one where that is lost.

        Raises EnvironmentBroken when both are, naming what was done as `name`.
        """
        try:
            async with self.fresh(base, tree=tree, purpose="proof") as toolbox:
                return await work(toolbox)
        except EnvironmentBroken as lost:
            again = f"the environment of `{name}` was lost ({lost.message}); run once more"
            await self._ledger.record(Noted(text=again))
        try:
            async with self.fresh(base, tree=tree, purpose="proof") as toolbox:
                return await work(toolbox)
        except EnvironmentBroken as lost:
            twice = EnvironmentBroken(
                f"the environment of `{name}` was lost twice ({lost.message}), so that it"
                " neither passed nor failed",
                hint=f"look whether the machine runs out of memory, then"
                f" `agents plan resume {self._ledger.plan_id}` proves again; nothing is lost",
            )
            twice.retryable = False  # it was tried again
            raise twice from lost

    def _new_id(self) -> str:
        return self._equipment.clock.new_id()

    @asynccontextmanager
    async def fresh(self, base: Base, *, tree: str | None, purpose: str) -> AsyncIterator[Metered]:
        """Open an environment on a tree put together for it; both are gone after the block."""
        lent = ground(
            self._equipment.workspaces,
            base,
            name=ground_name(self._ledger.plan_id, "proof"),
            layers=self._layers,
            tree=tree,
            folders=self._ledger.state.known.include,
            sole=self._ledger.sole,
        )
        async with (
            lent as workspace,
            self._watched(workspace.root, is_result=tree is not None),  # its start reads, too
            visit(self._equipment, self._ledger, workspace, purpose=purpose) as toolbox,
        ):
            yield toolbox

    @asynccontextmanager
    async def _watched(self, root: str, *, is_result: bool) -> AsyncIterator[None]:
        """Note what is read and written below `root` meanwhile, where that can be seen."""
        watch, times = self._watch, self._equipment.file_times
        if watch is None:
            yield
            return
        if general_kind(self._ledger.state.known) in AWAY:
            if is_result and watch.paths:
                await self._tell(UNSEEN)
            yield
            return
        async with AsyncExitStack() as open_ones:
            kept = marks = None
            if watch.kept:
                kept = await times.note(root, watch.kept)
                open_ones.callback(kept.close)
            if watch.paths and is_result:
                marks = await times.mark(root, watch.paths)
                await self._tell(UNSEEN, when=marks is None)
            if marks is not None:
                open_ones.callback(marks.close)
            held = [each for each in (kept, marks) if each is not None]
            await self._tell(UNTOLD, when=not all(each.lookout.is_whole for each in held))
            yield
            watch.written |= await times.written_since(root, kept) if kept else set()
            watch.read |= await times.read_since(root, marks) if marks else set()

    async def _tell(self, text: str, *, when: bool = True) -> None:
        """Note, once in this life, what cannot be seen."""
        if when and text not in self._told:
            self._told.add(text)
            await self._ledger.record(Noted(text=text))


async def _gate(new_id: Callable[[], str], command: str, toolbox: Toolbox) -> GateResult:
    result = await asked(toolbox, new_id(), "execute_command", command=command)
    return await asyncio.to_thread(gate_result, command, result)  # a long output takes its time


async def asked(
    toolbox: Toolbox, call_id: str, op: str, *, timeout_s: float = GATE_TIMEOUT_S, **args: object
) -> ToolResult:
    """Ask a toolbox for one thing and return its settled answer."""
    whole = {**args, "timeout_s": timeout_s}
    payload = await answer_in_time(toolbox.call(call_id, op, whole), whole)
    return result_from_wire(call_id, payload)


def gate_result(command: str, result: ToolResult) -> GateResult:
    """Return what a settled command says as a gate. Only exit code 0 passes."""
    code = result.data.get("exit_code")
    exit_code = code if type(code) is int else None  # false is no 0
    streams = [str(result.data.get(name, "")) for name in ("stdout", "stderr")]
    output = "\n".join(text.rstrip("\n") for text in streams if text.strip())
    if exit_code is None or "limit" in result.data:
        output = f"{output}\n{result.message}".strip()
    is_empty = exit_code == 0 and RAN_NOTHING.search(output) is not None
    if is_empty:
        output = f"{output}\n(no test ran: that proves nothing)"
    return GateResult(
        command=command,
        exit_code=exit_code,
        passed=exit_code == 0 and result.success and not is_empty,
        output=output[-OUTPUT_CHARS:],
        elapsed_s=finite(result.data.get("elapsed_s"), 0.0),
        closing=closing(output),
        is_cut=bool(result.data.get("truncated")) or len(output) > MOST_READ,
    )


def compare(
    before: Sequence[GateResult], after: Sequence[GateResult], ground: Ground
) -> Sequence[Compared]:
    """Put the runs on the base beside those on the result, by command."""
    known = {result.command: result for result in before}
    return [_compared(known.get(result.command), result, ground) for result in after]


def _compared(before: GateResult | None, after: GateResult, ground: Ground) -> Compared:
    lack = lacking(before, after, ground)
    return Compared(
        command=after.command,
        exit_code=after.exit_code,
        passed=after.passed and not lack,
        before=_shortened(before),
        output=f"{after.output}\n({lack}: that proves nothing)" if lack else after.output,
        elapsed_s=after.elapsed_s,
    )


def lacking(before: GateResult | None, after: GateResult, ground: Ground) -> str:
    """Return why a command that says the result is good proves nothing, by what runners say.

    Empty where nothing is against it, nothing is known of it, or the user waived it.
    """
    if before is None or not after.passed or ground.is_waived:
        return ""
    return missing_tests(
        before.closing,
        after.closing,
        has_passed=before.exit_code == 0,
        is_touched=ground.touches_tests,
        is_cut=before.is_cut or after.is_cut,
    )


def _shortened(result: GateResult | None) -> GateResult | None:
    return (
        None if result is None else replace(result, output=result.output[-4000:], closing=Closing())
    )


__all__ = [
    "OUTPUT_CHARS",
    "RAN_NOTHING",
    "UNTOLD",
    "Compared",
    "GateResult",
    "Prover",
    "asked",
    "compare",
    "gate_result",
    "lacking",
]
