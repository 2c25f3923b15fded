"""What a toolbox is started with, as one JSON argument: nothing that other users may not read."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .confinement import Offering


PASSED = "passed"  # in place of a path: it comes with the listening socket


class Settings:
    """The options of one toolbox; the engine writes them, so a missing one is a KeyError."""

    def __init__(self, text: str) -> None:
        given: dict[str, Any] = json.loads(text)
        self.listen_fd: int = given["listen_fd"]  # listening Unix socket, inherited or passed
        self.listen_from: str = given.get(
            "listen_from", ""
        )  # socket that passes it; empty: inherited
        self.is_piped: bool = given.get("is_piped", False)  # over its standard streams instead
        self.replica: str = given.get(
            "replica", ""
        )  # where a workspace that is a replica can be written to, or PASSED; empty: at its path
        self.replica_fd = -1  # that folder, opened before anything is given up
        self.offering: Offering | None = None  # likewise
        self.workspace: str = given["workspace"]  # absolute path of the work tree
        self.uid: int | None = given.get("uid")  # to become, None: stay
        self.gid: int | None = given.get("gid")
        self.grace_s: float = given.get("grace_s", 60.0)  # how long to live without an engine
        self.output_bytes: int = given.get("output_bytes", 16 * 1024 * 1024)  # kept per stream
        self.rlimits: dict[str, int] = given.get("rlimits", {})  # by RLIMIT name
        self.is_machine: bool = given.get("is_machine", False)  # the kernel there is only its own
        self.is_grouped: bool = given.get("is_grouped", False)  # its group is shown, and its own
        self.is_read_only: bool = given.get("is_read_only", False)
        self.has_files_alone: bool = given.get("has_files_alone", False)  # nothing is started
        self.seccomp: str = given.get("seccomp", "")  # a filter as BPF, in base 64; empty: none
        # of commands, before the fixed ones; the engine tells them over the socket
        self.env: dict[str, str] = {}


__all__ = ["PASSED", "Settings"]
