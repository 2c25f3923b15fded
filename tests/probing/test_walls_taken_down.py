"""One wall at a time is taken down, and the battery notices."""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import frame_claims
from patchyard.clients import toolbox as client
from patchyard.clients.walls import Place, Show
from patchyard.domain.environment import EnvironmentSpec
from patchyard.environments import process
from patchyard.probing.attack import Verdict
from patchyard.toolbox import wire
from probing.breaking import (
    also,
    as_root,
    beside_the_workspace,
    instead,
    leaking,
    relaunch,
    reserve,
    reshow,
    rewrite,
    unbounded,
    with_engines_variables,
    without,
    writable_workspace,
)
from probing.careless import (
    blind_capture,
    borrowing,
    careless_capture,
    careless_carrier,
    careless_handover,
    waiting_capture,
    with_a_device,
)
from probing.halls import Hall

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("root"),
]

Break = Callable[[pytest.MonkeyPatch, Hall], None]


@dataclass(frozen=True)
class Wall:
    """One wall: how it is taken down, and who must notice."""

    break_down: Break
    attacks: Sequence[str]
    kind: str = "process"


def launched(edit: Callable[[list[str]], list[str]]) -> Break:
    return lambda monkeypatch, _: relaunch(monkeypatch, edit)


def shown(edit: Any) -> Break:
    return lambda monkeypatch, _: reshow(monkeypatch, edit)


def toolbox(**changes: tuple[str, str]) -> Break:
    files = {f"{name}.py": change for name, change in changes.items()}
    return lambda monkeypatch, hall: rewrite(monkeypatch, hall.folder, files)


def both(*breaks: Break) -> Break:
    def break_down(monkeypatch: pytest.MonkeyPatch, hall: Hall) -> None:
        for each in breaks:
            each(monkeypatch, hall)

    return break_down


def engines_state(show: Show) -> Break:
    def break_down(monkeypatch: pytest.MonkeyPatch, hall: Hall) -> None:
        state = str(hall.around.state)
        hall.around.state.chmod(0o755)
        parent = Place(target=str(hall.folder), show=Show.DIRECTORY)
        reshow(monkeypatch, also(parent, Place(target=state, show=show, source=state)))

    return break_down


def writable(spec: EnvironmentSpec) -> EnvironmentSpec:
    return replace(spec, workspace=replace(spec.workspace, is_writable=True))


def talkative(spec: EnvironmentSpec) -> EnvironmentSpec:
    return replace(spec, limits=replace(spec.limits, output_bytes=2**26))


def never_ending(monkeypatch: pytest.MonkeyPatch, _: Hall) -> None:
    """Say that it ended, and kill nobody."""

    def nothing(*_: object) -> bool:
        return True

    monkeypatch.setattr(process, "_kill", nothing)


def attribute(owner: object, name: str, value: object) -> Break:
    return lambda monkeypatch, _: monkeypatch.setattr(owner, name, value)


def unasked(*_: object) -> None:
    """Take the place for filtered."""


def plain_terminal(_: pytest.MonkeyPatch, hall: Hall) -> None:
    hall.shows(str)


CAREFUL_READ = """\
    with room.workspace.locate(arguments.text(args, "path")) as place:
        content = read_text(place)
        shown = place.relative
"""
NAIVE_READ = """\
    shown = os.path.join(room.settings.workspace, arguments.text(args, "path"))
    with open(shown, "rb") as file:
        content = file.read()
"""
HOST_DEVICES = both(
    launched(instead(["--dev", "/dev"], ["--dev-bind", "/dev", "/dev"])),
    launched(without(["--remount-ro", "/dev"])),  # it would make them files like others
)
UNFILTERED = both(
    launched(without(["--seccomp", "4"])),
    attribute(process, "require_filtered", unasked),  # it would not start
)
HOST_TMP = Place(target="/tmp", show=Show.READ_ONLY, source="/tmp")

