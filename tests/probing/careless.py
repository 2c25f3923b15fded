"""The engine's hands, careless: they run git on a tree, follow links, wait, find nothing."""

import asyncio
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchyard.contracts.handover import Order, Receipt
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.probing import trees
from probing.halls import Hall

__all__ = [
    "CARELESS",
    "CarelessHandOver",
    "blind_capture",
    "borrowing",
    "careless_capture",
    "careless_carrier",
    "careless_handover",
    "waiting_capture",
    "with_a_device",
]

CARELESS = """
git() { command git -c safe.directory='*' -c user.name=Ada -c user.email=ada@example.invalid "$@"; }
git status
for folder in */nested; do (cd "$folder" && git status); done
for file in */file; do git add "$file"; done
git commit --quiet --message x
"""


def careless_capture(monkeypatch: pytest.MonkeyPatch, hall: Hall) -> None:
    """Ask git about the agent's tree before capturing it."""
    workspaces = hall.around.ground.workspaces
    real = workspaces.capture

    async def capture(base: Base, ref: WorkspaceRef, **further: Any) -> ChangeSet:
        asking = await asyncio.create_subprocess_exec(
            *("sh", "-c", CARELESS),
            cwd=ref.root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await asking.wait()
        return await real(base, ref, **further)

    monkeypatch.setattr(workspaces, "capture", capture)


class CarelessHandOver:
    """Copies what a change set names, through links, whatever was found."""

    def __init__(self, hall: Hall) -> None:
        self._ground = hall.around.ground
        self.turn = self._ground.handover.turn
        self.take_back = self._ground.handover.take_back
        self.is_there = self._ground.handover.is_there

    async def plan(self, _base: Base, _changeset: ChangeSet, order: Order) -> Receipt:
        return Receipt(to=order.to, is_done=False)

    async def carry_out(
        self, base: Base, changeset: ChangeSet, order: Order, intent: Receipt
    ) -> Receipt:
        for change in changeset.changes:
            if change.path in order.paths and change.blob is not None:
                content = await self._ground.trees.blob(base, change.blob)
                _write(Path(base.repository, change.path), content)
        return replace(intent, is_done=True)


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def careless_handover(_: pytest.MonkeyPatch, hall: Hall) -> None:
    ground = replace(hall.around.ground, handover=CarelessHandOver(hall))
    hall.around = replace(hall.around, ground=ground)


def careless_carrier(monkeypatch: pytest.MonkeyPatch, hall: Hall) -> None:
    """Copy the whole tree by its paths, whatever the change set says."""
    workspaces, roots = hall.around.ground.workspaces, []
    real = workspaces.capture

    async def capture(base: Base, ref: WorkspaceRef, **further: Any) -> ChangeSet:
        roots.append(ref.root)
        return await real(base, ref, **further)

    async def carry_out(
        _: Any, base: Base, changeset: ChangeSet, order: Order, intent: Receipt
    ) -> Receipt:
        assert changeset.id
        shutil.copytree(roots[-1], base.repository, dirs_exist_ok=True)
        return replace(intent, to=order.to)

    monkeypatch.setattr(workspaces, "capture", capture)
    monkeypatch.setattr(CarelessHandOver, "carry_out", carry_out)
    careless_handover(monkeypatch, hall)


def borrowing(monkeypatch: pytest.MonkeyPatch, hall: Hall) -> None:
    """Read objects where the agent's own git finds them."""
    workspaces, roots = hall.around.ground.workspaces, []
    real = workspaces.capture

    async def capture(base: Base, ref: WorkspaceRef, **further: Any) -> ChangeSet:
        roots.append(ref.root)
        return await real(base, ref, **further)

    async def blob(_: Base, name: str) -> bytes:
        words = ["git", "-c", "safe.directory=*", "cat-file", "blob", name]
        asking = await asyncio.create_subprocess_exec(
            *words, cwd=roots[-1], stdout=asyncio.subprocess.PIPE
        )
        return (await asking.communicate())[0]

    monkeypatch.setattr(workspaces, "capture", capture)
    monkeypatch.setattr(hall.around.ground.trees, "blob", blob)


def waiting_capture(monkeypatch: pytest.MonkeyPatch, hall: Hall) -> None:
    """Wait at a pipe of the tree."""

    async def capture(*_: Any, **__: Any) -> ChangeSet:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(hall.around.ground.workspaces, "capture", capture)
    monkeypatch.setattr(trees, "CAPTURE_S", 0.2)


def blind_capture(monkeypatch: pytest.MonkeyPatch, hall: Hall) -> None:
    """Find nothing odd."""
    workspaces = hall.around.ground.workspaces
    real = workspaces.capture

    async def capture(base: Base, ref: WorkspaceRef, **further: Any) -> ChangeSet:
        return replace(await real(base, ref, **further), findings=())

    monkeypatch.setattr(workspaces, "capture", capture)


def with_a_device(monkeypatch: pytest.MonkeyPatch, hall: Hall) -> None:
    """Let the agent's tree have a device, as if it had been let make one."""
    workspaces = hall.around.ground.workspaces
    real = workspaces.capture

    async def capture(base: Base, ref: WorkspaceRef, **further: Any) -> ChangeSet:
        for place in _places(Path(ref.root)):
            os.mknod(place / "spot", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        return await real(base, ref, **further)

    monkeypatch.setattr(workspaces, "capture", capture)


def _places(root: Path) -> Sequence[Path]:
    """The folders of the runs, which are called by their tokens."""
    return [path for path in root.iterdir() if len(path.name) == 16]
