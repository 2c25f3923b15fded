"""When a plan's checkpoints are made, on the way from settings to its spec."""

import subprocess
from pathlib import Path

import pytest

from patchyard.domain.checkpoint import DEFAULT_TRIGGERS, Trigger
from patchyard.domain.errors import UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.plan import PlanSpec
from patchyard.intake import Asked, take_in


def spec(top: Path, **environ: str) -> PlanSpec:
    subprocess.run(["git", "init", "-q", "."], cwd=top, check=True)
    home = {"HOME": str(top), "PATH": "", **environ}
    return take_in(Asked(task="t", repository=str(top)), home, Holdings()).spec


def test_a_variable_says_when_checkpoints_are_made(tmp_path: Path) -> None:
    said = "auto_create_on: [after_tool_execute]"
    assert spec(tmp_path, PATCHYARD_CHECKPOINTS=said).checkpoints == (Trigger.AFTER_TOOL,)
    assert spec(tmp_path, PATCHYARD_CHECKPOINTS="auto_create_on: []").checkpoints == ()
    assert spec(tmp_path).checkpoints == DEFAULT_TRIGGERS


def test_a_wrong_trigger_is_named(tmp_path: Path) -> None:
    said = (
        r"PATCHYARD_CHECKPOINTS: checkpoints\.auto_create_on\[0\]: 'never' is none of before_tool"
    )
    with pytest.raises(UsageError, match=said):
        spec(tmp_path, PATCHYARD_CHECKPOINTS="auto_create_on: [never]")


def test_a_repository_that_is_not_trusted_cannot_switch_them_off(tmp_path: Path) -> None:
    folder = tmp_path / ".patchyard"
    folder.mkdir()
    (folder / "config.yaml").write_text("checkpoints: {auto_create_on: []}\n")
    assert spec(tmp_path).checkpoints == DEFAULT_TRIGGERS
