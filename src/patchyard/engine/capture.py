"""The end of a round of work: what changed is captured outside, then proven in a fresh place."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from patchyard.contracts.tool import Tool
from patchyard.contracts.workspace import CallWindow, WorkspaceRef
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import JournalBroken, ProofFailed
from patchyard.domain.events import (
    ChangeSetCaptured,
    Noted,
    ToolCallRequested,
    ToolCallSettled,
    Validated,
)
from patchyard.domain.gate_verdicts import ONLY_AS_CHANGED, shown_finding
from patchyard.domain.guarding import guarded
from patchyard.domain.left_out import with_left_out
from patchyard.domain.plan import PlanSpec
from patchyard.domain.silencing import silencing
from patchyard.domain.tooling import Effect
from patchyard.engine import invariants
from patchyard.engine.absent_programs import absence_cure
from patchyard.engine.answers import whole
from patchyard.engine.beside_gates import beside_gates
from patchyard.engine.equipment import Equipment
from patchyard.engine.evidence import Evidence, Watch, deciding_in, gathered
from patchyard.engine.gating import Gating, Judged
from patchyard.engine.ledger import Ledger
from patchyard.engine.packing import packed_body
from patchyard.engine.proof import Compared, GateResult, Prover, compare
from patchyard.engine.rows import body_of
from patchyard.engine.setup import Setup, SetupFailed
from patchyard.engine.sites import general_kind

PROOF_FAILED = "The proof failed on a fresh copy of the base with your changes and nothing else."
REWRITTEN = "the proof of the result writes to tests or settings, and that of the base did not"
DELETE_FILE = "delete_file"
NAMED = 5  # gates that an error names
FINDINGS_TOLD = 50  # of each gate, to the actor


class Capture:
    """Captures and proves one plan's workspace, round by round."""

    def __init__(
        self, equipment: Equipment, ledger: Ledger, prover: Prover, workspace: WorkspaceRef
    ) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._usual = Watch()  # what the base's own runs write to
        self._prover = prover.watching(self._usual)
        self._workspace = workspace
        self._deciding: tuple[str, frozenset[str]] | None = None  # a tree, its tests and settings
        self._before: Sequence[GateResult] | None = None
        self._gating = Gating(equipment, ledger, self._prover)

    async def prove(self) -> str | None:
        """Capture and run the gates; return None when all is well, else what to tell the actor.

        Raises ProofFailed when no round is left, ReconciliationBlockedError when an invariant is
        broken by the work.
        """
        base = self._base()
        changeset = await self.keep()
        try:
            prover = await self._prover_of(base, changeset)
        except SetupFailed as error:
            return self._refused(error)
        evidence = await self._evidence(base, changeset)
        if evidence is not None:
            prover = prover.watching(evidence.watch)
        reading = prover if evidence is None else prover.watching(evidence.watch.of_reads())
        checked = await invariants.check(
            self._ledger, reading, base, tree=changeset.tree, when="after"
        )
        results: Sequence[Compared] = []
        if evidence is not None:
            results = await self._gates(base, changeset, prover, evidence)
        failed = [result for result in results if result.stops]
        broken = [event for event in checked if not event.passed]
        if not failed and not broken:
            return None
        self._require_possible(failed)
        if self._ledger.state.rounds >= rounds_of(self._ledger.state.known):
            invariants.require_held(checked)
            raise ProofFailed(
                f"{_counted(len(failed), results)} on the result: {_all_named(failed)}",
                hint=self._cure(failed),
                details={**_details(failed[0]), "limit_name": "rounds"},
            )
        return _complaint(failed, [f"{event.text}: {event.output}" for event in broken])

    def _cure(self, failed: Sequence[Compared]) -> str:
        """Return how a missing program comes in, where one is why, and where to look."""
        kind = general_kind(self._ledger.state.known)
        cures = (absence_cure(row.exit_code, row.output, kind) for row in failed)
        looks = (
            f"`agents plan status {self._ledger.plan_id}` shows their output",
            f"`agents plan diff {self._ledger.plan_id}` shows what was tried",
        )
        return "; ".join([*dict.fromkeys(filter(None, cures)), *looks])

    def _require_possible(self, failed: Sequence[Compared]) -> None:
        """Raise ProofFailed where a gate says nothing on the base either: no turn mends that."""
        beyond = [row for row in failed if isinstance(row, Judged) and row.is_beyond]
        if not beyond:
            return
        row = beyond[0]
        raise ProofFailed(
            f"the gate {row.name} says nothing, on the base as little as on the result:"
            f" {row.problem}",
            hint=f"{row.cure}; then `agents plan resume {self._ledger.plan_id}` proves it again",
            details=_details(row),
        )

    async def _prover_of(self, base: Base, changeset: ChangeSet) -> Prover:
        """Return who proves the result: with setup run anew where the work touched its inputs."""
        layers = await Setup(self._equipment, self._ledger).again(base, changeset)
        return self._prover if layers is None else self._prover.over(layers)

    def _refused(self, error: SetupFailed) -> str:
        """The work broke setup: that goes back to the actor like a failed gate."""
        if self._ledger.state.rounds >= rounds_of(self._ledger.state.known):
            raise ProofFailed(
                f"setup does not pass on the result: {error.message}",
                hint=error.hint,
                details=error.details,
            ) from error
        output = str(error.details.get("output", ""))[-6000:]
        return (
            f"Setup fails with your changes: {error.message}\n\n{output}\n\nMend it, then finish."
        )

    async def keep(self) -> ChangeSet:
        """Capture what there is, unproven, and journal it. Stopped within a MiB once cancelled."""
        base = self._base()
        workspaces = self._equipment.workspaces
        events = [event for _, _, event in await self._ledger.events()]
        windows = _windows(events, self._equipment.tools(self._workspace.root))
        stopping = threading.Event()
        capturing = workspaces.capture(
            base, self._workspace, windows=windows, is_stopped=stopping.is_set
        )
        captured = await whole(capturing, hurry=stopping.set)
        links = await self._equipment.trees.links(base, captured)
        state = self._ledger.state
        changeset = guarded(captured, state.known.protected_paths, links)
        changeset = with_left_out(changeset, state.left_out.values())
        await self._ledger.record(
            ChangeSetCaptured(
                changeset_id=changeset.id,
                base_tree=changeset.base_tree,
                tree=changeset.tree,
                files=len(changeset.changes),
                added=sum(change.added for change in changeset.changes),
                removed=sum(change.removed for change in changeset.changes),
                findings=len(changeset.findings),
                body=packed_body(changeset),
            )
        )
        return changeset

    async def _evidence(self, base: Base, changeset: ChangeSet) -> Evidence | None:
        """Look at the change set before its proof runs; None where none is asked for."""
        spec = self._ledger.state.known
        if not spec.validate and not spec.gates:
            return None
        checks = invariants.commands(self._ledger)
        trees = self._equipment.trees
        if self._deciding is None or self._deciding[0] != base.tree:
            self._deciding = (base.tree, await deciding_in(trees, base))
        deciding = self._usual.kept = self._deciding[1]
        beside = await beside_gates(self._equipment, self._ledger, base)
        return await gathered(
            trees, base, changeset, spec, checks, beside=beside, deciding=deciding
        )

    async def _gates(
        self, base: Base, changeset: ChangeSet, prover: Prover, evidence: Evidence
    ) -> Sequence[Compared]:
        spec = self._ledger.state.known
        if self._before is None:
            self._before = await self._prover.run(base, spec.validate)
        after: Sequence[GateResult] = self._before
        if not changeset.is_empty:
            after = await prover.run(base, spec.validate, tree=changeset.tree)
        change = evidence.change
        gated = await self._gating.judge(base, changeset, prover, change)
        usual = self._usual.written
        if rewritten := evidence.rewritten(usual):
            listed = ", ".join(sorted(rewritten))[:1000]
            await self._ledger.record(Noted(text=f"{REWRITTEN}: {listed}"))
        results = [*compare(self._before, after, change.ground), *gated.rows]
        await self._ledger.record(
            Validated(
                round=self._ledger.state.rounds + 1,
                changeset_id=changeset.id,
                tree=changeset.tree,
                passed=not any(result.stops for result in results),
                results=body_of(results),
                touched=evidence.named(usual),
                kind=general_kind(spec),
                held=gated.held,
                silenced=silencing(change.lines.added),
                has_run=bool(spec.validate) or any(not gate.is_scan for gate in spec.gates),
            )
        )
        return results

    def _base(self) -> Base:
        base = self._ledger.state.base
        if base is None:
            raise JournalBroken("the plan has no base although it was executed")
        return base


