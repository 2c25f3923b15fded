"""`mcp_list` and `mcp_call`: tools of MCP servers, which run in here like any command.

A server is started by its first call and stays. Its tools are listed when it starts, and again
when it says that they changed; a tool is called only while it is as the caller knows it, by hash.
Whatever a server asks of its client is refused. A call whose time is over ends its server.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys

from . import arguments
from .answers import Refusal, failure, success
from .commands import Launch, environment
from .running import open_directory, variables
from .talking import Talker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator

    from .calls import Call
    from .room import Room

    Answer = dict[str, Any]

VERSION = "2025-06-18"  # of the protocol; a server may answer with another that it speaks
USUAL_TIMEOUT_S = 60.0
MAX_SERVERS = 16
MAX_TOOLS = 512
MAX_PAGES = 64
LISTED_BYTES = 4 * 1024 * 1024  # of all tools of a server
DESCRIBED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
BRIDGE = "import sys; sys.path.append(sys.argv[1]); from toolbox.bridging import main; main()"
ISOLATED = ("-I", "-S", "-B")  # as toolboxes are started
NO_METHOD = -32601  # JSON-RPC 2.0, 5.1
UNKNOWN = "OUTCOME_UNKNOWN"
FAILED = "MCP_SERVER_FAILED"


class Fault(Exception):
    """A server that does not keep to the protocol."""


class McpServer:
    """One server that runs, or did."""

    def __init__(self, room: Room, name: str, launch: Launch, key: str) -> None:
        self.name = name
        self.key = key  # what it was started as
        self.tools: dict[str, str] = {}  # by name, as canonical text
        self.refused: list[str] = []  # what it asked for, since the last answer
        self._is_stale = True  # the tools are not listed
        self._numbers = 0
        self._waiting: dict[int, Callable[[Answer], None]] = {}
        self._ready: list[Callable[[str], None]] = []  # who waits for the tools
        self._ended = ""
        self._opening: Generator[tuple[str, Answer], Answer, None] | None = None
        self.talker = Talker(room, launch, self._hear, self._over)
        self._open(self._introducing())

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self.talker.is_open

    def when_ready(self, told: Callable[[str], None]) -> None:
        """Call `told` once the tools are listed; with a text: why they never will be."""
        if not self.is_open:
            told(self._ended)
        elif self._opening is None and not self._is_stale:
            told("")
        else:
            self._ready.append(told)
            if self._opening is None:
                self._open(self._listing())

    def ask(self, method: str, params: Answer, told: Callable[[Answer], None]) -> None:
        """Send a request; `told` gets the answer, or an `ended` in its place."""
        self._numbers += 1
        self._waiting[self._numbers] = told
        self.talker.say({"jsonrpc": "2.0", "id": self._numbers, "method": method, "params": params})

    def _introducing(self) -> Generator[tuple[str, Answer], Answer, None]:
        hello = {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "patchyard", "version": "1"},
        }
        yield "initialize", hello
        self.talker.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield from self._listing()

    def _listing(self) -> Generator[tuple[str, Answer], Answer, None]:
        self._is_stale = False
        found: dict[str, str] = {}
        params: Answer = {}
        room = LISTED_BYTES
        for _ in range(MAX_PAGES):
            page = yield "tools/list", params
            tools = page.get("tools")
            for tool in tools if isinstance(tools, list) else ():
                name, text = described(tool)
                room -= len(text)
                if name in found or len(found) >= MAX_TOOLS or room < 0:
                    why = "twice the name %r" % name[:100] if name in found else "too many tools"
                    raise Fault("it listed " + why)
                found[name] = text
            if not isinstance(page.get("nextCursor"), str):
                self.tools = found
                return
            params = {"cursor": page["nextCursor"]}
        raise Fault("its list of tools does not end")

    def _open(self, opening: Generator[tuple[str, Answer], Answer, None]) -> None:
        self._opening = opening
        self._go_on(None)

    def _go_on(self, answer: Answer | None) -> None:
        assert self._opening is not None  # noqa: S101 - only called while it goes on
        result = None if answer is None else answer.get("result")
        if answer is not None and not isinstance(result, dict):
            self.talker.end("it refused to begin: %s" % said(answer))
            return
        try:
            method, params = next(self._opening) if result is None else self._opening.send(result)
            self.ask(method, params, self._opened)
        except StopIteration:
            self._opening = None
            self._tell("")
        except Fault as fault:
            self.talker.end(str(fault))

    def _opened(self, answer: Answer) -> None:
        if "ended" not in answer:
            self._go_on(answer)

    def _tell(self, why: str) -> None:
        ready, self._ready = self._ready, []
        for told in ready:
            told(why)

    def _hear(self, message: Answer) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            self._on_asked(method, number)
        elif isinstance(number, int) and number in self._waiting:
            self._waiting.pop(number)(message)

    def _on_asked(self, method: str, number: object) -> None:
        if method == "notifications/tools/list_changed":
            self._is_stale = True
        elif number is not None and method == "ping":
            self.talker.say({"jsonrpc": "2.0", "id": number, "result": {}})
        elif number is not None:
            if len(self.refused) < 10:
                self.refused.append(method[:100])
            error = {"code": NO_METHOD, "message": "this client allows no %s" % method[:100]}
            self.talker.say({"jsonrpc": "2.0", "id": number, "error": error})

    def _over(self, why: str) -> None:
        words = self.talker.last_words()
        self._ended = "%s%s" % (why, "; its last words: %s" % words if words else "")
        waiting, self._waiting = self._waiting, {}
        for told in waiting.values():
            told({"ended": self._ended})
        self._tell(self._ended)


def described(tool: object) -> tuple[str, str]:
    """Return a listed tool's name, and all that describes it as one canonical text."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        raise Fault("it listed a tool without a name")
    kept = {key: tool[key] for key in DESCRIBED if tool.get(key) is not None}
    return tool["name"], json.dumps(kept, sort_keys=True, separators=(",", ":"))


