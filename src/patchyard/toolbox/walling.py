"""Puts a sandbox around a toolbox on a host that is reached over SSH, in the engine's own words.

What lies on that host is looked at here; what the agent may see of it, the engine says.
"""

from __future__ import annotations

import base64
import json
import os
import select
import sys
import time

from . import finding, grouping, surveying, walled
from .spawning import open_contents, spawn_detached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LEAST_FILTERS = 1
NAMESPACE = "-namespace"  # ends a namespace's name in bubblewrap's report
PIECE_BYTES = 4096
TEXT_BYTES = 4096


def look(request: dict[str, Any]) -> dict[str, Any]:
    """Return facts about this host, of all that is asked for."""
    path, said = finding.program("bwrap", request["bubblewrap"])
    return {
        "survey": surveying.survey(request["wanted"]),
        "bubblewrap": [path, said],
        "python": [
            os.path.realpath(request["python"]),
            str(getattr(sys, "_base_executable", sys.executable)),
            sys.base_prefix,
        ],
        "machine": os.uname().machine,
        "has_groups": bool(grouping.parent()),
        "ids": [os.getuid(), os.getgid()],
        "texts": {each: _text(each) for each in request["texts"]},
        "present": [each for each in request["marks"] if os.path.exists(each)],
    }


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def start(
    walls: dict[str, Any], env: dict[str, str], descriptors: dict[int, int]
) -> tuple[int, int]:
    """Start bubblewrap by the words of `walls`; return its PID, and where its report comes.

    `descriptors` are those of the toolbox, by their number inside. Raises OSError.
    """
    contents = {int(n): base64.b64decode(data) for n, data in walls["contents"].items()}
    files = {int(n): path for n, path in walls["files"].items()}
    reading, writing = os.pipe2(os.O_CLOEXEC)
    opened = open_contents(contents, files)
    ends = dict(zip(walls["report"], (writing, reading)))
    try:
        pid = spawn_detached(walls["argv"], env=env, descriptors={**opened, **ends, **descriptors})
    except OSError:
        os.close(reading)
        raise
    finally:
        for descriptor in (*opened.values(), writing):
            os.close(descriptor)
    return pid, reading


def report(reading: int, deadline: float) -> dict[str, Any]:
    """Return what comes there about what runs inside; nothing where none comes in time."""
    said = b""
    with open(reading, "rb", buffering=0) as file:
        while select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = file.read(PIECE_BYTES)
            said += piece
            try:
                found = json.loads(said)
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict):
                return found
            if not piece:
                break
    return {}


def weaker(reported: dict[str, Any]) -> list[str]:
    """Return which of the walls around what runs inside are missing, by what the kernel says."""
    told = {
        name[: -len(NAMESPACE)]: number
        for name, number in reported.items()
        if name.endswith(NAMESPACE)
    }
    return walled.missing(reported.get("child-pid", 0), filters=LEAST_FILTERS, told=told)


__all__ = ["LEAST_FILTERS", "look", "report", "start", "weaker"]
