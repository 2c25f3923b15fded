"""Replicas to test with: a tree at home, one in a real toolbox's workspace, and what they hold."""

import os
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.replicas import Replica
from patchyard.clients.replicated import ReplicatedToolbox
from patchyard.clients.tenures import Tenure
from patchyard.contracts.environment import OnOutput, Toolbox
from patchyard.toolbox.twins import Twin
from toolboxes import Operations, Server, serving

__all__ = [
    "HERE",
    "InProcess",
    "Listened",
    "Pair",
    "at_home",
    "contents",
    "kept",
    "paired",
    "replicated",
]

HERE = "/src/shop"


class InProcess:
    """A toolbox's operations without a process, for very many exchanges."""

    def __init__(self, workspace: Path) -> None:
        self.operations = Operations(workspace)

    async def call(
        self,
        call_id: str,  # noqa: ARG002 - nothing is kept here
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,  # noqa: ARG002 - nothing is said
    ) -> Mapping[str, Any]:
        return self.operations.run(op, **args)

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        """Nothing is kept."""

    async def cancel(self, call_id: str) -> None:
        """Nothing runs on."""

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        self.operations.room.close()


@dataclass
class Listened:
    """A toolbox, and what it was asked by replicas."""

    toolbox: Toolbox
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        self.asked.append((op, args))
        return await self.toolbox.call(call_id, op, args, on_output=on_output)

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        return await self.toolbox.attach(call_id, on_output=on_output)

    async def cancel(self, call_id: str) -> None:
        await self.toolbox.cancel(call_id)

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        await self.toolbox.forget(call_ids)

    async def close(self) -> None:
        """The server's own client stays open."""

    def files_put(self) -> list[str]:
        """The files whose content went to the far side, since the last time this was asked."""
        rows = [
            row for op, args in self.asked if op == "replica_put" for row in args.get("entries", ())
        ]
        self.asked.clear()
        return [row[0] for row in rows if row[1] == "f" and row[-1] is not None]

    def files_fetched(self) -> list[str]:
        found = [
            piece[0] for op, args in self.asked if op == "replica_get" for piece in args["pieces"]
        ]
        self.asked.clear()
        return found


@dataclass
class Pair:
    """Two trees."""

    server: Server
    home: Path
    far: Path
    listened: Listened
    mapping: PathMapping

    def replica(self, **options: Any) -> Replica:
        own = {"tenure": kept(self.home), **options}
        return Replica(self.listened, at_home(self.home), self.mapping, **own)


@asynccontextmanager
async def paired(folder: Path) -> AsyncIterator[Pair]:
    """An empty home beside a toolbox with an empty workspace."""
    home = folder / "home"
    home.mkdir()
    async with serving(folder) as server:
        mapping = PathMapping(here=HERE, there=str(server.workspace))
        yield Pair(server, home, server.workspace, Listened(server.client), mapping)


@asynccontextmanager
async def replicated(pair: Pair, *, takes_home: bool = True) -> AsyncIterator[ReplicatedToolbox]:
    toolbox = ReplicatedToolbox(pair.listened, pair.replica(), takes_home=takes_home)
    try:
        await toolbox.recover()
        yield toolbox
    finally:
        await toolbox.close()


def at_home(home: Path, **options: Any) -> Twin:
    """A tree at home, as engines have theirs."""
    return Twin(str(home), is_one_mount=True, **options)


def kept(home: Path) -> Tenure:
    """The time of an engine that keeps this tree from now on."""
    tenure = Tenure(home.parent)
    tenure.begin()
    return tenure


def contents(root: Path) -> dict[bytes, tuple[object, ...]]:
    """All that a tree holds, without times: kind, mode, content or target."""
    found: dict[bytes, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)  # noqa: PTH118 - bytes
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            shown: tuple[object, ...] = (stat.S_IFMT(status.st_mode), mode)
            if stat.S_ISLNK(status.st_mode):
                shown = ("link", os.readlink(path))  # noqa: PTH115 - bytes
            elif stat.S_ISREG(status.st_mode):
                shown = (*shown, _read(Path(os.fsdecode(path))))
            found[path[len(os.fsencode(root)) :]] = shown
    return found


def _read(file: Path) -> bytes:
    """The content, also of what its owner closed to itself."""
    try:
        return file.read_bytes()
    except PermissionError:
        mode = stat.S_IMODE(file.stat().st_mode)
        file.chmod(0o600)
        try:
            return file.read_bytes()
        finally:
            file.chmod(mode)
