"""Which limit a call has hit, how that is known, and how it is told. Pure.

What somebody outside counted comes first, then signals, then what programs say of the kernel's
refusals; the last only of commands that failed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchyard.domain.environment import Limits
from patchyard.domain.environment_limits import MEASURES
from patchyard.domain.sizes import shown_bytes
from patchyard.domain.tooling import finite
from patchyard.domain.usage import Reading, Usage

LIMIT = "LIMIT"  # the error of a call that failed by one
KEPT_ERRORS = frozenset({"TIMEOUT"})  # they say the same, and are known by this name (D+)
SIGXCPU, SIGXFSZ = 24, 25  # signal(7), the same on x86-64 and AArch64
BY_SIGNAL = {SIGXCPU: "cpu_time", SIGXFSZ: "file_size"}
BY_SHELL = 128  # added by a shell to the signal that ended its command
WORDS = {
    "open_files": re.compile(r"Too many open files"),
    "file_size": re.compile(r"File too large|File size limit exceeded"),
    "processes": re.compile(
        r"fork: (retry|Resource temporarily|Cannot allocate)|Resource temporarily unavailable"
        r"|can't start new thread|unable to create (new native )?thread"
    ),
    "memory": re.compile(
        r"MemoryError|Cannot allocate memory|std::bad_alloc|[Oo]ut of memory|memory exhausted"
    ),
    "temporary": re.compile(r"No space left on device|Disk quota exceeded"),
}
"""What programs print when the kernel refuses them something: strerror(3), and interpreters."""
RETRIED = re.compile(r"fork: retry: Resource temporarily unavailable")
"""What a shell says that goes on, and may end well, although it could start no process."""
OUT_OF_TIME = re.compile(r"CPU time limit exceeded|SIGXCPU")
"""What shells and interpreters say of a program that they started, and may go on."""
NEARLY, TOLD = 0.9, 0.5
"""Shares of the processor time from which a command that failed, and one that was told of the
limit, have hit it: the kernel's own limit of one process counts roughly."""
TAIL_CHARS = 8_000  # of each stream, where a program says why it ends

ADVICE = {
    "connections": "open fewer at once, and close those that are done",
    "cpu_time": "do less in one command",
    "disk": "remove what is not needed",
    "file_size": "write smaller files",
    "memory": "use less at once: fewer jobs side by side, smaller pieces{in_files}, or ask for"
    " more memory",
    "network": "nothing more passes here; go on with what is there",
    "open_files": "close files, or open fewer at once",
    "output": "the middle is left out: write it to a file, and look at parts of it",
    "processes": "start fewer at once; what it left running was ended",
    "temporary": "remove what lies in /tmp or the home, or write into the workspace",
    "wall": "do less in one call; a command can run in the background",
}


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A limit that was hit."""

    limit: str  # as settings call it
    used: float | None  # in bytes, seconds or pieces; None: nobody has counted it
    allowed: float
    seen_by: str  # cgroup, gateway, watch, signal, time-out, cap, guest, output (of the program)
    counted: str = ""  # what is counted, where that is not what the limit is named after
    in_files: float | None = None  # bytes of memory that files take; None: nothing counted them


def hit_of(
    said: Mapping[str, Any],
    limits: Limits,
    *,
    before: Reading,
    after: Reading,
    usage: Usage,
    gateway: Hit | None = None,
    is_alone: bool = True,
) -> Hit | None:
    """Return the limit that a command hit, by its result and two readings around it.

    `gateway` is what refused or cut something on the way out; with `is_alone` no job ran beside.
    """
    return (
        _counted(limits, before, after, usage)
        or _told_inside(said, limits)
        or gateway
        or _timed(said, limits)
        or _signalled(said, limits, usage)
        or _printed(said, limits, after, usage)
        or _worked(said, limits, usage if is_alone else Usage())
        or _capped(said, limits)
    )


def _told_inside(said: Mapping[str, Any], limits: Limits) -> Hit | None:
    """Return the hit of a machine whose own kernel has killed: all of its memory was in use."""
    if finite(said.get("killed_for_memory"), 0.0) <= 0:
        return None
    found = _hit("memory", limits, None, "guest")
    in_files = finite(said.get("in_files_bytes"), -1.0)
    return found and replace(found, used=None, in_files=in_files if in_files >= 0 else None)


def _counted(limits: Limits, before: Reading, after: Reading, usage: Usage) -> Hit | None:
    if (after.ended_for_memory or 0) > (before.ended_for_memory or 0):
        found = _hit("memory", limits, usage.memory_bytes, "cgroup")
        return found and replace(found, in_files=after.in_files_bytes)
    if (after.refused_processes or 0) > (before.refused_processes or 0):
        return _hit("processes", limits, usage.processes, "cgroup")
    return None


def _timed(said: Mapping[str, Any], limits: Limits) -> Hit | None:
    """Return the hit of a call that ran out of its time; a server's own time is no limit."""
    if said.get("error") != "TIMEOUT":
        return None
    used = finite(said.get("elapsed_s"), 0.0)
    asked = finite(said.get("timeout_s"), used)
    allowed = asked if limits.wall_s is None else min(asked, limits.wall_s)
    if "elapsed_s" not in said:  # an MCP server, which has a time of its own (`timeout_s`)
        return None if limits.wall_s is None or asked < limits.wall_s else _wall(None, allowed)
    return _wall(used, allowed)


