"""Limits that are held from outside of a sandbox: who hits one is told which, and what was used."""

from pathlib import Path

import pytest

from environments.yards import marks_of
from execution.backends import backed
from patchyard.execution import EnvironmentLimits, ExecutionSandbox, SandboxConfig

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

PYTHON = "python3 -c"
CASES = {
    "disk": (
        EnvironmentLimits(disk=4 * 1024**2),
        "while :; do head -c 100000 /dev/zero | tr '\\0' 'x' >> big; sleep 0.02; done",
    ),
    "memory": (
        EnvironmentLimits(memory=96 * 1024**2),
        f"{PYTHON} 'a = bytearray(300000000)'",
    ),
    "wall": (EnvironmentLimits(wall=2), "sleep 100"),
}


def size_of(folder: str) -> int:
    return sum(each.stat().st_size for each in Path(folder).rglob("*"))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=marks_of(each)) for each in ("process", "container")]
)
async def test_a_limit_that_a_command_hits_is_named_in_its_result(
    kind: str, name: str, premises: object
) -> None:
    del premises
    limits, line = CASES[name]
    with backed(kind) as named:
        async with ExecutionSandbox(SandboxConfig(**named, limits=limits)) as sandbox:
            stopped = await sandbox.tools.execute_command(line, timeout_s=90)
            assert (stopped.success, stopped.limit) == (False, name), stopped
            assert size_of(sandbox.workspace_path) < 150_000_000
            fine = await sandbox.execute_command("echo so")
    assert (fine.stdout, fine.limit) == ("so\n", "")
    assert fine.usage
