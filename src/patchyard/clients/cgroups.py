"""Control groups of both versions, where the engine may make them: bounds, and thawing.

A group is a tuple of directories: one for version 2, one for each controller of version 1.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchyard.clients.process import reap
from patchyard.domain.environment import Limits

FILESYSTEM = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids")
COUNTING = ("cpu", "cpuacct", "freezer")  # of version 1; the first only where there is a bound
PERIOD_US = 100_000  # within which processor time is given out


def make_group(
    name: str, limits: Limits, *, membership: str, filesystem: Path = FILESYSTEM
) -> tuple[str, ...]:
    """Make the group `name` below the engine's own and bound it; () where that is not allowed.

    `membership` is the text of /proc/self/cgroup.
    """
    own = dict(_parse(membership))
    if (filesystem / "cgroup.controllers").exists():
        return _make_unified(filesystem / own.get("", "/").lstrip("/"), name, limits)
    made: list[str] = []
    for controller in (*CONTROLLERS, *COUNTING):
        if controller not in own or (controller == "cpu" and limits.cpus is None):
            continue
        parent = filesystem / controller / own[controller].lstrip("/")
        with contextlib.suppress(OSError):
            group = parent / name
            group.mkdir()
            if _bound(group, _version_1(controller, limits)):
                _forbid_swap(group, limits)
                made.append(str(group))
            else:
                group.rmdir()  # else it would pass for a bound, and no rlimit would be set
    return tuple(made)


def own_group(environment_id: str, limits: Limits) -> tuple[str, ...]:
    """Make the group of an environment below the one that this process is in; see `make_group`."""
    membership = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    return make_group(f"patchyard-{environment_id}", limits, membership=membership)


def own_places(environment_id: str, *, filesystem: Path = FILESYSTEM) -> tuple[str, ...]:
    """Return every directory that a group of this name may get: to be noted before it is made."""
    membership = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    own, name = dict(_parse(membership)), f"patchyard-{environment_id}"
    if (filesystem / "cgroup.controllers").exists():
        place = filesystem / own.get("", "/").lstrip("/")
        return tuple(str(parent / name) for parent in (place, place.parent))
    return tuple(
        str(filesystem / controller / own[controller].lstrip("/") / name)
        for controller in (*CONTROLLERS, *COUNTING)
        if controller in own
    )


def _parse(membership: str) -> Iterable[tuple[str, str]]:
    """Yield controller ("" for version 2) and path."""
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _make_unified(own: Path, name: str, limits: Limits) -> tuple[str, ...]:
    """Take the engine's group or, since one with processes has no controllers, its parent."""
    for parent in (own, own.parent):
        if not os.access(parent / "cgroup.procs", os.W_OK):
            continue  # nothing could be moved into a group below it
        with contextlib.suppress(OSError):
            control = parent / "cgroup.subtree_control"
            if not set(CONTROLLERS) <= set(control.read_text().split()):
                control.write_text(" ".join(f"+{name}" for name in CONTROLLERS))
            if limits.cpus is not None:
                _enable_cpu(control)
            group = parent / name
            group.mkdir()
            bounds = {"memory.max": limits.memory_bytes, "pids.max": limits.processes}
            if _bound(group, bounds):
                _forbid_swap(group, limits)
                if limits.cpus is not None:
                    _bound(group, {"cpu.max": f"{_quota(limits.cpus)} {PERIOD_US}"})
                return (str(group),)
            group.rmdir()
    return ()


def _enable_cpu(control: Path) -> None:
    """Let groups below bound processor time, where that is allowed; the rest holds without."""
    with contextlib.suppress(OSError):
        control.write_text("+cpu")


def _forbid_swap(group: Path, limits: Limits) -> None:
    """Let no swap stand in for memory, where there is any."""
    if limits.memory_bytes is None:
        return
    for file, text in (
        (group / "memory.memsw.limit_in_bytes", str(limits.memory_bytes)),
        (group / "memory.swap.max", "0"),
    ):
        with contextlib.suppress(OSError):
            if file.exists():
                file.write_text(text)


def _quota(cpus: float) -> int:
    return round(cpus * PERIOD_US)