def _wall(used: float | None, allowed: float) -> Hit:
    return Hit(limit="wall", used=used, allowed=allowed, seen_by="time-out")


def _signalled(said: Mapping[str, Any], limits: Limits, usage: Usage) -> Hit | None:
    code = said.get("exit_code")
    if type(code) is not int:
        return None
    name = BY_SIGNAL.get(-code if code < 0 else code - BY_SHELL)
    return _hit(name, limits, usage.cpu_s if name == "cpu_time" else None, "signal")


def _worked(said: Mapping[str, Any], limits: Limits, usage: Usage) -> Hit | None:
    """Return the hit of a command that went on after something it started was out of time."""
    allowed, used = limits.cpu_seconds, usage.cpu_s
    if allowed is None or used is None or used < TOLD * allowed:
        return None
    if any(OUT_OF_TIME.search(_end_of(said, name)) for name in ("stderr", "stdout")):
        return _hit("cpu_time", limits, used, "signal")
    least = allowed if said.get("success") is True else NEARLY * allowed
    return None if used < least else _hit("cpu_time", limits, used, "usage")


def _printed(said: Mapping[str, Any], limits: Limits, after: Reading, usage: Usage) -> Hit | None:
    if said.get("success") is True:
        is_refused = after.refused_processes is None and RETRIED.search(_end_of(said, "stderr"))
        return _hit("processes", limits, usage.processes, "output") if is_refused else None
    text = "\n".join(_end_of(said, name) for name in ("message", "stderr", "stdout"))
    is_counted = {
        "memory": after.ended_for_memory is not None,
        "processes": after.refused_processes is not None,
        "temporary": not after.has_room,  # it is the machine's disk that is full
    }
    for name, words in WORDS.items():
        if not is_counted.get(name) and words.search(text):
            if name == "memory":
                return _refused_memory(limits, usage)
            used = usage.processes if name == "processes" else None
            return _hit(name, limits, used, "output")
    return None


def _refused_memory(limits: Limits, usage: Usage) -> Hit | None:
    """Return a hit without a figure where what was refused counts in none, as it was not given."""
    found = _hit("memory", limits, usage.memory_bytes, "output")
    is_known = found is not None and "memory_bytes" not in usage.claimed and usage.memory_bytes
    return found if found is None or is_known else replace(found, used=None)


def _end_of(said: Mapping[str, Any], name: str) -> str:
    return str(said.get(name) or "")[-TAIL_CHARS:]


