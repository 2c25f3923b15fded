"""A server that asks a person in the middle of a call: refused unless allowed, at a terminal."""

import json
import sys
from typing import Any

import pytest

from mainjob.driver import Answer, Desk, call, finish
from mainjob.mcp_desks import configured, with_server
from terminals import at_a_terminal

pytestmark = [pytest.mark.service("bubblewrap")]

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


def lent(desk: Desk, *texts: str, options: tuple[str, ...] = ()) -> tuple[Answer, list[Any]]:
    """What a plan came to whose server asks the model each of `texts`, and what it was told."""
    script = desk.folder / "sampling.json"
    calls = [call("mcp__h__sample", text=text) for text in texts]
    answers = [{"text": "two"}]
    script.write_text(json.dumps({"execute": [*calls, finish(), finish()], "sampling": answers}))
    configured(desk, f"mcp_servers: {{h: {ENTRY % ', allow: [sampling]'}}}\n")
    words = ("--model", f"scripted:{script}", "--validate", "", "--in", "process", *options)
    answer = desk.agents("run", "a task", *words)
    events = desk.agents("plan", "events", "@last").data["events"]
    settled = [each["data"]["value"] for each in events if each["event"] == "ToolCallSettled"]
    told = [json.loads(json.loads(each["answer"])["content"][0]["text"]) for each in settled]
    return answer, [told, events]


def test_the_plans_model_answers_a_server_that_may_ask_it_and_the_plan_pays(served: Desk) -> None:
    picture = {"type": "image", "data": "", "mimeType": "image/png"}
    shown = {"messages": [{"role": "user", "content": picture}], "maxTokens": 9}
    answer, (told, events) = lent(served, "how many?", json.dumps(shown), "and now?")
    assert answer.code == 0
    first, second, third = told
    assert first["result"]["content"] == {"type": "text", "text": "two"}
    assert first["result"]["stopReason"] == "endTurn"
    assert second["error"]["code"] == third["error"]["code"] == -1
    assert "in words" in second["error"]["message"]
    assert "was asked for one more" in third["error"]["message"]  # the script has one answer
    (event,) = [each for each in events if each["event"] == "ModelLent"]
    assert (event["server"], event["model"]) == ("h", "scripted:sampling.json")
    assert event["body"]["value"]["answer"] == "two"
    assert event["body"]["value"]["asked"][-1] == {"speaker": "user", "text": "how many?"}
    turns = sum(each["event"] == "TurnTaken" for each in events)
    cost = answer.data["cost"]
    assert cost["steps"] == turns + 1
    taken = [each for each in events if each["event"] in {"TurnTaken", "ModelLent"}]
    assert cost["tokens"] >= sum(e["input_tokens"] + e["output_tokens"] for e in taken) > 0
    notes = [each["text"] for each in events if each["event"] == "Noted"]
    assert any("asked the model; refused: the script" in text for text in notes)


def test_a_limit_of_the_plan_holds_for_what_its_servers_ask(served: Desk) -> None:
    answer, (told, _) = lent(served, "how many?", options=("--max-steps", "2"))
    assert answer.code == 5
    assert "limit of 2 steps" in told[0]["error"]["message"]


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
            terminal.wait_for("loud (one of yes, no), or nothing: ")
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
