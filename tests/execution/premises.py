"""What the tests of this folder share."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.identity import agent_identity
from patchyard.environments.mock import PLACE_FAILURES, TOOL_FAILURES, chance
from patchyard.execution import CommandResult, ToolExecutor

__all__ = ["Premises", "is_there", "run_out", "seed_where"]


@dataclass(frozen=True)
class Premises:
    """One embedding program's folders."""

    folder: Path

    @property
    def repository(self) -> Path:
        """What workspaces are cloned from."""
        return self.folder / "repository"

    @property
    def tasks(self) -> Path:
        """Where workspaces lie."""
        return self.folder / "workspaces/tasks"

    @property
    def left(self) -> list[str]:
        """Environments and temporary folders that are still there."""
        folders = (self.folder / "tmp", self.folder / "state/scratch")
        found = [each.name for folder in folders if folder.is_dir() for each in folder.iterdir()]
        found += [each.name for each in (self.folder / "state/run").glob("0*")]
        return sorted([*found, *(each.name for each in self.tasks.glob(".*"))])

    def workspace(self, name: str = "work") -> Path:
        """An empty folder that belongs to the agent."""
        made = self.folder / name
        made.mkdir()
        identity = agent_identity()
        if identity.is_switched:
            os.chown(made, identity.uid, identity.gid)
        return made


def is_there(path: str | Path) -> bool:
    """Whether anything has that name, a link that leads nowhere too."""
    return os.path.lexists(path)


async def run_out(
    run: Callable[[float], Awaitable[CommandResult]], tools: ToolExecutor, told: str
) -> CommandResult:
    """Run what writes the file `told` and then hangs, in more time where it did not get so far."""
    for timeout_s in (1.5, 15.0, 60.0):
        done = await run(timeout_s)
        if (await tools.read_file(told)).success:
            break
    return done


def seed_where(*, fails: str, done: bool = False) -> int:
    """A seed with which the first of these fails, and nothing else for a while."""

    def is_wanted(seed: int) -> bool:
        drawn = {
            (what, number): chance(seed, what, number)
            for what in ("start", "attach", "end", "call", "prepare", "cleanup", "status", "health")
            for number in range(1, 7)
        }
        first = drawn.pop((fails, 1))
        shares = {"call": TOOL_FAILURES}
        share = shares.get(fails, PLACE_FAILURES)
        is_quiet = all(value >= shares.get(key[0], PLACE_FAILURES) for key, value in drawn.items())
        return first < share and (first >= share / 2) == done and is_quiet

    return next(seed for seed in range(1_000_000) if is_wanted(seed))
