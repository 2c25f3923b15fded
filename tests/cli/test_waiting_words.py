"""What people see while a model is loaded and while it answers."""

from patchyard.cli.live import Pulse
from patchyard.cli.progress import SpokenLines
from patchyard.cli.working import watching
from patchyard.domain.events import ToolCallSettled


def test_which_model_was_chosen_and_what_it_is_waited_for_are_said_once() -> None:
    lines = SpokenLines()
    said: list[str] = []
    lines.write = said.append
    with watching("P", is_json=False, stream=False, spoken=lines) as watched:
        assert watched.on_terms is not None
        assert watched.on_wait is not None
        for _ in range(3):
            watched.on_terms("house:tiny (named)")
            watched.on_wait("tiny to be loaded")
    assert said == ["model: house:tiny (named)", "waits for: tiny to be loaded"]


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
