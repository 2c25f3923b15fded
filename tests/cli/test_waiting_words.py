"""What people see while a model is loaded and while it answers."""

from patchyard.cli.live import Pulse
from patchyard.cli.progress import SpokenLines
from patchyard.domain.events import ToolCallSettled


def test_what_a_model_is_waited_for_is_said_once() -> None:
    lines = SpokenLines()
    said: list[str] = []
    lines.write = said.append
    for _ in range(3):
        lines.wait("tiny to be loaded")
    assert [line.partition(":")[2].strip() for line in said] == ["tiny to be loaded"]


def test_the_moving_line_says_what_is_waited_for_and_how_much_was_said() -> None:
    pulse = Pulse()
    pulse.wait("tiny to be loaded")
    assert "waits for tiny to be loaded, 0 s" in pulse.line()
    assert "characters" not in pulse.line()
    pulse.hear("x" * 1200)
    pulse.hear("y" * 34)
    assert "1,234 characters so far" in pulse.line()
    pulse.take(ToolCallSettled(call_id="c", success=True, message="done"))
    assert "characters" not in pulse.line()