def _version_1(controller: str, limits: Limits) -> dict[str, int | str | None]:
    if controller == "memory":
        return {"memory.limit_in_bytes": limits.memory_bytes}
    if controller == "cpu" and limits.cpus is not None:
        return {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": _quota(limits.cpus)}
    return {"pids.max": limits.processes} if controller == "pids" else {}


def _bound(group: Path, bounds: Mapping[str, int | str | None]) -> bool:
    """Write the bounds; False when one is refused."""
    try:
        for name, value in bounds.items():
            if value is not None:
                (group / name).write_text(str(value))
    except OSError:
        return False
    return True


def groups_of(membership: str, *, filesystem: Path = FILESYSTEM) -> tuple[str, ...]:
    """Return the directories that a process of somebody else's making is in.

    `membership` is the text of its /proc/PID/cgroup. Only those that freeze or count count.
    """
    own = dict(_parse(membership))
    if (filesystem / "cgroup.controllers").exists():
        return (str(filesystem / own[""].lstrip("/")),) if own.get("", "/") != "/" else ()
    return tuple(
        str(filesystem / controller / own[controller].lstrip("/"))
        for controller in (*CONTROLLERS, *COUNTING)
        if own.get(controller, "/") != "/"
    )


def join_group(group: Iterable[str], pid: int) -> None:
    """Put one process there; its later children follow. Raises OSError when one refused."""
    for directory in group:
        Path(directory, "cgroup.procs").write_text(str(pid))


def is_bounding(group: Iterable[str], controller: str) -> bool:
    """Whether the group bounds memory or pids, so that no rlimit has to."""
    return any((Path(directory) / f"{controller}.max").exists() for directory in group) or any(
        (Path(directory) / f"{controller}.limit_in_bytes").exists() for directory in group
    )


def is_bounding_cpus(group: Iterable[str]) -> bool:
    """Whether the group bounds how many processors work at once."""
    for directory in group:
        for name in ("cpu.max", "cpu.cfs_quota_us"):
            with contextlib.suppress(OSError):
                if Path(directory, name).read_text().split()[0] not in {"max", "-1"}:
                    return True
    return False


def processes_in(group: Iterable[str]) -> set[int]:
    """Return who is in the group, by number."""
    found: set[int] = set()
    for directory in group:
        with contextlib.suppress(OSError):
            found.update(map(int, Path(directory, "cgroup.procs").read_text().split()))
    return found


def freeze(group: Iterable[str]) -> bool:
    """Stop every process of the group; False where the group cannot."""
    return _write_state(group, version_1="FROZEN", version_2="1")


def thaw(group: Iterable[str]) -> bool:
    """Let them go on; a signal that came meanwhile is delivered now."""
    return _write_state(group, version_1="THAWED", version_2="0")


def _write_state(group: Iterable[str], *, version_1: str, version_2: str) -> bool:
    is_done = False
    for directory in group:
        for name, value in (("freezer.state", version_1), ("cgroup.freeze", version_2)):
            file = Path(directory, name)
            with contextlib.suppress(OSError):
                if file.exists():
                    file.write_text(value)
                    is_done = True
    return is_done


def kill_group(group: Iterable[str], *, timeout_s: float) -> bool:
    """Kill who is in the group until nobody is; False when somebody stays."""
    places = tuple(group)
    deadline = time.monotonic() + timeout_s
    while pids := processes_in(places):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            reap(pid)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def remove_group(group: Iterable[str], *, timeout_s: float = 1.0) -> None:
    """Remove the directories; a process that has just ended may hold one for some ms."""
    deadline = time.monotonic() + timeout_s
    for directory in group:
        while Path(directory).exists():
            with contextlib.suppress(OSError):
                Path(directory).rmdir()
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.002)


__all__ = [
    "CONTROLLERS",
    "COUNTING",
    "FILESYSTEM",
    "PERIOD_US",
    "freeze",
    "groups_of",
    "is_bounding",
    "is_bounding_cpus",
    "join_group",
    "kill_group",
    "make_group",
    "own_group",
    "own_places",
    "processes_in",
    "remove_group",
    "thaw",
]
