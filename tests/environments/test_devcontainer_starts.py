"""How the start of a devcontainer ends, by an engine that starts nothing."""

import asyncio

import pytest

from environments.yards import Yard
from patchyard.contracts.environment import Toolbox
from patchyard.domain.environment import EnvironmentHandle, EnvironmentSpec, Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.domain.usage import Health
from patchyard.environments.container import ContainerEnvironment
from patchyard.environments.devcontainer import DevcontainerEnvironment

pytestmark = pytest.mark.anyio

SPEC = EnvironmentSpec(
    plan_id="01JPLAN",
    purpose="execute",
    workspace=Mount(source="/plans/1/root", target="/workspaces/shop"),
    commands=("npm ci",),
)


class Breaking(DevcontainerEnvironment):
    """Its connection breaks at the first command; its end is not known until it is told."""

    def __init__(self, yard: Yard) -> None:
        super().__init__(yard.station)
        self.asked, self.told = asyncio.Event(), asyncio.Event()
        self.broken_by: Exception | None = None  # the look at how it is
        self.ending, self.ended = "killed for its memory", 0

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        raise EnvironmentBroken(f"{handle.environment_id} closed the connection")

    async def health(self, handle: EnvironmentHandle) -> Health:
        self.asked.set()
        await self.told.wait()
        if self.broken_by is not None:
            raise self.broken_by
        return Health(is_alive=False, answers=False, ending=f"{handle.kind} was {self.ending}")

    async def end(self, handle: EnvironmentHandle) -> None:
        assert handle.environment_id == "e1"
        self.ended += 1


@pytest.fixture
def breaking(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Breaking:
    async def start(self: ContainerEnvironment, spec: EnvironmentSpec) -> EnvironmentHandle:
        return EnvironmentHandle(
            environment_id="e1", kind=self.kind, workspace_path=spec.workspace.target
        )

    monkeypatch.setattr(ContainerEnvironment, "start", start)
    return Breaking(yard)


async def test_a_start_that_breaks_says_how_it_ended_and_leaves_nothing(
    breaking: Breaking,
) -> None:
    breaking.told.set()
    with pytest.raises(EnvironmentUnavailable, match=r"e1 closed .*; devcontainer was killed for"):
        await breaking.start(SPEC)
    assert breaking.ended == 1


async def test_a_start_that_is_cancelled_while_its_end_is_looked_at_leaves_nothing(
    breaking: Breaking,
) -> None:
    starting = asyncio.ensure_future(breaking.start(SPEC))
    await breaking.asked.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert breaking.ended == 1


async def test_a_start_whose_end_cannot_be_looked_at_leaves_nothing(breaking: Breaking) -> None:
    breaking.broken_by = EnvironmentUnavailable("no answer", hint="start it")
    breaking.told.set()
    with pytest.raises(EnvironmentUnavailable, match="no answer"):
        await breaking.start(SPEC)
    assert breaking.ended == 1
