"""Gates that compare: run on the base and on the result, so that only what is new counts."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchyard.domain.anywhere import anywhere
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.events import Noted
from patchyard.domain.gate_findings import (
    MESSAGE_CHARS,
    GateFinding,
    NothingToGoBy,
    Reading,
    with_texts,
)
from patchyard.domain.gate_verdicts import Ground, Run, Status, Verdict, judged
from patchyard.domain.gates import MEASURES, Gate, Reads, Severity
from patchyard.domain.patch_lines import Lines
from patchyard.engine.comparing import Change, unsurveyed
from patchyard.engine.equipment import Equipment
from patchyard.engine.gate_runs import GateRun, GateRunner
from patchyard.engine.holding import Held, hold
from patchyard.engine.ledger import Ledger
from patchyard.engine.proof import Compared, GateResult, Prover, lacking

MOST_KEPT = 200  # findings of one gate that are journalled; all are counted
BEFORE_CHARS = 4000
UNREAD = "the change has more lines than it could look at in its time (`timeout`)"
OWN_CURE = "install its tool (`setup`), or mend its `command`, `parser` or `mapping`"

_Sides = tuple[Mapping[str, Lines], Mapping[str, Lines]]  # lines by path, before and after


@dataclass(frozen=True, kw_only=True)
class Judged(Compared):
    """One gate's verdict, as it is journalled."""

    name: str = ""
    parser: str = ""
    required: bool = True
    scope: str = ""
    status: Status = Status.PASSED
    findings: tuple[Mapping[str, Any], ...] = ()
    new: int = 0  # findings that count, also those that are not kept
    old: int = 0
    gone: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""
    cure: str = ""
    is_beyond: bool = False  # it says nothing on the base either: no work can mend that

    @property
    def stops(self) -> bool:
        """Whether it keeps the plan from going on."""
        return self.required and not self.passed


@dataclass(frozen=True, kw_only=True)
class Gated:
    """What all gates of a round came to."""

    rows: tuple[Judged, ...] = ()
    held: tuple[str, ...] = ()  # paths that the proof took from the base


class Gating:
    """Runs the gates of one plan; what the base came to is kept for its rounds."""

    def __init__(self, equipment: Equipment, ledger: Ledger, prover: Prover) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._prover = prover  # of the base
        self._runner = GateRunner(equipment.clock.new_id, equipment.reader)
        self._before: dict[str, GateRun] = {}  # by gate

    async def judge(
        self, base: Base, changeset: ChangeSet, prover: Prover, change: Change
    ) -> Gated:
        """Return the verdict of each gate on the result. Raises EnvironmentBroken."""
        spec = self._ledger.state.known
        if not spec.gates:
            return Gated()
        trees = self._equipment.trees
        held = await hold(trees, base, changeset, spec.gates, allowed=spec.allow_paths)
        if held.paths:
            said = ", ".join(held.paths)[:1000]
            await self._ledger.record(Noted(text=f"the proof takes from the base: {said}"))
        rows = []
        for gate in spec.gates:
            judging = self._scanned if gate.is_scan else self._run
            case = _Case(
                gate=gate, base=base, changeset=changeset, prover=prover, change=change, held=held
            )
            rows.append(await judging(case))
        return Gated(rows=tuple(rows), held=held.paths)

    async def _run(self, case: "_Case") -> Judged:
        gate = case.gate
        before = self._before.get(gate.name)
        if before is None:
            before = await self._runner.run(self._prover, case.base, gate, tree=None)
            self._before[gate.name] = before
        if case.changeset.is_empty:
            return await self._row(case, before, before, None)
        after = await self._runner.run(case.prover, case.base, gate, tree=case.held.tree)
        if gate.reads in MEASURES:
            return await self._measured(case, before, after)
        held = None
        if gate.is_tests and case.held.tests_tree and after.run.is_good:
            held = await self._runner.run(case.prover, case.base, gate, tree=case.held.tests_tree)
        return await self._row(case, before, after, held)

    async def _measured(self, case: "_Case", before: GateRun, after: GateRun) -> Judged:
        """Return the verdict on a measure; one that fails is taken again on both sides.

        The machine may have been busier the second time, and minutes may lie between them.
        """
        row = await self._row(case, before, after, None)
        if row.passed or not after.run.is_good:
            return row
        before = await self._runner.run(self._prover, case.base, case.gate, tree=None)
        after = await self._runner.run(case.prover, case.base, case.gate, tree=case.held.tree)
        return await self._row(case, before, after, None)

    async def _row(
        self, case: "_Case", before: GateRun, after: GateRun, held: GateRun | None
    ) -> Judged:
        paths = {each.path for run in (before, after) for each in run.run.reading.findings}
        texts = await case.change.texts(self._equipment.trees, case.base, paths)
        verdict = judged(
            case.gate,
            _texted(before.run, texts.before),
            _texted(after.run, texts.after),
            case.change.ground,
            held=held.run if held else None,
        )
        if case.gate.reads == Reads.EXIT and verdict.passed:
            verdict = _with_tests(verdict, before, after, held, case.change.ground)
        output = after.result.output
        if held is not None and not held.result.passed and after.result.passed:
            output = held.result.output
        return _judged(case.gate, verdict, before=before, after=after, output=output)

    async def _scanned(self, case: "_Case") -> Judged:
        """Look at the lines of the change itself; those that it takes away are the base's."""
        gate = case.gate
        scanner = self._equipment.scanner(gate.reads)
        was: list[GateFinding] = []
        now: list[GateFinding] = []
        try:
            async with asyncio.timeout(gate.timeout_s):
                async for removed, added in self._read(case, tuple(scanner.whole_files)):
                    was += _lined(await asyncio.to_thread(scanner.scan, removed), removed)
                    now += _lined(await asyncio.to_thread(scanner.scan, added), added)
        except NothingToGoBy as error:
            said = Verdict(status=Status.ABSENT, problem=str(error))
            return replace(_judged(gate, said), is_beyond=True)
        except TimeoutError:
            return _judged(gate, Verdict(status=Status.BROKEN, problem=UNREAD))
        excusing = scanner.excusing
        notes: tuple[str, ...] = ()
        if now and excusing and await self._equipment.trees.mentions(case.base, excusing):
            was, now = [], []
            notes = ("the base has such already",)
        verdict = judged(
            gate,
            Run(reading=Reading(findings=tuple(was))),
            Run(reading=Reading(findings=tuple(now))),
            case.change.ground,
        )
        return _judged(gate, verdict, notes=notes)

    async def _read(self, case: "_Case", whole: tuple[str, ...]) -> AsyncIterator[_Sides]:
        """Yield the lines that a scanner reads, before and after, a part at a time."""
        if whole:
            yield await self._whole(case, whole)
            return
        yield case.change.lines.removed, case.change.lines.added
        async for lines in unsurveyed(self._equipment.trees, case.base, case.changeset):
            yield lines.removed, lines.added

    async def _whole(self, case: "_Case", globs: tuple[str, ...]) -> _Sides:
        """Return all lines of the changed files that a glob names, before and after."""
        fits, known = anywhere(globs), {*case.change.before, *case.change.after}
        paths = {path for path in known if fits.match(path.lower())}
        texts = await case.change.texts(self._equipment.trees, case.base, paths)
        before, after = texts.before.items(), texts.after.items()
        return (
            {path: dict(enumerate(known, 1)) for path, known in before},
            {path: dict(enumerate(known, 1)) for path, known in after},
        )


