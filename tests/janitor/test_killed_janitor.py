"""A janitor that is killed at any of its steps, and the next one."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite
from janitor.passing import bodies, left, swept, tree, worked
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.service("bubblewrap")

LATE = 91  # days


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Worksite]:
    """A repository with two finished plans."""
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    asyncio.run(_worked(made))
    yield made
    asyncio.run(made.clear())


async def _worked(place: Worksite) -> None:
    async with place.open() as (_, workflow):
        for _ in range(2):
            await worked(place, workflow, content="x" * 9000)


async def _swept(place: Worksite) -> None:
    async with place.open() as (equipment, _):
        await swept(equipment, days=LATE)


def _dying(place: Worksite, steps: int) -> bool:
    """Pass in a process that is killed after so many steps; return whether it was."""
    pid = os.fork()
    if pid == 0:
        try:
            _arm(steps)
            asyncio.run(_swept(place))
            os._exit(0)
        finally:
            os._exit(1)  # whatever comes, it does not go on as a second suite
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, -signal.SIGKILL}
    return code != 0


def _arm(steps: int) -> None:
    taken = 0

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        def one(*arguments: Any, **options: Any) -> Any:
            nonlocal taken
            taken += 1
            if taken == steps:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*arguments, **options)

        return one

    for name in ("unlink", "rename", "rmdir", "utime"):
        setattr(os, name, counted(getattr(os, name)))
    for name in ("_insert", "_transacted"):
        setattr(SQLiteJournal, name, counted(getattr(SQLiteJournal, name)))


def test_the_next_one_ends_what_a_killed_one_began(place: Worksite) -> None:
    steps = 1
    while _dying(place, steps % 60 + 1):
        steps += 1
        assert steps < 600, "no pass comes to its end"
    assert steps > 10, "it does not die often enough to show anything"
    asyncio.run(_clean(place))


async def _clean(place: Worksite) -> None:
    async with place.open() as (equipment, _):
        await swept(equipment, days=LATE + 1)
        assert len(await equipment.pruning.removed()) == 2
        assert await equipment.store.summaries.summaries() == []
        assert await bodies(equipment) == 0
    assert left(place) == []
    home = place.folder / "home"
    kept = [*tree(home / "trees"), *tree(home / "bases"), *tree(home / "checkpoints")]
    assert [name for name in kept if "/" in name and not Path(name).name.startswith(".")] == []
