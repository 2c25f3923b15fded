"""A server that asks a person in the middle of a call: refused unless allowed, at a terminal."""

import json
import sys

import pytest

from mainjob.driver import Answer, Desk, call, finish
from mainjob.mcp_desks import configured, with_server
from terminals import at_a_terminal

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(120)]

ENTRY = "{command: python3, args: [server.py]%s}"


@pytest.fixture
def served(desk: Desk) -> Desk:
    return with_server(desk)


def words(desk: Desk) -> tuple[str, ...]:
    asks, writes = call("mcp__h__elicit", text="2"), call("mcp__h__write", text="x")
    script = desk.script(asks, writes, finish())
    return ("run", "a task", "--model", f"scripted:{script}", "--validate", "", "--in", "process")


def told(desk: Desk) -> tuple[str, str]:
    """What the server said it was answered, and what the journal says of it."""
    events = desk.agents("plan", "events", "@last").data["events"]
    settled = next(each for each in events if each["event"] == "ToolCallSettled")
    notes = [each["text"] for each in events if each["event"] == "Noted"]
    assert settled["success"], settled
    answer = json.loads(settled["data"]["value"]["answer"])
    return answer["content"][0]["text"], "\n".join(notes)


def ran(desk: Desk, allow: str) -> Answer:
    configured(desk, f"mcp_servers: {{h: {ENTRY % allow}}}\n")
    return desk.agents(*words(desk))


def test_nobody_is_asked_unless_it_is_allowed_and_somebody_is_there(served: Desk) -> None:
    assert ran(served, "").code == 0
    answered, notes = told(served)
    assert json.loads(answered) == ["refused"] * 2
    assert "question" not in notes
    assert ran(served, ", allow: [elicitation]").code == 0
    answered, notes = told(served)
    assert json.loads(answered) == [{"action": "cancel"}] * 2
    assert "MCP server h asked: question 0; nobody answered" in notes
    sampling = ran(served, ", allow: [sampling]")
    assert (sampling.code, "sampling is refused" in sampling.message) == (2, True)


def test_who_sits_at_the_terminal_is_asked_and_what_they_say_goes_to_the_server(
    served: Desk,
) -> None:
    configured(served, f"mcp_servers: {{h: {ENTRY % ', allow: [elicitation]'}}}\n")
    command = (sys.executable, "-m", "patchyard", *words(served))
    environ = {**served.environ, "TERM": "xterm"}
    with at_a_terminal(command, cwd=served.repo, environ=environ) as terminal:
        terminal.wait_for("question 0")
        for shown, typed in (("(where to): ", "main"), ("count, or nothing: ", "two")):
            terminal.wait_for(shown)
            terminal.type(f"{typed}\n")
        terminal.wait_for("it must be a whole number")
        terminal.type("2\n")
        for _ in range(3):
            terminal.wait_for("loud, or nothing: ")
            terminal.type("perhaps\n")
        terminal.wait_for("send this to the server?")
        terminal.type("y\n")
        terminal.wait_for("question 1")
        terminal.wait_for("(where to): ")
        terminal.type("\n")  # it is needed: so this declines
        terminal.rest()
    answered, notes = told(served)
    accepted = {"action": "accept", "content": {"branch": "main", "count": 2}}
    assert json.loads(answered) == [accepted, {"action": "decline"}]
    assert "asked: question 0; answered at the terminal: branch, count" in notes
    assert "asked: question 1; declined at the terminal" in notes
