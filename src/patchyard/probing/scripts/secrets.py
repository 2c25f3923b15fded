"""Secrets: variables, arguments, the memory of the toolbox, the engine's state."""

from __future__ import annotations

import os

from .kit import done, first, look, processes, show, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

REGION_BYTES = 32 * 1024 * 1024


def own_environment(_given: Given) -> None:
    """Look through our own variables."""
    for value in os.environb.values():
        tell(value)


def environments(_given: Given) -> None:
    """Look through the variables of every process."""
    for pid in processes():
        tell(look("/proc/%d/environ" % pid))


def arguments(_given: Given) -> None:
    """Look through the arguments of every process."""
    for pid in processes():
        tell(look("/proc/%d/cmdline" % pid))


def toolbox_memory(given: Given) -> None:
    """Search the memory of whoever started us."""
    first(_search, _above(given))


def _search(pid: int) -> None:
    with open("/proc/%d/maps" % pid, encoding="ascii", errors="replace") as file:
        rows = [line.split() for line in file]
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        for place, rights in (row[:2] for row in rows):
            start, end = (int(part, 16) for part in place.split("-"))
            if not rights.startswith("rw") or end - start > REGION_BYTES:
                continue
            try:
                memory.seek(start)
                tell(memory.read(end - start))
            except OSError:
                continue


def toolbox_files(given: Given) -> None:
    """List what whoever started us has open, and its variables."""

    def list_of(pid: int) -> None:
        with open("/proc/%d/environ" % pid, "rb") as file:
            file.read()
        done(given, "%d descriptors" % len(os.listdir("/proc/%d/fd" % pid)))

    first(list_of, _above(given))


def _above(given: Given) -> list[int]:
    """Return who started us, and who started that; as a control, the bait process."""
    if given["control"]:
        return [given["victim"]["pid"]]
    found: list[int] = []
    pid = os.getppid()
    while pid and len(found) < 3:
        found.append(pid)
        pid = int((look("/proc/%d/stat" % pid).rpartition(b")")[2].split() or [b"", b"0"])[1])
    return found


def toolbox_code(given: Given) -> None:
    """Open the code of the toolbox for writing; nothing is written."""
    if given["control"]:
        places = [given["secret"]]
    else:
        words = look("/proc/%d/cmdline" % os.getppid()).split(b"\0")
        places = [os.fsdecode(word) + "/toolbox/server.py" for word in words if word[:1] == b"/"]

    def open_to_write(path: str) -> None:
        os.close(os.open(path, os.O_WRONLY))
        done(given, path)

    first(open_to_write, places)


def state(given: Given) -> None:
    """Read the folder where the engine keeps its state."""
    show(given["state"]["secret"])


def journal(given: Given) -> None:
    """Write to a file of the engine's state."""
    with open(given["state"]["journal"], "a", encoding="ascii") as file:
        file.write("forged\n")


def other_plan(given: Given) -> None:
    """Read the workspace of another plan, which belongs to the same user."""
    show(given["other"])


__all__ = [
    "REGION_BYTES",
    "arguments",
    "environments",
    "journal",
    "other_plan",
    "own_environment",
    "state",
    "toolbox_code",
    "toolbox_files",
    "toolbox_memory",
]
