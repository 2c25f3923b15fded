"""What one run of an attack finds: a folder of bait, a place in the workspace, perhaps a victim."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

UNWRITTEN = "{}\n"  # what a bait journal holds
Print = Mapping[str, tuple[object, ...]]


class Group(StrEnum):
    """What attacks are about; each group has a file of scripts."""

    FILES = "files"
    PROCESSES = "processes"
    SOCKETS = "sockets"
    NETWORK = "network"
    PRIVILEGE = "privilege"
    RESOURCES = "resources"
    TERMINAL = "terminal"
    SECRETS = "secrets"
    PLANNING = "planning"
    GIT = "git"
    PATHS = "paths"
    ANSWERS = "answers"


@dataclass(kw_only=True)
class Scene:
    """The bait of one run. Nothing in `given` holds the canary."""

    group: Group
    token: str  # random; names the run in processes, sockets and files
    canary: str  # random; whoever shows it has read the bait
    kept: str  # another, of the file in the workspace
    folder: Path  # bait outside the workspace, open to the agent's user
    place: Path  # the run's own folder in the workspace, as it lies on this machine
    given: Mapping[str, Any]  # what the script is told
    before: Print = field(default_factory=dict)
    planned: Print = field(default_factory=dict)
    victim: Any = None  # the bait process
    heard: Any = None  # what the listeners heard
    terminal: Any = None  # the bait terminal
    journal: Path | None = None  # a file among the engine's state

    def look(self) -> None:
        """Remember how everything lies."""
        self.before = fingerprint(self.folder)
        self.planned = fingerprint(self.place)

    @property
    def is_journal_changed(self) -> bool:
        """Whether somebody wrote to the bait among the engine's state."""
        return self.journal is not None and self.journal.read_text() != UNWRITTEN

    @property
    def is_bait_changed(self) -> bool:
        """Whether somebody touched the bait."""
        return fingerprint(self.folder) != self.before

    @property
    def is_place_changed(self) -> bool:
        """Whether somebody touched what lay in the workspace."""
        return fingerprint(self.place) != self.planned


def fingerprint(folder: Path) -> Print:
    """Return what must not change below a folder: kinds, modes, links, times, contents."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        facts = path.lstat()
        is_file = stat.S_ISREG(facts.st_mode)
        content = path.read_bytes() if is_file else b""
        entry = (facts.st_mode, facts.st_uid, facts.st_nlink, facts.st_mtime_ns if is_file else 0)
        found[os.fspath(path)] = (*entry, content)
    return found


__all__ = ["UNWRITTEN", "Group", "Print", "Scene", "fingerprint"]
