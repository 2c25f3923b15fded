"""What people who watch are told when a call is undone and when a plan is rolled back."""

from patchyard.cli.progress import SpokenLines
from patchyard.domain.checkpoint import CallRepeated, CallUndone, RolledBack


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
