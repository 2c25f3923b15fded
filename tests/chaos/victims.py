"""Who can be killed while a plan runs, and how they are found."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchyard.clients.process import ProcessRef

__all__ = ["FAR_TARGETS", "TARGETS", "hit"]

TARGETS = ("engine", "toolbox", "both", "walls")
"""The engine; PID 1 inside; both in one moment; bubblewrap outside."""
FAR_TARGETS = ("engine", "line", "both lines")
"""Where a lost toolbox is not begun anew: the engine; the connection to the host; both."""


def hit(
    target: str,
    engine: int,
    told: Sequence[Mapping[str, Any]],
    cut: Callable[[], object] = lambda: None,
) -> bool:
    """Kill it, by the events that the engine has told of; whether it was there.

    `cut` breaks the connections to a host.
    """
    if target in {"line", "both lines"}:
        cut()
        return target == "line" or _shot(engine)
    inside = _toolboxes(told)
    if target == "engine":
        return _shot(engine)
    if target == "both" and not _shot(engine, signal.SIGSTOP):
        return False
    found = [pid for pid in (map(_parent, inside) if target == "walls" else inside) if _shot(pid)]
    return bool(found) if target != "both" else _shot(engine)


def _toolboxes(told: Sequence[Mapping[str, Any]]) -> list[int]:
    """PID 1 of each environment that is up, as seen from here."""
    up: dict[str, Mapping[str, int]] = {}
    for event in told:
        if event.get("event") == "EnvironmentStarted":
            details = event["handle"]["details"]
            up[event["handle"]["environment_id"]] = details.get("init") or details["root"]
        elif event.get("event") == "EnvironmentEnded":
            up.pop(event["environment_id"], None)
    found = [ProcessRef(pid=each["pid"], started=each["started"]) for each in up.values()]
    return [each.pid for each in found if each.is_alive]  # its number may be another's by now


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _shot(pid: int, number: int = signal.SIGKILL) -> bool:
    try:
        if pid > 1:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    return pid > 1