def _capped(said: Mapping[str, Any], limits: Limits) -> Hit | None:
    sizes = (finite(said.get(f"{name}_bytes"), 0.0) for name in ("stdout", "stderr"))
    most = max(sizes)
    if most <= limits.output_bytes:
        return None
    return Hit(limit="output", used=most, allowed=limits.output_bytes, seen_by="cap")


def _hit(name: str | None, limits: Limits, used: float | None, seen_by: str) -> Hit | None:
    """Return a hit of a limit that there is; where nobody counts the use, it was all of it."""
    allowed = getattr(limits, MEASURES[name].field) if name else None
    if name is None or allowed is None:
        return None
    return Hit(limit=name, used=used or allowed, allowed=allowed, seen_by=seen_by)


def watched_hit(limits: Limits, began: Reading, now: Reading) -> Hit | None:
    """Return the limit that a running command has passed, of those that somebody must watch.

    Where too much lay there already when it began, only what makes it more has passed `disk`: else
    nobody could remove anything.
    """
    has_grown = (now.disk_bytes or 0) > (began.disk_bytes or 0)
    used = {
        "disk": now.disk_bytes if has_grown else None,
        "cpu_time": None if now.cpu_s is None else now.cpu_s - (began.cpu_s or 0.0),
        "memory": now.memory_now,
        "processes": now.processes_now,
    }
    for name, amount in used.items():
        allowed = getattr(limits, MEASURES[name].field)
        if amount is not None and allowed is not None and amount > allowed:
            return Hit(limit=name, used=round(amount, 3), allowed=allowed, seen_by="watch")
    return None


def told(said: Mapping[str, Any], hit: Hit | None) -> dict[str, Any]:
    """Return a result with the limit that it hit; a failed one has failed by that."""
    if hit is None:
        return dict(said)
    found = {**said, **fields_of(hit)}
    found["message"] = f"{said.get('message') or 'it was stopped'}; {sentence(hit)}"
    if said.get("success") is not True and said.get("error") not in KEPT_ERRORS:
        found["error"] = LIMIT
    return found


def fields_of(hit: Hit) -> dict[str, Any]:
    """Return what a result holds of a hit; `used` only where it was counted."""
    used = {} if hit.used is None else {"used": hit.used}
    return {"limit": hit.limit, **used, "allowed": hit.allowed, "limit_seen_by": hit.seen_by}


def limit_in(data: Mapping[str, Any]) -> str | None:
    """Return the limit that a result with these fields hit, `None` where that was none."""
    name = data.get("limit") if "limit_seen_by" in data else None
    is_known = isinstance(name, str) and name.partition(".")[0] in MEASURES
    return name if is_known else None


def sentence(hit: Hit) -> str:
    """Return what a model can act on."""
    name = hit.limit.partition(".")[0]  # network.max_call_bytes and its like are of a grant
    show = MEASURES[name].show
    figures = show(hit.allowed) if hit.used is None else f"{show(hit.used)} of {show(hit.allowed)}"
    what = f" {hit.counted}" if hit.counted else ""
    passed = f"the limit `{hit.limit}` was reached: {figures}{what}"
    advice = ADVICE.get(name, "").format(in_files=_of_files(hit))
    return f"{passed}; {advice}" if advice else passed


def _of_files(hit: Hit) -> str:
    """Return what is said of files in memory: with their size where that is known."""
    if hit.in_files == 0:
        return ""
    size = "" if hit.in_files is None else f" ({shown_bytes(hit.in_files)} now)"
    return f"; files in /tmp and the home lie in memory and count too{size}: remove those"


__all__ = [
    "ADVICE",
    "BY_SHELL",
    "BY_SIGNAL",
    "KEPT_ERRORS",
    "LIMIT",
    "NEARLY",
    "OUT_OF_TIME",
    "RETRIED",
    "SIGXCPU",
    "SIGXFSZ",
    "TAIL_CHARS",
    "TOLD",
    "WORDS",
    "Hit",
    "fields_of",
    "hit_of",
    "limit_in",
    "sentence",
    "told",
    "watched_hit",
]
