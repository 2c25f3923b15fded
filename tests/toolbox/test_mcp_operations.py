"""MCP servers inside a toolbox: called once, held to what they listed, ended where they fail."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hostile_mcp import PROGRAM
from patchyard.toolbox import talking
from patchyard.toolbox.operations import begin
from patchyard.toolbox.serving import pin_of
from patchyard.toolbox.wire import Decoder
from services import python
from toolboxes import Operations, serving

Result = dict[str, Any]
LONGEST_S = 60  # of a call; a busy machine needs some of it


class Box(Operations):
    """A toolbox whose calls have ids of their own, with one server."""

    mode = ""
    number = 0

    @property
    def server(self) -> dict[str, Any]:
        command = [sys.executable, PROGRAM, self.mode]
        return {"server": "h", "command": command, "timeout_s": LONGEST_S}

    def turn_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 2 * LONGEST_S
        while not condition():
            assert time.monotonic() < deadline
            self.room.loop.later(0.001, self.room.children.reap)
            self.room.loop.turn()

    def ask(self, op: str, **args: Any) -> Result:
        self.number += 1
        call = self.call(f"c{self.number}")
        begin(self.room, call, op, {**self.server, **args})
        self.turn_until(lambda: call.frame is not None)
        assert call.frame is not None
        result: Result = Decoder().feed(call.frame)[0]["result"]
        return result

    def pins(self) -> dict[str, str]:
        texts = self.ask("mcp_list")["tools"]
        return {json.loads(text)["name"]: pin_of(text) for text in texts}

    def use(self, tool: str, text: str = "x", **args: Any) -> Result:
        pin = args.pop("pin", None) or self.pins()[tool]
        return self.ask("mcp_call", tool=tool, arguments={"text": text}, pin=pin, **args)

    @property
    def pid(self) -> int:
        return self.room.servers["h"].talker.pid


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    # The end of a server is waited for, not guessed at after a moment: it says how it came to it.
    monkeypatch.setattr(talking, "STRAGGLER_S", LONGEST_S)
    made = Box(tmp_path)
    yield made
    for server in made.room.servers.values():
        server.talker.end("the test is over")
    made.turn_until(lambda: all(is_gone(each.talker.pid) for each in made.room.servers.values()))


def text_of(result: Result) -> str:
    found: str = json.loads(result["answer"])["content"][0]["text"]
    return found


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_server_stays_from_call_to_call_and_its_answer_is_the_result(box: Box) -> None:
    first = box.use("echo", "one")
    pid = box.pid
    assert (first["success"], text_of(first)) == (True, "one")
    assert text_of(box.use("echo", "zwölf")) == "zwölf"
    assert box.pid == pid
    denied = box.use("deny")
    assert (denied["error"], denied["message"]) == ("MCP_ERROR", "not you")
    failed = box.use("fail")
    assert (failed["error"], text_of(failed)) == ("MCP_TOOL_ERROR", "it went wrong")


def test_what_a_server_asks_of_us_is_refused_and_told(box: Box) -> None:
    result = box.use("ask")
    assert json.loads(text_of(result)) == [["error"], ["error"], ["error"], ["result"]]
    assert result["refused"] == ["sampling/createMessage", "elicitation/create", "roots/list"]
    assert "refused" not in box.use("echo")


ELICITING = {"allow": ["elicitation"]}


def test_a_question_that_is_allowed_settles_the_call_and_its_answer_goes_on_with_it(
    box: Box,
) -> None:
    pins = {json.loads(t)["name"]: pin_of(t) for t in box.ask("mcp_list", **ELICITING)["tools"]}
    first = box.use("elicit", "2", pin=pins["elicit"], **ELICITING)
    assert json.loads(first["asks"]["params"])["message"] == "question 0"
    asked_by = f"c{box.number}"
    second = box.ask("mcp_answer", asked_by=asked_by, answer={"action": "cancel"})
    assert json.loads(second["asks"]["params"])["message"] == "question 1"
    assert "asked_by" not in second
    accepted = {"action": "accept", "content": {"branch": "main"}}
    done = box.ask("mcp_answer", asked_by=f"c{box.number}", answer=accepted)
    assert json.loads(text_of(done)) == [{"action": "cancel"}, accepted]
    late = box.ask("mcp_answer", asked_by=asked_by, answer={})
    assert (late["error"], "no server waits" in late["message"]) == ("OUTCOME_UNKNOWN", True)
    many = box.use("elicit", "12", pin=pins["elicit"], **ELICITING)
    for _ in range(10):
        many = box.ask("mcp_answer", asked_by=f"c{box.number}", answer={"action": "decline"})
    assert json.loads(text_of(many))[-2:] == ["refused", "refused"]
    assert many["refused"] == ["elicitation/create"] * 2


def test_a_question_without_an_answer_ends_with_the_time_of_its_call(box: Box) -> None:
    pins = {json.loads(t)["name"]: pin_of(t) for t in box.ask("mcp_list", **ELICITING)["tools"]}
    box.use("elicit", "1", pin=pins["elicit"], timeout_s=1.5, **ELICITING)
    pid = box.pid
    box.turn_until(lambda: is_gone(pid))
    late = box.ask("mcp_answer", asked_by=f"c{box.number}", answer={"action": "cancel"})
    assert late["error"] == "TIMEOUT"
    box.use("elicit", "1", pin=pins["elicit"], **ELICITING)
    assert box.ask("mcp_answer", asked_by=f"c{box.number}", answer=[])["success"] is False
    assert box.ask("mcp_list", allow="elicitation")["error"] == "VALIDATION_ERROR"


def test_what_is_no_answer_is_passed_over(box: Box) -> None:
    assert text_of(box.use("junk", "all the same")) == "all the same"


def test_a_tool_that_was_changed_is_not_called(box: Box) -> None:
    pins = box.pins()
    box.use("change")  # it says so itself, and is asked again
    changed = box.use("echo", pin=pins["echo"])
    assert changed["error"] == "MCP_TOOL_CHANGED"
    assert box.use("fail", pin=pins["fail"])["error"] == "MCP_TOOL_ERROR"  # as it was
    gone = box.ask("mcp_call", tool="other", arguments={}, pin="")
    assert "not there any more" in gone["message"]


@pytest.mark.parametrize("mode", ["twice", "endless", "nameless"])
def test_a_list_that_is_none_ends_the_server(box: Box, mode: str) -> None:
    box.mode = mode
    result = box.ask("mcp_list")
    assert result["error"] == "MCP_SERVER_FAILED"
    assert not box.room.servers["h"].is_open


def test_why_a_server_does_not_begin_is_told_with_its_last_words(box: Box) -> None:
    box.mode = "dead"
    result = box.ask("mcp_list")
    assert result["error"] == "MCP_SERVER_FAILED"
    assert "it ended with exit code 1; its last words: no licence was found" in result["message"]
    box.mode = "refusing"
    assert "it refused to begin: not you" in box.ask("mcp_list")["message"]
    for command in (["no-such-program"], ["/dev/null"], [], ["a\0b"], "x"):
        assert box.ask("mcp_list", command=command)["success"] is False


OF_NODE = """node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/opt/x.js'
    at Module._load (node:internal/modules/cjs/loader:981:27) {
  code: 'MODULE_NOT_FOUND'
}

