"""A repository of 20,000 files: its base, a workspace on it, and what changed there."""

import asyncio
import functools
import itertools
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.measuring import measured, median_ms_async
from benchmarks.yard import Yard, opened

FILES = 20_000
PER_FOLDER = 100
EDITS = 20


def make_repository(folder: Path) -> Path:
    """A committed repository of FILES small files."""
    repository = folder / "repository"
    for number in range(FILES):
        path = repository / f"part{number // PER_FOLDER:03}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {number}\n" * 20)
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
        git(repository, *command)
    return repository


def git(repository: Path, *command: str) -> None:
    """Runs the user's git, with a name, and without its collector in the background."""
    person = ["-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "gc.auto=0"]
    subprocess.run(["git", "-C", repository, *person, *command], check=True)


def edit(root: Path, text: str) -> None:
    """Writes EDITS files anew, each in a folder of its own."""
    for number in range(EDITS):
        path = root / f"part{number:03}" / f"file{number * PER_FOLDER}.py"
        path.write_text(text)


def count_files(root: Path) -> int:
    """The files of make_repository that are there."""
    return sum(1 for _ in root.glob("part*/*.py"))


def clone_s(repository: Path, target: Path) -> float:
    """How long git takes for a local clone, in seconds."""
    started = time.perf_counter()
    subprocess.run(["git", "clone", "-q", "--local", repository, target], check=True)
    return time.perf_counter() - started


@asynccontextmanager
async def _prepared() -> AsyncIterator[tuple[Yard, Path]]:
    async with opened() as yard:
        repository = make_repository(yard.folder)
        yield yard, repository


async def _workspace_ms() -> float:
    async with _prepared() as (yard, repository):
        trees, workspaces = yard.equipment.trees, yard.equipment.workspaces
        base = await trees.snapshot(repository)
        made = []

        async def create() -> None:
            name = yard.equipment.clock.new_id()
            made.append(await workspaces.create(base, workspace_id=name))

        try:
            taken = await median_ms_async(create, repeats=5)
            there = [count_files(Path(workspace.root)) for workspace in made]
            if set(there) != {FILES}:
                raise RuntimeError(f"{there} files in the workspaces")
            return taken
        finally:
            for workspace in made:
                await workspaces.remove(workspace)


async def _snapshot_ms() -> float:
    async with _prepared() as (yard, repository):
        snapshot = functools.partial(yard.equipment.trees.snapshot, repository)
        return await median_ms_async(snapshot, repeats=5)


async def _capture_ms() -> float:
    async with _prepared() as (yard, repository):
        workspaces = yard.equipment.workspaces
        base = await yard.equipment.trees.snapshot(repository)
        workspace = await workspaces.create(base, workspace_id=yard.equipment.clock.new_id())
        rounds = itertools.count()

        async def capture() -> None:
            edit(Path(workspace.root), f"VALUE = {next(rounds)}\n")
            started = time.perf_counter()
            changeset = await workspaces.capture(base, workspace)
            taken.append((time.perf_counter() - started) * 1000)
            if len(changeset.changes) != EDITS:
                raise RuntimeError(f"{len(changeset.changes)} changes captured")

        taken: list[float] = []
        try:
            for _ in range(6):
                await capture()
        finally:
            await workspaces.remove(workspace)
        return sorted(taken[1:])[2]


async def _cold_ratio() -> float:
    async with _prepared() as (yard, repository):
        cloned = clone_s(repository, yard.folder / "clone")
        started = time.perf_counter()
        base = await yard.equipment.trees.snapshot(repository)
        workspace = await yard.equipment.workspaces.create(base, workspace_id="COLD")
        made = time.perf_counter() - started
        there = count_files(Path(workspace.root))
        await yard.equipment.workspaces.remove(workspace)
        if there != FILES:
            raise RuntimeError(f"{there} files in the workspace")
        return made / cloned


@measured("snapshot of 20,000 files, none of them new")
def track_snapshot_again() -> float:
    return asyncio.run(_snapshot_ms())


@measured("workspace on 20,000 files, warm base", target=50)
def track_workspace_warm() -> float:
    return asyncio.run(_workspace_ms())


@measured("change set of 20 edits on 20,000 files", target=40)
def track_changeset() -> float:
    return asyncio.run(_capture_ms())


@measured("cold base and workspace, to git clone --local", unit="times")
def track_cold_base() -> float:
    return asyncio.run(_cold_ratio())
