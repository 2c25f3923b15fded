"""Which limit a call has hit, how that is known, and how it is told. Pure.

What somebody outside counted comes first, then signals, then what programs say of the kernel's
refusals; the last only of commands that failed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.domain.environment import Limits
from patchyard.domain.environment_limits import MEASURES
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
TAIL_CHARS = 8_000  # of each stream, where a program says why it ends

ADVICE = {
    "connections": "open fewer at once, and close those that are done",
    "cpu_time": "do less in one command",
    "disk": "remove what is not needed; it was stopped so that the rest stays usable",
    "file_size": "write smaller files",
    "memory": "use less at once: fewer jobs side by side, smaller pieces",
    "network": "nothing more passes here; go on with what is there",
    "open_files": "close files, or open fewer at once",
    "output": "the middle is left out: write it to a file, and look at parts of it",
    "processes": "start fewer at once; what it left running was ended",
    "temporary": "remove what lies in /tmp or the home, or write into the workspace",
    "wall": "do less in one command, or run it in the background",
}


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A limit that was hit."""

    limit: str  # as settings call it
    used: float  # in bytes, seconds or pieces
    allowed: float
    seen_by: str  # cgroup, gateway, watch, signal, time-out, cap, output (of the program)


def hit_of(
    said: Mapping[str, Any],
    limits: Limits,
    *,
    before: Reading,
    after: Reading,
    usage: Usage,
    gateway: Hit | None = None,
) -> Hit | None:
    """Return the limit that a command hit, by its result and two readings around it.

    `gateway` is what refused or cut something on the way out.
    """
    return (
        _counted(limits, before, after, usage)
        or gateway
        or _timed(said, limits)
        or _signalled(said, limits)
        or _printed(said, limits, after, usage)
        or _capped(said, limits)
    )


def _counted(limits: Limits, before: Reading, after: Reading, usage: Usage) -> Hit | None:
    if (after.ended_for_memory or 0) > (before.ended_for_memory or 0):
        return _hit("memory", limits, usage.memory_bytes, "cgroup")
    if (after.refused_processes or 0) > (before.refused_processes or 0):
        return _hit("processes", limits, usage.processes, "cgroup")
    return None


def _timed(said: Mapping[str, Any], limits: Limits) -> Hit | None:
    if said.get("error") != "TIMEOUT":
        return None
    used = finite(said.get("elapsed_s"), 0.0)
    asked = finite(said.get("timeout_s"), used)
    allowed = asked if limits.wall_s is None else min(asked, limits.wall_s)
    return Hit(limit="wall", used=used, allowed=allowed, seen_by="time-out")


def _signalled(said: Mapping[str, Any], limits: Limits) -> Hit | None:
    code = said.get("exit_code")
    if type(code) is not int:
        return None
    name = BY_SIGNAL.get(-code if code < 0 else code - BY_SHELL)
    return _hit(name, limits, None, "signal") if name else None


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
            used = {"memory": usage.memory_bytes, "processes": usage.processes}.get(name)
            return _hit(name, limits, used, "output")
    return None


def _end_of(said: Mapping[str, Any], name: str) -> str:
    return str(said.get(name) or "")[-TAIL_CHARS:]


def _capped(said: Mapping[str, Any], limits: Limits) -> Hit | None:
    sizes = (finite(said.get(f"{name}_bytes"), 0.0) for name in ("stdout", "stderr"))
    most = max(sizes)
    if most <= limits.output_bytes:
        return None
    return Hit(limit="output", used=most, allowed=limits.output_bytes, seen_by="cap")


def _hit(name: str, limits: Limits, used: float | None, seen_by: str) -> Hit | None:
    """Return a hit of a limit that there is; where nobody counts the use, it was all of it."""
    allowed = getattr(limits, MEASURES[name].field)
    if allowed is None:
        return None
    return Hit(limit=name, used=used or allowed, allowed=allowed, seen_by=seen_by)


def watched_hit(limits: Limits, began: Reading, now: Reading) -> Hit | None:
    """Return the limit that a running command has passed, of those that somebody must watch."""
    used = {
        "disk": now.disk_bytes,
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
    """Return what a result holds of a hit."""
    return {
        "limit": hit.limit, "used": hit.used, "allowed": hit.allowed, "limit_seen_by": hit.seen_by
    }  # fmt: skip


def sentence(hit: Hit) -> str:
    """Return what a model can act on."""
    name = hit.limit.partition(".")[0]  # network.max_call_bytes and its like are of a grant
    show = MEASURES[name].show
    passed = f"the limit `{hit.limit}` was reached: {show(hit.used)} of {show(hit.allowed)}"
    advice = ADVICE.get(name)
    return f"{passed}; {advice}" if advice else passed


__all__ = [
    "ADVICE",
    "BY_SHELL",
    "BY_SIGNAL",
    "KEPT_ERRORS",
    "LIMIT",
    "RETRIED",
    "SIGXCPU",
    "SIGXFSZ",
    "TAIL_CHARS",
    "WORDS",
    "Hit",
    "fields_of",
    "hit_of",
    "sentence",
    "told",
    "watched_hit",
]