Node.js v20.20.2
"""


@pytest.mark.parametrize(
    ("written", "first"),
    [
        (OF_NODE, "Error: Cannot find module '/opt/x.js'"),
        ("Traceback (most recent call last):\n  x\na.b.LostError: gone\n", "a.b.LostError: gone"),
        ("TypeError [ERR_X]: no\n    at x (y:1)\n", "TypeError [ERR_X]: no"),
        ("reading settings\nno licence was found\n\n", "no licence was found"),
        ("x" * 5_000, "x" * talking.WORDS_CHARS),
        (" \n\n", ""),
    ],
)
def test_last_words_begin_with_the_line_that_tells_most(written: str, first: str) -> None:
    said = talking.telling(written)
    assert said.partition("\n")[0] == first
    assert len(said) <= talking.WORDS_CHARS + 1


def test_a_server_that_dies_in_mid_call_leaves_an_unknown_outcome_and_is_begun_anew(
    box: Box,
) -> None:
    result = box.use("crash")
    assert result["error"] == "OUTCOME_UNKNOWN"
    assert "killed by SIGKILL" in result["message"]
    assert text_of(box.use("echo", "again")) == "again"


def test_a_call_that_takes_too_long_ends_its_server(box: Box) -> None:
    pins = box.pins()
    pid = box.pid
    result = box.use("sleep", "100", timeout_s=0.2, pin=pins["sleep"])
    assert result["error"] == "TIMEOUT"
    box.turn_until(lambda: is_gone(pid))
    flooded = box.use("flood", timeout_s=0.3, pin=pins["flood"])
    assert flooded["error"] == "TIMEOUT"
    box.mode = "deaf"
    assert box.ask("mcp_list", timeout_s=0.2)["error"] == "TIMEOUT"


def test_a_cancelled_call_ends_its_server(box: Box) -> None:
    pins = box.pins()
    call = box.call("sleeping")
    args = {"tool": "sleep", "arguments": {"text": "100"}, "pin": pins["sleep"]}
    begin(box.room, call, "mcp_call", {**box.server, **args})
    call.cancel()
    box.turn_until(lambda: is_gone(box.pid))
    assert call.frame is not None
    assert Decoder().feed(call.frame)[0]["result"]["error"] == "CANCELLED"


def test_an_answer_that_is_too_large_ends_the_server_and_a_large_one_comes_whole(box: Box) -> None:
    assert len(text_of(box.use("long", "200000"))) == 1_000_000
    result = box.use("huge", str(talking.LONGEST_LINE + 1_000_000))
    assert result["error"] == "OUTCOME_UNKNOWN"
    assert "in one line" in result["message"]


IDLE_TALK = """import fcntl, json, sys
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
for line in sys.stdin:
    asked = json.loads(line)
    result = {"tools": []} if asked["method"] == "tools/list" else {}
    print("\\n" * 600_000 + json.dumps({"id": asked.get("id"), "result": result}), flush=True)