def rounds_of(spec: PlanSpec) -> int:
    """Return how often a failed proof is given back: a recipe has no second way."""
    return 0 if spec.agent == "recipe" else spec.rounds


def _windows(events: Sequence[object], tools: Mapping[str, Tool]) -> Sequence[CallWindow]:
    """Return the settled calls; tools that `tools` does not hold are of MCP servers, and open."""
    names = {each.call_id: each.name for each in events if isinstance(each, ToolCallRequested)}
    settled = [each for each in events if isinstance(each, ToolCallSettled)]
    return [
        CallWindow(
            call_id=event.call_id,
            started=event.started,
            ended=event.ended,
            paths=event.paths if event.success and _effect(name, tools) == Effect.WRITE else (),
            deletes=name == DELETE_FILE,
            is_open=_effect(name, tools) == Effect.RUN,
        )
        for event in settled
        for name in (names.get(event.call_id, ""),)
    ]


def _effect(name: str, tools: Mapping[str, Tool]) -> Effect:
    return tools[name].spec.effect if name in tools else Effect.RUN


def _complaint(failed: Sequence[Compared], broken: Sequence[str]) -> str:
    parts = [PROOF_FAILED]
    for result in failed:
        if isinstance(result, Judged):
            parts.append(_of_gate(result))
            continue
        how = "did not end" if result.exit_code is None else f"ended with {result.exit_code}"
        parts.append(f"$ {result.command}\n({how})\n{result.output[-6000:]}")
    parts.extend(f"An invariant no longer holds: {text}" for text in broken)
    parts.append("Mend it, then finish again.")
    return "\n\n".join(parts)


