"""One MCP server that runs: spoken to in lines, listed, held to what it listed.

Knows nothing of calls but what they are told, and whom a question can be put to.
"""

from __future__ import annotations

import hashlib

from .talking import Talker
from .wire import dumped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator, Protocol

    from .commands import Launch
    from .room import Room

    Answer = dict[str, Any]

    class Turn(Protocol):
        """One call while it waits for a server."""

        @property
        def can_ask(self) -> bool:
            """Whether a question may be put to whoever waits for it."""

        def ask(self, method: str, number: object, params: str) -> None:
            """Put a question."""


VERSION = "2025-06-18"  # of the protocol; a server may answer with another that it speaks
MAX_TOOLS = 512
MAX_PAGES = 64
LISTED_BYTES = 4 * 1024 * 1024  # of all tools of a server
DESCRIBED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
NO_METHOD = -32601  # JSON-RPC 2.0, 5.1
ASKABLE = frozenset({"elicitation/create", "sampling/createMessage"})  # methods that can be put
ASKED_BYTES = 64 * 1024  # of one question


class Fault(Exception):
    """A server that does not keep to the protocol."""


class McpServer:
    """One server that runs, or did."""

    def __init__(
        self, room: Room, name: str, launch: Launch, key: str, allowed: frozenset[str]
    ) -> None:
        self.name = name
        self.allowed = allowed  # what it may ask for, by capability
        self.turns: list[Turn] = []  # calls that were sent and are not answered
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
            "capabilities": {name: {} for name in sorted(self.allowed)},
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
            self._on_asked(method, number, message.get("params"))
        elif isinstance(number, int) and number in self._waiting:
            self._waiting.pop(number)(message)

    def _on_asked(self, method: str, number: object, params: object) -> None:
        if method == "notifications/tools/list_changed":
            self._is_stale = True
        elif number is not None and method == "ping":
            self.talker.say({"jsonrpc": "2.0", "id": number, "result": {}})
        elif number is not None and not self._is_put(method, number, params):
            if len(self.refused) < 10:
                self.refused.append(method[:100])
            error = {"code": NO_METHOD, "message": "this client allows no %s" % method[:100]}
            self.talker.say({"jsonrpc": "2.0", "id": number, "error": error})

    def _is_put(self, method: str, number: object, params: object) -> bool:
        """Whether what it asks for is allowed, and was put to whoever waits for its answer."""
        if method.partition("/")[0] not in self.allowed or method not in ASKABLE:
            return False
        turn = next((turn for turn in self.turns if turn.can_ask), None)
        text = dumped(params)
        if turn is None or len(text) > ASKED_BYTES:
            return False
        turn.ask(method, number, text)
        return True

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
    return tool["name"], dumped(kept, is_sorted=True)


def pin_of(text: str) -> str:
    """Return the hash by which a tool is known."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def said(answer: Answer) -> str:
    """Return what an error answer says."""
    error = answer.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message[:2000] if isinstance(message, str) else "no reason given"


__all__ = ["Fault", "McpServer", "described", "pin_of", "said"]
