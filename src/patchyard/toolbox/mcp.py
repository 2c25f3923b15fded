"""`mcp_list`, `mcp_call`, `mcp_answer`: tools of MCP servers, which run in here like any command.

A server is started by its first call and stays. Its tools are listed when it starts, and again
when it says that they changed; a tool is called only while it is as the caller knows it, by hash.
What a server asks of its client is refused, or settles its call where that was allowed: the answer
comes as another call, which goes on with it. A call whose time is over ends its server.
"""

from __future__ import annotations

import json
import os
import shutil
import sys

from . import arguments
from .answers import Refusal, failure, success
from .commands import Launch, environment
from .running import open_directory, variables
from .serving import McpServer, pin_of, said
from .wire import dumped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .calls import Call
    from .room import Room

    Answer = dict[str, Any]

USUAL_TIMEOUT_S = 60.0
MAX_SERVERS = 16
BRIDGE = "import sys; sys.path.append(sys.argv[1]); from toolbox.bridging import main; main()"
ADDRESS = "PATCHYARD_MCP_ADDRESS"  # of commands' variables, for the bridge: other users read argv
ISOLATED = ("-I", "-S", "-B")  # as toolboxes are started
MAX_ASKED = 10  # questions in one call
UNKNOWN = "OUTCOME_UNKNOWN"
FAILED = "MCP_SERVER_FAILED"


def _command(args: Answer) -> list[str]:
    """Return what starts the server: a program, or our own bridge to one that listens."""
    if "url" in args:
        parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return [*_own_start(), *ISOLATED, "-c", BRIDGE, parent, ADDRESS]
    command = args.get("command")
    is_list = isinstance(command, list) and all(isinstance(word, str) for word in command)
    if not is_list or not command or "\0" in "".join(command):
        raise Refusal("VALIDATION_ERROR", "`command` must be a list of texts")
    return list(command)


