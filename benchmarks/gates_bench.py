"""What gates cost by themselves, beside the commands that they run."""

import asyncio
import json
import statistics
import time
from pathlib import Path

from benchmarks.measuring import measured, median_ms
from benchmarks.workspace_bench import git
from benchmarks.yard import Yard, opened
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.gate_findings import GateFinding, difference, with_texts
from patchyard.domain.gates import Gate, Reads
from patchyard.domain.plan import PlanSpec, State
from patchyard.engine.workflow import Workflow
from patchyard.validators.sarif import SarifReader
from patchyard.validators.secrets import SecretScanner

FINDINGS = 10_000
LINES = 10_000
GATES = 5
ROUNDS = 3
CLEAN = json.dumps({"runs": [{"results": []}]})
COMMAND = f"echo '{CLEAN}'"


def _report() -> bytes:
    results = [
        {
            "ruleId": f"E{number % 50}",
            "level": "error",
            "message": {"text": f"something is wrong with name_{number}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": f"src/file{number % 200}.py"},
                        "region": {"startLine": number // 200 + 1},
                    }
                }
            ],
        }
        for number in range(FINDINGS)
    ]
    return json.dumps({"runs": [{"results": results}]}).encode()


@measured("a SARIF report of 10,000 findings, read", target=250)
def track_report() -> float:
    report, gate = _report(), Gate(name="lint", reads=Reads.SARIF)
    return median_ms(lambda: SarifReader().read(report, gate, root="/w"), repeats=5)


@measured("10,000 findings on each side, compared", target=500)
def track_comparison() -> float:
    found = SarifReader().read(_report(), Gate(name="lint", reads=Reads.SARIF), root="/w").findings
    texts = {f"src/file{n}.py": [f"x = {line}" for line in range(60)] for n in range(200)}

    def compare() -> None:
        before, after = with_texts(found, texts), with_texts(found, texts)
        said = difference(before, after, renamed={}, is_changed=_is_changed)
        assert not said.new

    return median_ms(compare, repeats=5)


def _is_changed(finding: GateFinding) -> bool:
    return finding.line > 30


@measured("10,000 changed lines looked through for credentials", target=300)
def track_secrets() -> float:
    lines = {number: f"    value_{number} = call(a, {number})  # words" for number in range(LINES)}
    return median_ms(lambda: SecretScanner(Path()).scan({"a.py": lines}), repeats=5)


async def _plan_s(yard: Yard, repository: Path, *, is_gated: bool) -> float:
    gates = tuple(
        Gate(name=f"g{number}", command=COMMAND, reads=Reads.SARIF) for number in range(GATES)
    )
    spec = PlanSpec(
        task="measure",
        repository=str(repository),
        agent="recipe",
        environment=str(ExecutionEnvironment.PROCESS),
        steps=({"run": "echo x > new.txt"},),
        gates=gates if is_gated else (),
        validate=() if is_gated else (COMMAND,) * GATES,
    )
    workflow = Workflow(yard.equipment)
    plan_id = await workflow.create(spec)
    started = time.perf_counter()
    state = await workflow.run(plan_id)
    assert state.state == State.COMPLETE
    return time.perf_counter() - started


async def _overhead_ms() -> float:
    async with opened() as yard:
        repository = yard.folder / "repository"
        repository.mkdir()
        (repository / "a.txt").write_text("a\n")
        for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
            git(repository, *command)
        taken = []
        for _ in range(ROUNDS + 1):
            plain = await _plan_s(yard, repository, is_gated=False)
            taken.append(await _plan_s(yard, repository, is_gated=True) - plain)
        return statistics.median(taken[1:]) * 1000 / GATES / 2


@measured("a gate beside the same command as validation, each run", target=20)
def track_gate() -> float:
    return asyncio.run(_overhead_ms())
