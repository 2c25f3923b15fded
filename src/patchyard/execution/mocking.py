"""The mode mock: a simulated remote that can be slow and fail by a seed (D1, D7).

What is done is really done, on this machine: only the network, the cluster and the clone are not.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from patchyard.clients.removal import MountedInside, remove_tree
from patchyard.clients.temporaries import make_sandbox_folder
from patchyard.contracts.environment import Environment
from patchyard.domain.errors import EnvironmentBroken
from patchyard.environments.mock import HINT, Dice, Trouble
from patchyard.execution.cloning import CloneResult, TaskConfig
from patchyard.execution.executor import ToolExecutor
from patchyard.execution.outcomes import Outcome, failed
from patchyard.execution.place import Place, remove_own_workspace
from patchyard.execution.workspaces import WorkspaceManager

TOOL_LATENCY_MS = 100.0  # D+
WORKSPACE_LATENCY_MS = 500.0  # D+
EXECUTORS_SHARE = 1 / 3  # D+: of the manager's latency


class MockToolExecutor(ToolExecutor):
    """Operations that take their time, and some of which fail when that was said.

    A workspace that is not there is made for it, empty, and goes when this is closed.
    """

    def __init__(self, task_id: str, place: Place, dice: Dice, *, own: Path | None = None) -> None:
        super().__init__(task_id, place, is_remote=True)
        self._dice = dice
        self._own = own  # to be deleted

    def set_simulate_failures(self, is_on: bool) -> None:  # noqa: FBT001 - the source's name and form
        """Let one operation in ten fail from now on, or none."""
        self._dice.trouble = replace(self._dice.trouble, has_failures=is_on)

    def set_latency(self, ms: float) -> None:
        """Let each operation take `ms` longer from now on, more or less by half."""
        self._dice.trouble = replace(self._dice.trouble, latency_ms=ms)

    async def close(self) -> Outcome:
        """End the environment with all that runs there; called again it does nothing."""
        closed = await super().close()
        try:
            if closed.success and self._own is not None:
                remove_own_workspace(self._own)
        except (MountedInside, OSError) as error:
            return failed(Outcome, "close", error)
        return closed


class MockWorkspaceManager(WorkspaceManager):
    """Workspaces of the mode mock: no network is reached and nothing is cloned.

    A prepared one holds a README that names the repository. They lie in a folder of this object's,
    which goes when it is closed.
    """

    def __init__(
        self,
        *,
        home: Path,
        environ: Mapping[str, str],
        environment: Environment,
        executor: Callable[[str, str], MockToolExecutor],
        dice: Dice,
    ) -> None:
        self._own = make_sandbox_folder()
        self._dice = dice

        def told(task_id: str, path: str) -> MockToolExecutor:
            return self._tell(executor(task_id, path))

        super().__init__(
            self._own, home=home, environ=environ, environment=environment, executor=told
        )

    def _tell(self, executor: MockToolExecutor) -> MockToolExecutor:
        executor.set_simulate_failures(self._dice.trouble.has_failures)
        executor.set_latency(self._dice.trouble.place_latency_ms * EXECUTORS_SHARE)
        return executor

    def get_executor(self, task_id: str) -> MockToolExecutor:
        """Return the operations on a prepared workspace, as slow and failing as this is."""
        found = super().get_executor(task_id)
        assert isinstance(found, MockToolExecutor)  # noqa: S101 - it makes no others
        return found

    def is_remote(self) -> bool:
        """Whether the workspaces stand for some on another machine: they do."""
        return True

    def set_simulate_failures(self, is_on: bool) -> None:  # noqa: FBT001 - the source's name and form
        """Let one of its operations in twenty fail from now on, and of its executors' in ten."""
        self._dice.trouble = replace(self._dice.trouble, has_failures=is_on)
        self._tell_all()

    def set_latency(self, ms: float) -> None:
        """Let its operations take `ms` longer from now on, its executors' a third of that."""
        self._dice.trouble = replace(self._dice.trouble, place_latency_ms=ms)
        self._tell_all()

    def _tell_all(self) -> None:
        for task_id in self._executors:
            self._tell(self.get_executor(task_id))

    def get_active_workspaces(self) -> tuple[str, ...]:
        """Return the tasks whose workspaces are there."""
        return tuple(self._names())

    def get_active_workspace_count(self) -> int:
        """Return how many there are."""
        return len(self._names())

    def _fill(self, task: TaskConfig, place: Path, token_env: str) -> tuple[CloneResult, bool]:
        del token_env  # no server is asked
        place.mkdir()
        branch = task.work_branch or task.branch or "main"
        about = f"A simulated clone of {task.repo_url}, branch {branch}.\n"
        (place / "README.md").write_text(about, encoding="utf-8")
        return CloneResult(repo_url=task.repo_url, branch=branch, commit=""), True

    async def _simulated(self, what: str) -> None:
        if await self._dice.place(what):
            raise EnvironmentBroken(f"{what} was lost in the mock, as its seed says", hint=HINT)

    async def close(self) -> Outcome:
        """End all environments and delete the workspaces."""
        closed = await super().close()
        try:
            if closed.success:
                remove_tree(self._own)
        except (MountedInside, OSError) as error:
            return failed(Outcome, "close", error)
        return closed


def slow(trouble: Trouble) -> Trouble:
    """Return the source's latencies, where the variables say none."""
    return replace(
        trouble,
        latency_ms=trouble.latency_ms or TOOL_LATENCY_MS,
        place_latency_ms=trouble.place_latency_ms or WORKSPACE_LATENCY_MS,
    )


__all__ = [
    "EXECUTORS_SHARE",
    "TOOL_LATENCY_MS",
    "WORKSPACE_LATENCY_MS",
    "MockToolExecutor",
    "MockWorkspaceManager",
    "slow",
]
