"""What people who watch are told when a call is undone and when a plan is rolled back."""

import json

import pytest

from patchyard.cli.json_lines import JsonLines
from patchyard.cli.progress import SpokenLines
from patchyard.domain.body import Body
from patchyard.domain.checkpoint import (
    CallRepeated,
    CallUndone,
    CheckpointMade,
    RolledBack,
    Trigger,
)


def test_a_lost_call_and_a_rollback_are_said_in_a_line_each() -> None:
    said: list[str] = []
    lines = SpokenLines()
    lines.write = said.append
    lines(CallUndone(call_id="K", checkpoint_id="C", reason="the environment\x1b has ended"))
    lines(CallRepeated(call_id="K", environment_id="E", number=2))
    lines(RolledBack(checkpoint_id="C", version=3, reason="by command"))
    assert "undone" in said[0]
    assert "has ended" in said[0]
    assert "\x1b " not in said[0]
    assert "the call runs once more (2)" in said[1]
    assert "to C: by command" in said[2]


def test_a_stream_does_not_list_the_files_of_a_checkpoint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = {"put": {f"file{number}": [] for number in range(1000)}, "gone": []}
    made = CheckpointMade(
        checkpoint_id="C", trigger=Trigger.PHASE, turn=1, manifest=Body(value=files), files=1000
    )
    JsonLines(plan_id="P")(made)
    line = json.loads(capsys.readouterr().out)
    assert (line["event"], line["checkpoint_id"], line["files"]) == ("CheckpointMade", "C", 1000)
    assert "file1" not in str(line)