WALLS = {
    "the network": Wall(
        launched(without(["--unshare-net"])),
        [
            *("tcp-loopback", "tcp-loopback-mapped", "udp-loopback", "dns", "proxy-unset"),
            *("socket-abstract", "socket-abstract-datagram"),
        ],
    ),
    "other processes": Wall(
        launched(without(["--unshare-pid"], ["--as-pid-1"])),
        [
            *("process-killed", "memory-by-file", "limits-changed", "file-by-proc-root"),
            *("file-by-proc-fd", "variables-of-others", "arguments-of-others"),
        ],
    ),
    "a /proc of its own": Wall(
        launched(instead(["--proc", "/proc"], ["--ro-bind", "/proc", "/proc"])),
        ["variables-of-others", "arguments-of-others", "file-by-proc-root"],
    ),
    "shared memory": Wall(launched(without(["--unshare-ipc"])), ["shared-memory", "message-queue"]),
    "the filter of system calls": Wall(
        UNFILTERED,
        [
            *("keyring-read", "keyring-written", "io-uring", "user-namespace"),
            *("user-namespace-clone", "user-namespace-clone3", "perf", "userfaultfd"),
            "hypervisor-socket",
        ],
    ),
    "the folders of the machine, for reading": Wall(
        shown(also(HOST_TMP)),
        [
            *("file-by-path", "file-by-parent", "file-by-symlink", "socket-by-path", "other-plan"),
            *("docker-socket", "ssh-agent-socket", "d-bus-socket", "tmux-socket"),
            "database-socket",
        ],
    ),
    "the folders of the machine, for writing": Wall(
        shown(also(replace(HOST_TMP, show=Show.WRITABLE))),
        [
            *("file-overwritten", "file-deleted", "file-added", "files-left"),
            *("memory-folders", "inodes"),
        ],
    ),
    "the container engine's socket": Wall(
        shown(beside_the_workspace("sockets", Show.READ_ONLY)), ["docker-socket"]
    ),
    "devices": Wall(HOST_DEVICES, ["terminal-written"]),
    "devices and the filter": Wall(
        both(HOST_DEVICES, UNFILTERED),
        ["terminal-typed", "terminal-typed-wide"],
    ),
    "memory that is shared by name": Wall(
        shown(also(Place(target="/dev/shm", show=Show.READ_ONLY, source="/dev/shm"))),
        ["shared-file"],
    ),
    "bounds": Wall(
        lambda monkeypatch, _: unbounded(monkeypatch),
        ["memory", "fork-bomb", "descriptors", "limit-raised", "large-file"],
    ),
    "sizes of folders in memory": Wall(launched(without(["--size", "*"])), ["memory-folders"]),
    "the bound of output": Wall(
        lambda monkeypatch, _: reserve(monkeypatch, talkative), ["output-flood"]
    ),
    "a workspace to read only": Wall(
        shown(writable_workspace),
        [
            *("planning-write", "planning-create", "planning-delete", "planning-rename"),
            *("planning-link", "planning-mode", "planning-times", "planning-truncate"),
            *("planning-descriptor", "planning-mmap"),
        ],
    ),
    "tools that read only": Wall(
        both(shown(writable_workspace), lambda m, _: reserve(m, writable)),
        ["planning-tool-write", "planning-tool-replace", "planning-tool-delete"],
    ),
    "variables": Wall(shown(with_engines_variables), ["engine-variables"]),
    "the agent's user": Wall(lambda monkeypatch, _: as_root(monkeypatch), ["root", "setuid-left"]),
    "the engine's state, for reading": Wall(engines_state(Show.READ_ONLY), ["engine-state"]),
    "the engine's state, for writing": Wall(engines_state(Show.WRITABLE), ["journal"]),
    "descriptors": Wall(
        both(
            lambda monkeypatch, _: leaking(monkeypatch),
            toolbox(server=("_close_inherited(settings.listen_fd)", "pass")),
        ),
        ["file-by-leaked-descriptor"],
    ),
    "the toolbox's memory": Wall(
        toolbox(confinement=("PR_SET_DUMPABLE, 0", "PR_SET_DUMPABLE, 1")),
        ["toolbox-memory", "toolbox-variables"],
    ),
    "paths of tools": Wall(
        toolbox(files=(CAREFUL_READ, NAIVE_READ)),
        ["tool-reads-path", "tool-reads-link", "tool-races-link"],
        kind="host",
    ),
    "the time-out of whole trees": Wall(
        toolbox(
            commands=(
                "found = processes.members(self.pid, self._mark, table)\n",
                "return {self.pid} & set(table)\n",
            )
        ),
        ["outlasts-time-out"],
    ),
    "the end": Wall(never_ending, ["daemon"]),
    "escapes on the terminal": Wall(plain_terminal, ["terminal-escapes"]),
    "the size of answers": Wall(attribute(wire, "MAX_FRAME_BYTES", 2**31), ["answer-too-large"]),
    "the depth of answers": Wall(attribute(frame_claims, "MAX_DEPTH", 10**6), ["answer-nested"]),
    "the version of answers": Wall(
        attribute(client, "_require_same_protocol", lambda _: None), ["answer-protocol"]
    ),
    "git on the agent's tree": Wall(
        careless_capture,
        ["git-fsmonitor", "git-filters", "git-nested", "git-elsewhere", "git-hooks"],
    ),
    "objects of the engine's own": Wall(borrowing, ["git-alternates"]),
    "the making of devices": Wall(with_a_device, ["handed-device"]),
    "a capture that never waits": Wall(waiting_capture, ["handed-fifo"]),
    "findings": Wall(blind_capture, ["handed-fifo"]),  # what runs by itself is asked again later
    "a hand-over of the change set alone": Wall(
        careless_carrier,
        ["handed-link", "handed-setuid", "handed-repository", "handed-settings"],
    ),
    "a careful hand-over": Wall(
        careless_handover, ["handed-through-link", "handed-runs-by-itself"]
    ),
}


@pytest.fixture(autouse=True)
def _ended(hall: Hall) -> Any:
    """End what a broken wall left running: all of it carries the hall's folder."""
    yield
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                is_ours = str(hall.folder).encode() in (entry / "environ").read_bytes()
            except OSError:
                continue
            if is_ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(entry.name), 9)


@pytest.mark.parametrize("name", WALLS)
async def test_the_battery_notices_what_is_missing(
    name: str, hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = WALLS[name]
    wall.break_down(monkeypatch, hall)
    verdicts = await hall.verdicts(wall.kind, *wall.attacks)
    absent = {attack for attack, verdict in verdicts.items() if verdict is Verdict.NOT_SHOWN}
    assert absent < set(wall.attacks)
    expected = set(wall.attacks) - absent
    assert {a for a, verdict in verdicts.items() if verdict is Verdict.SUCCEEDED} == expected
