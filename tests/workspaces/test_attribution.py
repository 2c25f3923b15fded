"""Which call a change is attributed to, told from times and names alone."""

from collections.abc import Sequence
from typing import Any

import pytest

from patchyard.contracts.workspace import CallWindow
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.workspaces.attribution import attribute

T = 1000.0  # a moment
TICK_S = 0.01  # between two ticks of the clock


def command(call_id: str, first: float, last: float) -> CallWindow:
    """A command that ran from tick `first` to tick `last`."""
    return CallWindow(call_id=call_id, started=T + first * TICK_S, ended=T + last * TICK_S)


def tool(call_id: str, first: float, last: float, *paths: str, **options: Any) -> CallWindow:
    """A file tool that names what it wrote."""
    window = command(call_id, first, last)
    return CallWindow(
        call_id=call_id,
        started=window.started,
        ended=window.ended,
        paths=paths,
        is_open=False,
        **options,
    )


def changed(path: str = "f", old_path: str | None = None) -> Change:
    status = ChangeStatus.RENAMED if old_path else ChangeStatus.MODIFIED
    return Change(path=path, old_path=old_path, status=status, mode="100644", blob="0")


def deleted(path: str = "f") -> Change:
    return Change(path=path, status=ChangeStatus.DELETED)


def told(change: Change, at: float | None, *windows: CallWindow) -> str | None:
    """Return the call of one change whose time is the tick `at`."""
    times = {} if at is None else {change.path: T + at * TICK_S}
    made = [change]
    attribute(made, windows, times)
    return made[0].call_id


def test_calls_of_one_tick_are_told_apart_by_what_they_name() -> None:
    windows = [tool("c1", 0, 0, "a"), tool("c2", 0, 0, "b"), tool("c3", 0, 0, "c")]
    changes = [changed("a"), changed("b"), changed("c")]
    attribute(changes, windows, dict.fromkeys("abc", T))

    assert [change.call_id for change in changes] == ["c1", "c2", "c3"]


@pytest.mark.parametrize(
    ("at", "windows", "expected"),
    [
        pytest.param(0, [tool("t", 0, 0, "f"), command("c", 0, 9)], "t", id="named wins"),
        pytest.param(5, [command("c", 0, 5), tool("t", 5, 5, "f")], "t", id="named last"),
        pytest.param(5, [tool("t", 0, 0, "f"), command("c", 3, 9)], "c", id="changed after it"),
        pytest.param(2, [tool("t", 0, 2, "f"), command("c", 2, 9)], "t", id="may be of it"),
        pytest.param(
            2.3, [tool("t", 0, 2.4, "f"), command("c", 2, 9)], "t", id="the next tick came late"
        ),
        pytest.param(
            5,
            [tool("t", 0, 0, "f"), command("c", 3, 5), command("d", 5, 9)],
            None,
            id="changed after it by one of two",
        ),
        pytest.param(
            0, [tool("t", 0, 0, "f"), tool("u", 0, 0, "f")], "u", id="the last of two that name it"
        ),
        pytest.param(
            900, [tool("t", 0, 0, "f"), command("c", 3, 5)], "t", id="changed outside all calls"
        ),
        pytest.param(
            None, [tool("t", 0, 0, "f"), command("c", 3, 5)], "t", id="named, time not known"
        ),
        pytest.param(None, [command("c", 3, 5)], None, id="time not known"),
        pytest.param(
            5,
            [CallWindow(call_id="t", started=0, ended=0, paths=("f",)), command("c", 3, 9)],
            "t",
            id="named by a call without times",
        ),
        pytest.param(
            5, [tool("t", 0, 0, "f", deletes=True), command("c", 3, 9)], "c", id="made anew"
        ),
        pytest.param(0, [tool("t", 0, 0, "f", deletes=True)], None, id="made anew, unseen"),
        pytest.param(5, [tool("t", 0, 9, "g")], None, id="a tool that names another"),
        pytest.param(4, [command("c", 0, 5), command("d", 6, 9)], "c", id="in one window"),
        pytest.param(5, [command("c", 0, 5), command("d", 5, 9)], None, id="in two"),
        pytest.param(5.5, [command("c", 0, 5.6), command("d", 5, 9)], None, id="within a tick"),
        pytest.param(5.5, [command("c", 0, 5.4), command("d", 5, 9)], "d", id="the first was over"),
        pytest.param(
            6, [command("c", 0, 5.5), tool("t", 6, 6)], "c", id="just after, within the slack"
        ),
        pytest.param(5, [command("c", 6.5, 9)], "c", id="just before, within the slack"),
        pytest.param(
            5, [command("c", 0, 3.5), command("d", 6.5, 9)], None, id="within the slack of two"
        ),
        pytest.param(0, [command("c", 9, 19)], None, id="in no window"),
        pytest.param(
            50, [command("a", 0, 99), command("b", 1, 2), command("c", 3, 4)], "a", id="a long one"
        ),
    ],
)
def test_a_changed_file_names(
    at: float | None, windows: Sequence[CallWindow], expected: str | None
) -> None:
    assert told(changed(), at, *windows) == expected


@pytest.mark.parametrize(
    ("at", "windows", "expected"),
    [
        pytest.param(5, [tool("t", 0, 0, "old"), command("c", 3, 9)], "c", id="moved later"),
        pytest.param(
            0, [tool("t", 0, 0, "f"), tool("u", 0, 0, "old", deletes=True)], "t", id="by tools"
        ),
        pytest.param(900, [tool("t", 0, 0, "old")], "t", id="only the old name is known"),
        pytest.param(5, [command("c", 3, 9)], "c", id="by a command"),
        pytest.param(900, [command("c", 3, 9)], None, id="by none"),
    ],
)
def test_a_renamed_file_names(
    at: float, windows: Sequence[CallWindow], expected: str | None
) -> None:
    assert told(changed(old_path="old"), at, *windows) == expected


@pytest.mark.parametrize(
    ("at", "windows", "expected"),
    [
        pytest.param(
            5, [tool("t", 0, 0, "f", deletes=True), command("c", 3, 9)], "t", id="named"
        ),
        pytest.param(5, [command("b", 0, 1), command("c", 3, 9)], "c", id="in one window"),
        pytest.param(5, [command("b", 0, 5), command("c", 5, 9)], None, id="in two"),
        pytest.param(7, [command("c", 0, 1), tool("t", 7, 7, "g")], "c", id="the only command"),
        pytest.param(
            7, [command("b", 0, 1), command("c", 2, 3), tool("t", 7, 7, "g")], None, id="of two"
        ),
        pytest.param(
            7, [command("b", 0, 1), tool("t", 2, 2, "f"), command("c", 3, 4), tool("u", 7, 7, "g")],
            "c", id="after a tool had written it",
        ),
        pytest.param(5, [tool("t", 5, 5, "f")], None, id="a tool wrote it"),
        pytest.param(None, [command("c", 3, 9)], None, id="time not known"),
    ],
)  # fmt: skip
def test_a_deleted_file_names(
    at: float | None, windows: Sequence[CallWindow], expected: str | None
) -> None:
    assert told(deleted(), at, *windows) == expected


@pytest.mark.parametrize(("written", "expected"), [("d/new", None), ("new", None), ("e/new", "c")])
def test_the_time_of_a_folder_that_a_call_wrote_to_tells_no_deletion(
    written: str, expected: str | None
) -> None:
    windows = [command("b", 0, 1), command("c", 3, 9)]

    made = [deleted("d/f"), changed(written)]
    attribute(made, windows, dict.fromkeys(("d/f", written), T + 5 * TICK_S))

    assert [change.call_id for change in made] == [expected, "c"]