def _counted(failed: int, results: Sequence[Compared]) -> str:
    """Return how many of the results fail."""
    has_gates = any(isinstance(each, Judged) for each in results)
    kind = "gate" if has_gates else "validation command"
    if len(results) == 1:
        return f"the {kind} fails"
    return f"{failed} of {len(results)} {kind}s {'fails' if failed == 1 else 'fail'}"


def _all_named(failed: Sequence[Compared]) -> str:
    """Return those that fail as the error names them, each with the first thing it found."""
    more = len(failed) - NAMED
    named = [_named(each) for each in failed[:NAMED]]
    return "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])


def _named(failed: Compared) -> str:
    """Return one that fails, with the first thing it found."""
    if not isinstance(failed, Judged):
        return failed.command
    first = failed.findings[0] if failed.findings else {}
    said = shown_finding(first) if first else failed.problem
    return f"{failed.name}{f': {said}' if said else ''}"


def _details(failed: Compared) -> dict[str, Any]:
    details: dict[str, Any] = {"output": failed.output[-2000:]}
    if isinstance(failed, Judged):
        details |= {"gate": failed.name, "findings": [*failed.findings[:20]]}
    return details


def _of_gate(row: Judged) -> str:
    """Return what the actor is told of a gate that stops the plan."""
    lines = [f"The gate `{row.name}` fails ($ {row.command})."]
    lines += [shown_finding(each) for each in row.findings[:FINDINGS_TOLD]]
    if row.new > FINDINGS_TOLD:
        lines.append(f"... and {row.new - FINDINGS_TOLD} more")
    if any(each["rule"] == ONLY_AS_CHANGED for each in row.findings):
        lines.append(
            "The tests of the base are run as the base has them: mend the code, not the tests."
        )
    lines += [row.problem, row.cure, *row.notes]
    if not row.findings:
        lines.append(row.output[-6000:])
    return "\n".join(line for line in lines if line)


__all__ = ["PROOF_FAILED", "Capture", "rounds_of"]
