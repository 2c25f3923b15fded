"""What a call holds on to, and for how long."""

import pytest

from patchyard.toolbox.operations import begin
from toolboxes import Operations


@pytest.mark.parametrize("is_background", [False, True])
def test_only_what_still_runs_is_held_beside_the_result(
    tools: Operations, *, is_background: bool
) -> None:
    call = tools.call()
    args = {
        "command": "tail -f /dev/null" if is_background else "true",
        "background": is_background,
    }
    begin(tools.room, call, "execute_command", args)

    def turn() -> None:
        tools.room.loop.later(0.05, lambda: None)  # nobody tells of a child that ends
        tools.room.loop.turn()
        tools.room.children.reap()

    while call.frame is None:
        turn()
    assert (call.running is not None) is is_background
    call.cancel()
    for job in tools.room.jobs.values():
        while job.is_running:
            turn()
    assert [job.fields()["is_running"] for job in tools.room.jobs.values()] == [
        False
    ] * is_background
