"""Control groups of both versions, where the engine may make them: bounds, and thawing.

A group is a tuple of directories: one for version 2, one for each controller of version 1.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from patchyard.domain.environment import Limits

FILESYSTEM = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids")


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
    for controller in (*CONTROLLERS, "freezer"):
        if controller not in own:
            continue
        parent = filesystem / controller / own[controller].lstrip("/")
        with contextlib.suppress(OSError):
            group = parent / name
            group.mkdir()
            if _bound(group, _version_1(controller, limits)):
                made.append(str(group))
            else:
                group.rmdir()  # else it would pass for a bound, and no rlimit would be set
    return tuple(made)


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
            group = parent / name
            group.mkdir()
            bounds = {"memory.max": limits.memory_bytes, "pids.max": limits.processes}
            if _bound(group, bounds):
                return (str(group),)
            group.rmdir()
    return ()


def _version_1(controller: str, limits: Limits) -> dict[str, int | None]:
    if controller == "memory":
        return {"memory.limit_in_bytes": limits.memory_bytes}
    return {"pids.max": limits.processes} if controller == "pids" else {}


def _bound(group: Path, bounds: dict[str, int | None]) -> bool:
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
    wanted = (*CONTROLLERS, "freezer")
    return tuple(
        str(filesystem / controller / own[controller].lstrip("/"))
        for controller in wanted
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
    "FILESYSTEM",
    "freeze",
    "groups_of",
    "is_bounding",
    "join_group",
    "make_group",
    "remove_group",
    "thaw",
]
