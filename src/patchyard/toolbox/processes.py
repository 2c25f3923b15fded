"""Starts processes, reaps them, and finds and kills whole trees through /proc."""

from __future__ import annotations

import os
import signal
import time

from .confinement import limit_command, limit_next

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Callable

    from .confinement import Offering

MARKER = "PATCHYARD_CALL"
FREEZING_ROUNDS = 20
_STOPPED = (b"T", b"t")
STOPPED_S = 1.0  # by then everybody stands, or cannot be stopped
STOPPING_S = 0.001  # a signal takes effect when its process next runs
_DEFAULT = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGXCPU,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGCHLD,
)


class Children:
    """The processes this toolbox started; also adopts and reaps what its descendants leave."""

    def __init__(self, rlimits: dict[str, int], offering: Offering | None = None) -> None:
        self._rlimits = rlimits
        self._offering = offering
        self._on_exit: dict[int, Callable[[int, resource.struct_rusage], None]] = {}
        self.guarded: Callable[[Callable[..., None]], Callable[..., None]] = _as_it_is
        """Makes callbacks of which an exception ends no others; see the loop."""

    def spawn(
        self,
        argv: list[str],
        env: dict[str, str],
        directory: int,
        descriptors: dict[int, int],
        on_exit: Callable[[int, resource.struct_rusage], None],
    ) -> int:
        """Start `argv` in its own session, in the folder open as `directory`.

        `descriptors` maps numbers inside to ours; the rest is closed. `on_exit` gets the exit
        code, -N for signal N, and what it used with all that it has waited for. Raises OSError.
        """
        actions = [(os.POSIX_SPAWN_DUP2, ours, number) for number, ours in descriptors.items()]
        os.fchdir(directory)  # posix_spawn cannot; nothing else here depends on it
        pid = 0
        limit_next(self._rlimits)
        if self._offering:
            self._offering.begin()
        try:
            pid = os.posix_spawn(
                _bytes(argv[0]),
                [_bytes(word) for word in argv],
                {_bytes(name): _bytes(value) for name, value in env.items()},
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT,
            )
        finally:
            os.chdir("/")
            if self._offering:
                self._offering.end()
            limit_command(pid, self._rlimits)
        self._on_exit[pid] = self.guarded(on_exit)
        return pid

    def reap(self) -> None:
        """Take each exit status there is and tell who waits for it."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            on_exit = self._on_exit.pop(pid, None)
            if on_exit is not None:
                on_exit(exit_code(status), used)

    def are_all_known(self, pid: int) -> bool:
        """Whether no started process but `pid` runs."""
        return not set(self._on_exit) - {pid}


def _as_it_is(callback: Callable[..., None]) -> Callable[..., None]:
    return callback


def exit_code(status: int) -> int:
    """Return the exit code of a wait status, -N for signal N."""
    if os.WIFSIGNALED(status):
        return -os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


class Process:
    """One row of /proc."""

    __slots__ = ("cpu", "parent", "pid", "session", "state")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.cpu = int(fields[11]) + int(fields[12])  # clock ticks


def snapshot() -> dict[int, Process]:
    """Return every living process that can be seen; zombies are not living."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        text = _read("/proc/%s/stat" % name)
        fields = text.rpartition(b")")[2].split()
        if len(fields) > 12 and fields[0] not in (b"Z", b"X"):
            found[int(name)] = Process(int(name), fields)
    return found


def members(root: int, marker: str, table: dict[int, Process]) -> set[int]:
    """Return who belongs to `root`: its descendants, its session, and who carries `marker`."""
    found = {pid for pid, row in table.items() if root in (pid, row.session)}
    needle = _bytes("%s=%s" % (MARKER, marker))
    found.update(pid for pid in table if needle in _environ(pid))
    return close_over(found, table)


def close_over(found: set[int], table: dict[int, Process]) -> set[int]:
    """Return `found` with all their descendants, without this process."""
    children: dict[int, list[int]] = {}
    for pid, row in table.items():
        children.setdefault(row.parent, []).append(pid)
    pending = list(found)
    closed = set(found)
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in closed:
                closed.add(child)
                pending.append(child)
    closed.discard(os.getpid())
    return closed


def all_of(mark: bytes, table: dict[int, Process]) -> set[int]:
    """Return every descendant of this process, and who carries a marker that starts so."""
    found = {pid for pid, row in table.items() if row.parent == os.getpid()}
    for pid in table:
        if any(word.startswith(mark) for word in _environ(pid)):
            found.add(pid)
    return close_over(found, table)


def unmarked_orphans(table: dict[int, Process]) -> set[int]:
    """Return adopted processes that shed their marker: nobody can say whose they are."""
    mine = {pid for pid, row in table.items() if row.parent == os.getpid()}
    name = _bytes(MARKER + "=")
    return {pid for pid in mine if not any(word.startswith(name) for word in _environ(pid))}


def kill_all(find: Callable[[dict[int, Process]], set[int]]) -> int:
    """Kill whom `find` finds, frozen first so that none forks away; return how many there were."""
    frozen: set[int] = set()
    for _ in range(FREEZING_ROUNDS):
        new = find(snapshot()) - frozen
        if not new:
            break
        for pid in new:
            send(pid, signal.SIGSTOP)
        frozen |= new
    for pid in frozen:
        send(pid, signal.SIGKILL)
    return len(frozen)


def stop_all(find: Callable[[dict[int, Process]], set[int]]) -> tuple[set[int], bool]:
    """Stop whom `find` finds; return those that were not stopped before, and whether all stand."""
    stopped: set[int] = set()
    deadline = time.monotonic() + STOPPED_S
    while time.monotonic() < deadline:
        table = snapshot()
        running = {pid for pid in find(table) if table[pid].state not in _STOPPED}
        if not running:
            return stopped, True
        for pid in running:
            send(pid, signal.SIGSTOP)
        for pid in _holding_up(running, table) & stopped:
            send(pid, signal.SIGCONT)  # it is stopped again once it has let its parent go on
        stopped |= running
        time.sleep(STOPPING_S)
    return stopped, False


def _holding_up(running: set[int], table: dict[int, Process]) -> set[int]:
    """Return the stopped children that a parent waits for inside the kernel, as vfork does."""
    waiting = {pid for pid in running if table[pid].state == b"D"}
    return {pid for pid, row in table.items() if row.parent in waiting and row.state in _STOPPED}


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _environ(pid: int) -> list[bytes]:
    return _read("/proc/%d/environ" % pid).split(b"\0")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


__all__ = [
    "FREEZING_ROUNDS",
    "MARKER",
    "STOPPED_S",
    "STOPPING_S",
    "Children",
    "Process",
    "all_of",
    "close_over",
    "exit_code",
    "kill_all",
    "members",
    "send",
    "snapshot",
    "stop_all",
    "unmarked_orphans",
]
