"""The map of a repository of 20,000 source files, all of them of published packages."""

import asyncio
import functools
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.measuring import measured
from benchmarks.workspace_bench import git
from patchyard.clients.removal import remove_tree
from patchyard.contracts.analyst import Study
from patchyard.domain.changeset import Base
from patchyard.domain.repository_map import is_mapped
from patchyard.workspaces.analyst import FOLDER, GitAnalyst
from patchyard.workspaces.pinned import GitTrees

PACKAGES = ("ansible==10.6.0", "homeassistant==2023.12.4")  # 13,894 and 6,318 files with rules
FILES = 20_000
TOKENS = 2000
TASK = "the inventory plugin loses hosts of a group whose name has a dash; see inventory/manager.py"
ROUNDS = 5


@functools.cache
def _packages() -> Path:
    """The wheels, fetched once by pip from the user's own index."""
    folder = Path(tempfile.mkdtemp(prefix="patchyard-bench-wheels-"))
    words = ("download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder))
    done = subprocess.run([sys.executable, "-m", "pip", *words, *PACKAGES], check=False)
    if done.returncode != 0:
        raise NotImplementedError("no package index")
    return folder


def _repository(folder: Path) -> Path:
    """A committed repository of the first FILES files of the packages that have rules."""
    repository = folder / "repository"
    left = FILES
    for wheel in sorted(_packages().glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in sorted(archive.namelist()) if is_mapped(name)][:left]
            left -= len(names)
            archive.extractall(repository, names)
    assert left == 0
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
        git(repository, *command)
    return repository


class _Ground:
    """The repository with a home."""

    def __init__(self, repository: Path, home: Path) -> None:
        self.repository, self.trees = repository, GitTrees(home)
        self._analyst = GitAnalyst(self.trees)

    async def base(self) -> Base:
        return await self.trees.snapshot(self.repository)

    async def timed(self, base: Base) -> tuple[float, Study]:
        """The milliseconds of one study."""
        started = time.perf_counter()
        study = await self._analyst.study(base, TASK, tokens=TOKENS)
        return (time.perf_counter() - started) * 1000, study

    @staticmethod
    def forget(base: Base) -> None:
        remove_tree(Path(base.store).parent / FOLDER)


@asynccontextmanager
async def _prepared() -> AsyncIterator[_Ground]:
    with tempfile.TemporaryDirectory(prefix="patchyard-bench-") as name:
        yield _Ground(_repository(Path(name)), Path(name, "home"))


async def _measured(way: str) -> float:
    async with _prepared() as ground:
        base = await ground.base()
        taken = []
        await ground.timed(base)
        for number in range(ROUNDS if way != "cold" else 3):
            if way == "cold":
                ground.forget(base)
            if way == "changed":
                path = ground.repository / "homeassistant" / "bootstrap.py"
                path.write_text(f"{path.read_text()}\n\ndef added_{number}(): ...\n")
                base = await ground.base()
            milliseconds, study = await ground.timed(base)
            assert study.is_cached == (way == "warm")
            assert study.symbols
            taken.append(milliseconds)
        return sorted(taken)[len(taken) // 2]


@measured("map of 20,000 files, cold", target=5000)
def track_cold() -> float:
    return asyncio.run(_measured("cold"))


@measured("map of 20,000 files, warm", target=300)
def track_warm() -> float:
    return asyncio.run(_measured("warm"))


@measured("map of 20,000 files, one of them changed", target=5000)
def track_changed() -> float:
    return asyncio.run(_measured("changed"))


def _small(folder: Path) -> Path:
    repository = folder / "repository"
    repository.mkdir()
    (repository / "stock.py").write_text("def pages(n):\n    return range(n)\n")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "all"]):
        git(repository, *command)
    return repository


async def _small_ms() -> float:
    with tempfile.TemporaryDirectory(prefix="patchyard-bench-") as name:
        ground = _Ground(_small(Path(name)), Path(name, "home"))
        base = await ground.base()
        taken = []
        for _ in range(4 * ROUNDS):
            ground.forget(base)
            taken.append((await ground.timed(base))[0])
        return sorted(taken)[len(taken) // 2]


@measured("what the analysis adds to the first step in a small repository", target=10)
def track_small() -> float:
    return asyncio.run(_small_ms())