def pin_of(text: str) -> str:
    """Return the hash by which a tool is known."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def said(answer: Answer) -> str:
    """Return what an error answer says."""
    error = answer.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message[:2000] if isinstance(message, str) else "no reason given"


def _command(args: Answer) -> list[str]:
    """Return what starts the server: a program, or our own bridge to one that listens."""
    if "url" in args:
        parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return [*_own_start(), *ISOLATED, "-c", BRIDGE, parent, arguments.text(args, "url")]
    command = args.get("command")
    is_list = isinstance(command, list) and all(isinstance(word, str) for word in command)
    if not is_list or not command or "\0" in "".join(command):
        raise Refusal("VALIDATION_ERROR", "`command` must be a list of texts")
    return list(command)


def _own_start() -> list[str]:
    """Return how this very Python was started: a carried one by a loader, with its libraries."""
    with open("/proc/self/cmdline", encoding="utf-8", errors="surrogateescape") as file:
        words = file.read().split("\0")
    return words[: words.index("-I")] if "-I" in words else [sys.executable]


def _started(room: Room, call: Call, args: Answer) -> McpServer:
    """Return the server that `args` describes, started now when it does not run as such."""
    name, command = arguments.text(args, "server"), _command(args)
    env = environment(room, variables(args), call.mark)
    key = json.dumps([command, variables(args)], sort_keys=True)
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
        room.servers[name] = McpServer(room, name, launch, key)
    except OSError as error:
        message = "%s cannot be started: %s" % (command[0][:200], os.strerror(error.errno or 0))
        raise Refusal(FAILED, message) from error
    finally:
        os.close(directory)
    return room.servers[name]


class _Turn:
    """One call while it waits for a server."""

    def __init__(self, room: Room, call: Call, args: Answer) -> None:
        self.call = call
        self.server = _started(room, call, args)
        self.timeout_s = arguments.number(args, "timeout_s", USUAL_TIMEOUT_S)
        self.is_sent = False
        self._timer = room.loop.later(self.timeout_s, self._time_out)
        call.on_cancel = self._cancel

    def settle(self, result: Answer) -> None:
        """Settle the call, with what the server asked for meanwhile."""
        self._timer.cancel()
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
    turn = _Turn(room, call, args)

    def listed(why: str) -> None:
        if why:
            turn.fail(why)
            return
        tools = turn.server.tools
        turn.settle(success("%d tools" % len(tools), tools=list(tools.values())))

    turn.server.when_ready(listed)


def mcp_call(room: Room, call: Call, args: Answer) -> None:
    """Call a tool, once, if it is still the one with the hash `pin`."""
    tool, given, pin = arguments.text(args, "tool"), args.get("arguments"), args.get("pin")
    if not isinstance(given, dict):
        raise Refusal("VALIDATION_ERROR", "`arguments` must be an object")
    turn = _Turn(room, call, args)

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
            turn.server.ask("tools/call", {"name": tool, "arguments": given}, answered)

    def answered(answer: Answer) -> None:
        if "ended" in answer:
            turn.fail(answer["ended"])
            return
        result = answer.get("result")
        if not isinstance(result, dict):
            turn.settle(failure("MCP_ERROR", said(answer)))
            return
        text = json.dumps(result, separators=(",", ":"))
        if result.get("isError") is True:
            message = "the tool says that it failed"
            turn.settle(failure("MCP_TOOL_ERROR", message, answer=text))
        else:
            turn.settle(success("answered", answer=text))

    turn.server.when_ready(ready)


__all__ = [
    "FAILED",
    "UNKNOWN",
    "Fault",
    "McpServer",
    "described",
    "mcp_call",
    "mcp_list",
    "pin_of",
    "said",
]
