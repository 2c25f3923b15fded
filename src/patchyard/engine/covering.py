"""Measures which lines of a change the tests run, before a reviewer judges it."""

from dataclasses import replace

from patchyard.contracts.subjects import Subject
from patchyard.domain.changeset import Base
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.meanings import restored
from patchyard.domain.patch_lines import patch_lines
from patchyard.domain.review_coverage import (
    NO_COMMAND,
    ChangedCoverage,
    CoverageMeasured,
    changed_coverage,
    coverage_words,
    measuring,
    uncovered_places,
)
from patchyard.domain.role import Output
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.steps import Step
from patchyard.engine.equipment import Equipment
from patchyard.engine.gate_runs import GateRunner
from patchyard.engine.ledger import Ledger
from patchyard.engine.proof import Prover
from patchyard.engine.rows import body_of
from patchyard.engine.sites import general_walls
from patchyard.engine.stepping import step

PLACES_TOLD = 100  # to the reviewer


async def covered(
    equipment: Equipment, ledger: Ledger, prover: Prover, base: Base, subject: Subject | None
) -> Subject | None:
    """Return the subject of a review with what its tests run; others as they are.

    It is measured once an attempt, in fresh environments, as gates are.
    """
    if subject is None or ledger.state.known.charter.output != Output.FINDINGS:
        return subject
    if ledger.state.coverage is None:
        with step(ledger, Step.VALIDATION) as going:
            measured = await _measured(equipment, ledger, prover, base, subject)
            going.came_to(f"coverage: {coverage_words(measured)}")
        await ledger.record(measured)
    return replace(subject, coverage=await _told(ledger))


async def _measured(
    equipment: Equipment, ledger: Ledger, prover: Prover, base: Base, subject: Subject
) -> CoverageMeasured:
    spec = ledger.state.known
    added = patch_lines(subject.patch.encode("utf-8", "surrogateescape")).added
    changed = sum(map(len, added.values()))
    gates = measuring(spec.gates, spec.validate)
    walls = general_walls(spec)
    if not gates or walls in UNCONFINED:
        bare = f"{walls} has no walls, and who judges runs nothing there"
        return CoverageMeasured(changed=changed, problem=bare if gates else NO_COMMAND)
    runner = GateRunner(equipment.clock.new_id, equipment.reader)
    reports = []
    for gate in gates:
        try:
            run = (await runner.run(prover, base, gate, tree=None)).run
        except EnvironmentBroken as lost:  # that says nothing of the change
            return CoverageMeasured(changed=changed, problem=lost.message)
        if not run.is_good:
            cure = f"; {gate.cure}" if run.is_absent and gate.cure else ""
            return CoverageMeasured(changed=changed, problem=f"{run.problem}{cure}")
        reports.append(run.reading.lines)
    found = changed_coverage(added, reports, paths=subject.paths)
    return CoverageMeasured(
        changed=changed,
        measured=sum(row.measured for row in found.files),
        covered=sum(row.covered for row in found.files),
        commands=tuple(gate.command for gate in gates),
        body=body_of(found),
    )


async def _told(ledger: Ledger) -> str:
    """Return what the reviewer is told."""
    event = ledger.state.coverage
    if event is None or event.problem:
        return f"Coverage of the change: {coverage_words(event)}." if event else ""
    found = restored(ChangedCoverage, await ledger.value(event.body))
    lines = [f"Coverage of the change, measured: {coverage_words(event)}."]
    if places := uncovered_places(found)[:PLACES_TOLD]:
        lines.append(f"No test runs {', '.join(places)}.")
    if found.unreported:
        lines.append(f"No report knows {', '.join(found.unreported)}.")
    if found.settings:
        lines.append(f"The change touches settings of tools: {', '.join(found.settings)}.")
    return "\n".join(lines)


__all__ = ["PLACES_TOLD", "covered"]
