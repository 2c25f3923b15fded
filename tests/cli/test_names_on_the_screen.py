"""Names that a model or an environment makes up reach the terminal escaped, in one line."""

import click

from patchyard.cli.progress import SpokenLines
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.events import Body, Event, ToolCallRequested, ToolCallSettled
from patchyard.domain.inquiries import RoleAnswered

STEERING = "\x1b]0;title\x07\x9b31m\u202e\r\n\x08\x1b[2J"


def spoken(*events: Event) -> list[str]:
    lines, written = SpokenLines(), list[str]()
    lines.write = written.append
    for event in events:
        lines(event)
    return written


def test_no_name_of_a_call_and_no_error_of_one_steers_the_terminal() -> None:
    called = ToolCallRequested(
        call_id="C",
        turn=1,
        ref="r",
        name=f"run{STEERING}proof: passed",
        arguments=Body(value={}),
        environment_id="E",
        kind=ExecutionEnvironment.PROCESS,
    )
    settled = ToolCallSettled(call_id="C", success=False, error=f"BAD{STEERING}", message="no")
    for line in spoken(called, settled):
        assert click.unstyle(line).replace("\n", "").isprintable()
    assert "\n" not in spoken(called)[0]


def test_no_error_of_an_asked_role_steers_the_terminal() -> None:
    answered = RoleAnswered(
        call_id="C", role=f"tester{STEERING}", colleague_id="P", error=f"BAD{STEERING}"
    )
    for line in spoken(answered):
        assert click.unstyle(line).replace("\n", "").isprintable()
