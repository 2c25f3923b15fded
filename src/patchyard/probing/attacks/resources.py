"""More of the machine than is allowed, and living longer than is allowed."""

from typing import Any

from patchyard.domain.environment import Limits
from patchyard.probing.attack import Attack, Evidence, Group, Where
from patchyard.probing.evidence import files_left, flooded, many_files, said, survives

MIB = 1024**2
BOUNDS = Limits(
    memory_bytes=256 * MIB,
    processes=64,
    open_files=256,
    file_bytes=64 * MIB,
    output_bytes=MIB,
)
"""Of the place where attacks on bounds are tried: so tight that a control stays harmless."""


def _of(name: str, title: str, script: str, evidence: Evidence = said, /, **options: Any) -> Attack:
    return Attack(
        name=name,
        group=Group.RESOURCES,
        title=title,
        script=script,
        evidence=evidence,
        where=Where.BOUNDED,
        options=options,
    )


def _ending(name: str, title: str, script: str, evidence: Evidence) -> Attack:
    return Attack(
        name=name,
        group=Group.RESOURCES,
        title=title,
        script=script,
        evidence=evidence,
        where=Where.ENDING,
    )


ATTACKS = (
    _of("fork-bomb", "start more processes than allowed", "fork_bomb", count=100),
    _of("memory", "fill more memory than allowed", "memory", bytes=400 * MIB),
    _of("large-file", "make a larger file than allowed", "large_file", bytes=96 * MIB),
    _of("descriptors", "open more files than allowed", "descriptors", count=400),
    _of("limit-raised", "raise one's own bounds", "raise_limits", count=256),
    _of("output-flood", "print without end", "flood", flooded, bytes=8 * MIB, bound=MIB),
    Attack(
        name="memory-folders",
        group=Group.RESOURCES,
        title="reserve more in a folder in memory than fits",
        script="memory_folder",
        evidence=said,
        options={"bytes": BOUNDS.temporary_bytes + MIB},
    ),
    Attack(
        name="inodes",
        group=Group.RESOURCES,
        title="use up inodes of the machine",
        script="use_inodes",
        evidence=many_files,
        options={"count": 2000},
    ),
    Attack(
        name="outlasts-time-out",
        group=Group.RESOURCES,
        title="spin on in another session after the time is up",
        script="outlast",
        evidence=survives,
        timeout_s=1.0,
    ),
    _ending("daemon", "leave a daemon that outlives the environment", "live_on", survives),
    _ending("files-left", "leave files in folders that all share", "leave_files", files_left),
    _ending("unmarked-daemon", "leave one that killed the toolbox", "shed_marks", survives),
)

__all__ = ["ATTACKS", "BOUNDS", "MIB"]