"""


def test_a_server_that_says_nothing_in_very_many_lines_keeps_nobody_waiting(box: Box) -> None:
    result = box.ask("mcp_list", command=[sys.executable, "-c", IDLE_TALK])
    assert (result["success"], result["tools"]) == (True, [])


def test_a_server_that_does_not_read_is_given_up(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talking, "PENDING_BYTES", 200_000)
    pins = box.pins()
    os.kill(box.pid, 19)  # SIGSTOP
    large = "x" * 300_000
    result = box.use("echo", large, pin=pins["echo"])
    assert "does not read" in result["message"]


def test_large_arguments_arrive_whole(box: Box) -> None:
    assert len(text_of(box.use("echo", "y" * 300_000))) == 300_000


def test_another_command_under_the_same_name_is_another_server(box: Box) -> None:
    box.use("echo")
    before = box.pid
    box.use("echo", env={"A": "b"})
    box.turn_until(lambda: is_gone(before))
    assert box.pid != before


def test_servers_are_bounded_in_number(box: Box) -> None:
    for number in range(16):
        box.room.servers[f"s{number}"] = None  # type: ignore[assignment]  # only counted
    assert box.ask("mcp_list")["error"] == "TOO_MANY_SERVERS"
    box.room.servers.clear()


def test_a_sweep_leaves_servers_alone_unless_it_takes_all_that_runs(box: Box) -> None:
    box.use("echo")
    pid = box.pid
    box.ask("sweep", jobs=False)
    assert not is_gone(pid)
    box.ask("sweep", jobs=True)
    box.turn_until(lambda: is_gone(pid))


def test_arguments_that_are_no_object_are_refused(box: Box) -> None:
    result = box.ask("mcp_call", tool="echo", arguments=[], pin="")
    assert result["error"] == "VALIDATION_ERROR"


@pytest.mark.anyio
@pytest.mark.service("python3.8")
async def test_the_oldest_python_of_a_toolbox_speaks_to_servers_too(tmp_path: Path) -> None:
    server = {"server": "h", "command": [sys.executable, PROGRAM], "timeout_s": LONGEST_S}
    async with serving(tmp_path, python("3.8")) as old:
        listed = await old.run("mcp_list", **server)
        pins = {json.loads(text)["name"]: pin_of(text) for text in listed["tools"]}
        call = {"tool": "echo", "arguments": {"text": "old"}, "pin": pins["echo"]}
        result = await old.run("mcp_call", **server, **call)
        assert text_of(dict(result)) == "old"
        near = {"server": "n", "url": "http://127.0.0.1:1/mcp", "timeout_s": LONGEST_S}
        assert "cannot be reached" in (await old.run("mcp_list", **near))["message"]
