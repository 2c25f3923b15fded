"""The tool server: calls come over a listening Unix socket that was passed in, or over pipes.

Lives while an engine is connected and a grace time longer; ends with everything it started.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

from . import operations, processes, walled
from .answers import failure, internal
from .calls import Call, Register, killed_for_memory, killed_in_group
from .commands import find_shell
from .confinement import Offering, confine, make_home
from .connection import Connection
from .entrances import Listener
from .passing import receive
from .room import Room
from .settings import PASSED, Settings
from .wire import PROTOCOL, TOO_DEEP, WireError, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .loop import Timer
    from .piping import StandardStreams

ENDING_S = 2.0
HEARD = frozenset({signal.SIGALRM, signal.SIGCHLD})
LONGEST_ID = 128
LARGEST_BLOCK = 4 * 1024 * 1024
"""Bytes of a block of memory that is kept for the next one: an output of 1 MB fits in any form."""


class Server:
    """One toolbox."""

    def __init__(
        self, settings: Settings, entrance: Listener | StandardStreams, walls: dict[str, object]
    ) -> None:
        self._room = Room(settings)
        self._walls = walls  # what was seen of them, before anything else ran here
        self._entrance = entrance
        self._register = Register()
        self._connections: set[Connection] = set()
        self._token = os.urandom(8).hex()
        self._grace: Timer | None = None
        self._is_ending = False
        self._room.loop.owner = _endured

    def run(self) -> None:
        """Serve until told to end, or nobody has been connected for the grace time."""
        self._catch_signals()
        self._start_grace()
        self._entrance.open(self._room.loop, self._admit, self.end)
        while not self._is_ending:
            self._room.loop.turn()
        for connection in list(self._connections):
            connection.close()
        self._entrance.close()
        if os.getpid() != 1:
            self._end_tree()
        self._room.close()

    def _catch_signals(self) -> None:
        """Let children be reaped, and commands end nothing where this is the first process."""
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        if os.getpid() == 1:
            _hear_nothing()
        else:
            signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # commands begin with a limit from us

        def on_signal(_events: int) -> None:
            os.read(reading, 4096)
            self._room.children.reap()

        self._room.loop.watch(reading, on_signal)

    def _on_term(self, _number: int, _frame: object) -> None:
        self._is_ending = True

    def _start_grace(self) -> None:
        self._grace = self._room.loop.later(self._room.settings.grace_s, self.end)

    def _admit(self, accepted: socket.socket) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        accepted.setblocking(False)
        self._connections.add(
            Connection(accepted, self._room.loop, self._on_message, self._on_closed)
        )

    def _on_closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        for call in self._register.calls.values():
            call.unwatch(connection)
        if not self._connections and not self._is_ending:
            self._start_grace()

    def end(self) -> None:
        """Leave the loop; everything this toolbox started ends with it."""
        self._is_ending = True

    def _end_tree(self) -> None:
        mark = ("%s=%s." % (processes.MARKER, self._token)).encode("ascii")
        deadline = time.monotonic() + ENDING_S
        while time.monotonic() < deadline:
            found = processes.kill_all(lambda table: processes.all_of(mark, table))
            self._room.children.reap()
            if not found:
                return
            time.sleep(0.002)

    def _on_message(self, connection: Connection, message: dict[str, Any]) -> None:
        handlers = {
            "call": self._on_call,
            "attach": self._on_attach,
            "cancel": self._on_cancel,
            "forget": self._on_forget,
            "hello": self._on_hello,
            "listen": self._on_listen,
            "set_variables": self._on_set_variables,
        }
        do = message.get("do")
        if do == "end":
            self.end()
        elif isinstance(do, str) and do in handlers:
            try:
                handlers[do](connection, message)
            except Exception as error:  # noqa: BLE001 - of one request: the others go on
                self._on_defect(connection, message, error)
        else:
            connection.send(encode({"say": "error", "message": "no such request"}))

    def _on_defect(self, connection: Connection, message: dict[str, Any], error: Exception) -> None:
        """Settle the call that a request was about; else tell the peer."""
        failed = internal(error)
        call = self._register.calls.get(str(message.get("call_id")))
        if call is not None and call.frame is None:
            call.fail(failed)
        else:
            connection.send(encode({"say": "error", "message": failed["message"]}))

    def _on_hello(self, connection: Connection, _message: dict[str, Any]) -> None:
        hello = {
            "say": "hello",
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "python": "%d.%d.%d" % sys.version_info[:3],
            "shell": find_shell(),
            "calls": list(self._register.calls),
            "walls": self._walls,
        }
        connection.send(encode(hello))

    def _on_set_variables(self, connection: Connection, message: dict[str, Any]) -> None:
        """Take the variables of commands, which stand in no command line."""
        given = message.get("variables")
        if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
            connection.send(encode({"say": "error", "message": "variables are an object of texts"}))
            return
        self._room.settings.env = given
        make_home(given.get("HOME", ""))

    def _on_call(self, connection: Connection, message: dict[str, Any]) -> None:
        call_id = message.get("call_id")
        op, args = message.get("op"), message.get("args")
        if not isinstance(call_id, str) or not _is_id(call_id):
            connection.send(encode({"say": "error", "message": "a call needs a call_id"}))
            return
        if not isinstance(op, str) or not isinstance(args, dict):
            connection.send(encode({"say": "error", "message": "a call needs op and args"}))
            return
        if call_id in self._register.calls or self._register.is_gone(call_id):
            self._on_attach(connection, message)
            return
        settings = self._room.settings
        grouped = killed_in_group if settings.is_grouped else None
        count = killed_for_memory if settings.is_machine else grouped
        call = Call(call_id, "%s.%s" % (self._token, call_id), encode_result, count)
        self._register.add(call)
        call.watch(connection, is_listening=_is_listening(message))
        operations.begin(self._room, call, op, args)

    def _on_attach(self, connection: Connection, message: dict[str, Any]) -> None:
        call_id = message.get("call_id")
        if not isinstance(call_id, str) or not _is_id(call_id):
            connection.send(encode({"say": "error", "message": "a call needs a call_id"}))
            return
        call = self._register.calls.get(call_id)
        if call is not None:
            call.watch(connection, is_listening=_is_listening(message))
        elif self._register.is_gone(call_id):
            gone = {
                "success": False,
                "error": "OUTCOME_UNKNOWN",
                "message": "this call was settled before; its result is not held any more",
            }
            connection.send(encode_result(call_id, gone))
        else:
            connection.send(encode({"say": "unknown", "call_id": call_id}))

    def _on_cancel(self, _connection: Connection, message: dict[str, Any]) -> None:
        call = self._register.calls.get(str(message.get("call_id")))
        if call is not None:
            call.cancel()

    def _on_forget(self, _connection: Connection, message: dict[str, Any]) -> None:
        names = message.get("call_ids")
        for name in names if isinstance(names, list) else ():
            self._register.forget(str(name))

    def _on_listen(self, connection: Connection, _message: dict[str, Any]) -> None:
        from .listening import open_listener  # noqa: PLC0415 - only where a network is granted

        try:
            with open_listener() as listener:
                frame = encode({"say": "listening", "port": listener.getsockname()[1]})
                connection.send_descriptor(frame, listener.fileno())
        except OSError as error:
            connection.send(encode({"say": "error", "message": "cannot listen: %s" % error}))


def encode_result(call_id: str, result: dict[str, Any]) -> bytes:
    """Return the frame of a result, its longest texts halved until it fits."""
    frame = _try_to_encode(call_id, result)
    while frame is None:
        name = max(result, key=lambda key: _length(result[key]))
        value = result[name]
        if isinstance(value, str):
            quarter = len(value) // 4
            result[name] = value[:quarter] + "\n[... cut ...]\n" + value[-quarter:]
        else:
            result[name] = value[: len(value) // 2]
        result["truncated"] = True
        frame = _try_to_encode(call_id, result)
    return frame


def _try_to_encode(call_id: str, result: dict[str, Any]) -> bytes | None:
    try:
        return encode({"say": "result", "call_id": call_id, "result": result})
    except WireError as error:
        if isinstance(error.__cause__, RecursionError):
            return _try_to_encode(call_id, failure("INTERNAL_ERROR", "the result is %s" % TOO_DEEP))
        if error.__cause__ is not None:
            return _try_to_encode(call_id, failure("INTERNAL_ERROR", "the result: %s" % error))
        return None


def _length(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(len(str(item)) for item in value) if isinstance(value, list) else 0


def _is_listening(message: dict[str, Any]) -> bool:
    """Whether the caller wants output as it comes; the result holds it either way."""
    return message.get("is_listening") is not False


def _is_id(value: str) -> bool:
    return (
        0 < len(value) <= LONGEST_ID
        and value.isascii()
        and all(character.isalnum() or character in "-_.:" for character in value)
    )


def _endured(_error: Exception) -> None:
    """Go on after an exception in what is of no call: its connection or its start is told."""


def _hear_nothing() -> None:
    """Keep out what may be sent from inside: an end comes over the connection, or by SIGKILL.

    Linux keeps from the first process of a namespace each signal that it has no handler for, gVisor
    does not. What is blocked stays pending; a fault of our own ends us all the same. Commands start
    with nothing blocked.
    """
    signal.signal(signal.SIGALRM, _ignore)  # a search that takes long needs it
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - HEARD)


def _ignore(_number: int, _frame: object) -> None:
    """Let the signal wake the loop, nothing else."""


def _close_inherited(kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd != kept:
            _close(fd)


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:  # the listing's own descriptor
        return


def _entrance(settings: Settings) -> Listener | StandardStreams:
    if settings.is_piped:
        from .piping import standard_streams  # noqa: PLC0415 - only where no socket comes in

        return standard_streams()
    listener = socket.socket(fileno=settings.listen_fd)
    listener.set_inheritable(False)
    return Listener(listener)


def keep_large_blocks() -> None:
    """Let this process use freed blocks of some megabytes again.

    glibc gives each block above a threshold fresh pages, which cost more than what is done with
    them, until a larger one is freed: that raises the threshold, see mallopt(3). The zeros here are
    never touched, so that they take no page. To ask by `ctypes` would cost each start 1.5 ms.
    """
    bytes(LARGEST_BLOCK)


def main(text: str) -> int:
    """Serve by the options in `text`, a JSON object; return the exit code."""
    settings = Settings(text)
    _close_inherited(settings.listen_fd)
    if settings.replica and settings.replica != PASSED:
        settings.replica_fd = os.open(settings.replica, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if settings.listen_from:
        further = receive(settings.listen_from, settings.listen_fd)
        settings.replica_fd = further if settings.replica == PASSED else settings.replica_fd
    keep_large_blocks()
    os.chdir("/")
    os.umask(0o022)
    walls: dict[str, object] = dict(walled.seen())
    settings.offering = Offering()
    confine(settings)
    if settings.seccomp or walls[walled.MODE] == walled.FILTERED:
        walls[walled.UNREFUSED] = walled.unrefused()
    server = Server(settings, _entrance(settings), walls)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in range(3):
        os.dup2(null, fd)
    os.close(null)
    server.run()
    return 0


__all__ = [
    "ENDING_S",
    "HEARD",
    "LARGEST_BLOCK",
    "LONGEST_ID",
    "Server",
    "encode_result",
    "keep_large_blocks",
    "main",
]