def _allowed(args: Answer) -> frozenset[str]:
    """Return what the server may ask for."""
    names = args.get("allow", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Refusal("VALIDATION_ERROR", "`allow` must be a list of texts")
    return frozenset(names)


def _own_start() -> list[str]:
    """Return how this very Python was started: a carried one by a loader, with its libraries."""
    with open("/proc/self/cmdline", encoding="utf-8", errors="surrogateescape") as file:
        words = file.read().split("\0")
    return words[: words.index("-I")] if "-I" in words else [sys.executable]


def _started(room: Room, call: Call, args: Answer) -> McpServer:
    """Return the server that `args` describes, started now when it does not run as such."""
    name, command = arguments.text(args, "server"), _command(args)
    allowed = _allowed(args)
    given = variables(args)
    if "url" in args:
        given[ADDRESS] = arguments.text(args, "url")
    env = environment(room, given, call.mark)
    key = json.dumps([command, given, sorted(allowed)], sort_keys=True)
    found = room.servers.get(name)
    if found is not None and found.is_open and found.key == key:
        return found
    if found is not None:
        found.talker.end("another one takes its place")
    elif len(room.servers) >= MAX_SERVERS:
        raise Refusal("TOO_MANY_SERVERS", "%d servers were started already" % MAX_SERVERS)
    program = shutil.which(command[0], path=env["PATH"]) if "/" not in command[0] else command[0]
    if program is None:
        raise Refusal(FAILED, "there is no program %s in here" % command[0][:200])
    directory = open_directory(room, {})
    try:
        launch = Launch([program, *command[1:]], env, directory)
        room.servers[name] = McpServer(room, name, launch, key, allowed)
    except OSError as error:
        message = "%s cannot be started: %s" % (command[0][:200], os.strerror(error.errno or 0))
        raise Refusal(FAILED, message) from error
    finally:
        os.close(directory)
    return room.servers[name]


class Turn:
    """One call while it waits for a server."""

    def __init__(self, room: Room, call: Call, args: Answer) -> None:
        self.call = call
        self.server = _started(room, call, args)
        self.timeout_s = arguments.number(args, "timeout_s", USUAL_TIMEOUT_S)
        self.is_sent = False
        self._room = room
        self._asked: object = None  # id of the question that waits for an answer
        self._questions = 0
        self._left: Answer | None = None  # what it came to while a question waited
        self._timer = room.loop.later(self.timeout_s, self._time_out)
        call.on_cancel = self._cancel

    @property
    def can_ask(self) -> bool:
        """Whether a question may be put to whoever waits for this call."""
        return not self.call.is_over and self._questions < MAX_ASKED

    def ask(self, method: str, number: object, params: str) -> None:
        """Settle the call with a question; `go_on` brings the answer, in time or never."""
        self._asked = number
        self._questions += 1
        self._room.asking[self.call.call_id] = self
        self.call.settle(success("the server asks", asks={"method": method, "params": params}))

    def go_on(self, call: Call, answer: Answer, timeout_s: float) -> None:
        """Give the server its answer; `call` is settled with what comes of that."""
        self.call = call
        call.on_cancel = self._cancel
        number, self._asked = self._asked, None
        if self._left is not None:
            self.settle(self._left)
            return
        self._timer.cancel()
        self._timer = self._room.loop.later(timeout_s, self._time_out)
        error = answer.get("error")  # a refusal is no result of the protocol
        outcome = {"error": error} if isinstance(error, dict) else {"result": answer}
        self.server.talker.say({"jsonrpc": "2.0", "id": number, **outcome})

    def settle(self, result: Answer) -> None:
        """Settle the call, with what the server asked for meanwhile."""
        self._timer.cancel()
        if self in self.server.turns:
            self.server.turns.remove(self)
        if self._asked is not None:
            self._left = self._left or result
            return
        refused, self.server.refused = self.server.refused, []
        self.call.settle({**result, "refused": refused} if refused else result)

    def fail(self, why: str) -> None:
        """Settle it for a server that is gone."""
        if self.is_sent:
            message = "the server %s was lost in mid-call (%s): it is not known what this did"
            self.settle(failure(UNKNOWN, message % (self.server.name, why)))
        else:
            message = "the server %s does not work: %s" % (self.server.name, why)
            self.settle(failure(FAILED, message))

    def _time_out(self) -> None:
        message = "%s gave no answer within %g s and was ended; it begins anew with the next call"
        self.settle(failure("TIMEOUT", message % (self.server.name, self.timeout_s)))
        self.server.talker.end("its time was over")

    def _cancel(self) -> None:
        self.settle(failure("CANCELLED", "cancelled; the server was ended"))
        self.server.talker.end("its call was cancelled")


def mcp_list(room: Room, call: Call, args: Answer) -> None:
    """Settle `call` with the tools of a server, each as the text that its hash is of."""
    turn = Turn(room, call, args)

    def listed(why: str) -> None:
        if why:
            turn.fail(why)
            return
        tools = turn.server.tools
        turn.settle(success("%d tools" % len(tools), tools=list(tools.values())))

    turn.server.when_ready(room.loop.guarded(listed))


def mcp_answer(room: Room, call: Call, args: Answer) -> None:
    """Give a server the answer that the call `asked_by` was settled with the question for."""
    turn, answer = room.asking.pop(arguments.text(args, "asked_by"), None), args.get("answer")
    if turn is None:
        raise Refusal(UNKNOWN, "no server waits for that answer any more")
    if not isinstance(answer, dict):
        raise Refusal("VALIDATION_ERROR", "`answer` must be an object")
    turn.go_on(call, answer, arguments.number(args, "timeout_s", USUAL_TIMEOUT_S))


def mcp_call(room: Room, call: Call, args: Answer) -> None:
    """Call a tool, once, if it is still the one with the hash `pin`."""
    tool, given, pin = arguments.text(args, "tool"), args.get("arguments"), args.get("pin")
    if not isinstance(given, dict):
        raise Refusal("VALIDATION_ERROR", "`arguments` must be an object")
    turn = Turn(room, call, args)

    def ready(why: str) -> None:
        if turn.call.is_over:
            return
        known = turn.server.tools.get(tool)
        if why:
            turn.fail(why)
        elif known is None or pin_of(known) != pin:
            became = "is not there any more" if known is None else "is not what it was"
            message = "%s of %s %s; it was not called" % (tool, turn.server.name, became)
            turn.settle(failure("MCP_TOOL_CHANGED", message))
        else:
            turn.is_sent = True
            turn.server.turns.append(turn)
            params = {"name": tool, "arguments": given}
            turn.server.ask("tools/call", params, room.loop.guarded(answered))

    def answered(answer: Answer) -> None:
        if "ended" in answer:
            turn.fail(answer["ended"])
            return
        result = answer.get("result")
        if not isinstance(result, dict):
            turn.settle(failure("MCP_ERROR", said(answer)))
            return
        text = dumped(result)
        if result.get("isError") is True:
            message = "the tool says that it failed"
            turn.settle(failure("MCP_TOOL_ERROR", message, answer=text))
        else:
            turn.settle(success("answered", answer=text))

    turn.server.when_ready(room.loop.guarded(ready))


__all__ = ["FAILED", "UNKNOWN", "Turn", "mcp_answer", "mcp_call", "mcp_list"]