@dataclass(frozen=True, kw_only=True)
class _Case:
    """What one gate is judged over."""

    gate: Gate
    base: Base
    changeset: ChangeSet
    prover: Prover
    change: Change
    held: Held


def _with_tests(
    verdict: Verdict, before: GateRun, after: GateRun, held: GateRun | None, ground: Ground
) -> Verdict:
    """Return a verdict of exit codes; broken where a test runner ran less than on the base.

    With the base's own tests as many have to run as there.
    """
    lack = lacking(before.result, after.result, ground)
    if not lack and held is not None:
        lack = lacking(before.result, held.result, replace(ground, touches_tests=False))
    return replace(verdict, status=Status.BROKEN, problem=lack) if lack else verdict


def _lined(
    found: Sequence[GateFinding], lines: Mapping[str, Mapping[int, str]]
) -> tuple[GateFinding, ...]:
    return tuple(
        replace(each, text=lines.get(each.path, {}).get(each.line, "")[:MESSAGE_CHARS])
        for each in found
    )


def _texted(run: Run, texts: Mapping[str, Sequence[str]]) -> Run:
    findings = with_texts(run.reading.findings, texts)
    return replace(run, reading=replace(run.reading, findings=findings))


def _judged(
    gate: Gate,
    verdict: Verdict,
    *,
    before: GateRun | None = None,
    after: GateRun | None = None,
    output: str = "",
    notes: tuple[str, ...] = (),
) -> Judged:
    is_beyond = bool(before and after and before.run.is_beyond and after.run.is_beyond)
    cure = ""
    if verdict.status in {Status.ABSENT, Status.BROKEN}:
        is_own = is_beyond or verdict.status == Status.ABSENT
        cure = gate.cure or (OWN_CURE if is_own else "")
    return Judged(
        command=gate.shown,
        exit_code=after.result.exit_code if after else None,
        passed=verdict.passed,
        before=_before(gate, before) if before else None,
        output=output,
        elapsed_s=after.result.elapsed_s if after else 0.0,
        name=gate.name,
        parser=str(gate.reads),
        required=gate.is_required,
        scope=str(gate.scope),
        status=verdict.status,
        findings=tuple(finding_data(each) for each in verdict.findings[:MOST_KEPT]),
        new=len(verdict.findings),
        old=verdict.old,
        gone=verdict.gone,
        notes=(*notes, *verdict.notes),
        problem=verdict.problem,
        cure=cure,
        is_beyond=is_beyond,
    )


def _before(gate: Gate, before: GateRun) -> GateResult:
    result, run = before.result, before.run
    is_clean = run.is_good and not any(
        each.severity.rank >= gate.severity.rank for each in run.reading.findings
    )
    return GateResult(
        command=result.command,
        exit_code=result.exit_code,
        passed=is_clean and (result.exit_code == 0),
        output=result.output[-BEFORE_CHARS:],
        elapsed_s=result.elapsed_s,
    )


def finding_data(finding: GateFinding) -> Mapping[str, Any]:
    """Return a finding as programs are told of it: each field, whatever it holds."""
    return {
        "path": finding.path or None,
        "line": finding.line or None,
        "rule": finding.rule,
        "severity": str(Severity(finding.severity)),
        "message": finding.message,
        "fingerprint": finding.fingerprint,
    }


__all__ = ["BEFORE_CHARS", "MOST_KEPT", "OWN_CURE", "Gated", "Gating", "Judged", "finding_data"]
