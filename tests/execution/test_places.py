"""One environment on demand: what is started is ended, whatever goes wrong between."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.contracts.environment import OnOutput, Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
    Readiness,
)
from patchyard.domain.errors import EnvironmentBroken
from patchyard.engine import parting
from patchyard.execution.place import LostCall, Place
from toolboxes import comes_true

pytestmark = pytest.mark.anyio


class ScriptedToolbox:
    """A toolbox whose calls wait for a word."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.word = asyncio.Event()
        self.cancelled: list[str] = []
        self.is_broken = False
        self.limit: dict[str, Any] = {}  # what is said of the one that ended its environment

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        del call_id, args, on_output
        self.begun.set()
        if op == "wait":
            await self.word.wait()
        if self.is_broken:
            raise EnvironmentBroken(details=self.limit)
        return {"success": True}

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        del call_id, on_output
        return None

    async def cancel(self, call_id: str) -> None:
        self.cancelled.append(call_id)
        if self.is_broken:
            raise EnvironmentBroken

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        del call_ids
        if self.is_broken:
            raise EnvironmentBroken

    async def close(self) -> None:
        self.word.set()


class ScriptedEnvironment:
    """An environment that counts what is started and ended."""

    kind = ExecutionEnvironment.MOCK

    def __init__(self) -> None:
        self.toolboxes: list[ScriptedToolbox] = []
        self.live: list[str] = []
        self.attaching: asyncio.Event | None = None
        self.stays = False
        self.is_silent = False

    async def check(self) -> Readiness:
        return Readiness(kind=self.kind, is_ready=True)

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        made = SystemClock().new_id()
        self.live.append(made)
        return EnvironmentHandle(
            environment_id=made, kind=self.kind, workspace_path=spec.workspace.target
        )

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        del handle
        if self.attaching is not None:
            await self.attaching.wait()
        self.toolboxes.append(ScriptedToolbox())
        return self.toolboxes[-1]

    async def end(self, handle: EnvironmentHandle) -> None:
        if self.is_silent:
            await asyncio.Event().wait()
        if self.stays:
            raise EnvironmentBroken
        self.live.remove(handle.environment_id)


@pytest.fixture
def environment() -> ScriptedEnvironment:
    return ScriptedEnvironment()


@pytest.fixture
def place(environment: ScriptedEnvironment) -> Place:
    workspace = Mount(source="/w", target="/w", is_writable=True)
    spec = EnvironmentSpec(plan_id="", purpose="execute", workspace=workspace)
    return Place(environment, spec, new_id=SystemClock().new_id)


async def test_calls_at_once_share_one_environment(
    place: Place, environment: ScriptedEnvironment
) -> None:
    assert not place.is_open
    await asyncio.gather(*(place.call("read", {}) for _ in range(20)))
    assert (len(environment.live), place.is_open) == (1, True)
    assert await place.close()
    assert (environment.live, place.is_open) == ([], False)


async def test_a_start_that_is_cancelled_is_ended(
    place: Place, environment: ScriptedEnvironment
) -> None:
    environment.attaching = asyncio.Event()
    waiting = asyncio.create_task(place.call("read", {}))
    await comes_true(lambda: environment.live)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert environment.live == []


async def test_one_that_a_limit_ended_is_a_result_that_names_the_limit(
    place: Place, environment: ScriptedEnvironment
) -> None:
    await place.call("read", {})
    first = environment.toolboxes[0]
    first.is_broken, first.limit = True, {"limit": "memory", "used": 90, "allowed": 64}
    told = await place.call("execute_command", {})
    assert (told["success"], told["error"], told["limit"]) == (False, "LIMIT", "memory")
    assert (told["used"], told["allowed"], environment.live) == (90, 64, [])
    assert (await place.call("read", {}))["success"]


async def test_a_broken_one_is_ended_and_the_next_call_has_another(
    place: Place, environment: ScriptedEnvironment
) -> None:
    waiting = [asyncio.create_task(place.call("wait", {})) for _ in range(3)]
    await comes_true(lambda: environment.toolboxes)
    first = environment.toolboxes[0]
    await first.begun.wait()
    first.is_broken = True
    first.word.set()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in ended} == {LostCall}
    assert environment.live == []
    assert await place.call("read", {}) == {"success": True}
    assert len(environment.live) == 1
    await place.close()


async def test_a_result_counts_even_when_the_connection_goes_right_after_it(
    place: Place, environment: ScriptedEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.call("read", {})
    waiting = asyncio.create_task(place.call("wait", {}))
    (toolbox,) = environment.toolboxes
    toolbox.begun.clear()
    await toolbox.begun.wait()
    monkeypatch.setattr(toolbox, "forget", _broken)
    toolbox.word.set()
    assert await waiting == {"success": True}
    await place.close()


async def _broken(call_ids: tuple[str, ...]) -> None:
    raise EnvironmentBroken(str(call_ids))


@pytest.mark.parametrize("is_broken", [False, True])
async def test_a_cancelled_call_is_cancelled_inside_and_says_so(
    place: Place, environment: ScriptedEnvironment, *, is_broken: bool
) -> None:
    await place.call("read", {})
    (toolbox,) = environment.toolboxes
    toolbox.begun.clear()
    waiting = asyncio.create_task(place.call("wait", {}))
    await toolbox.begun.wait()
    toolbox.is_broken = is_broken
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(toolbox.cancelled) == 1
    await place.close()


async def test_what_does_not_end_stays_known_until_it_does(
    place: Place, environment: ScriptedEnvironment
) -> None:
    await place.start()
    environment.stays = True
    assert not await place.close()
    assert not await place.close()
    assert len(environment.live) == 1
    environment.stays = False
    assert await place.close()
    assert environment.live == []


async def test_one_that_is_silent_does_not_hold_up_its_end(
    place: Place, environment: ScriptedEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parting, "PARTING_S", 0.2)
    monkeypatch.setattr(parting, "LEAST_S", 0.1)
    await place.start()
    environment.is_silent = True
    monkeypatch.setattr(environment.toolboxes[0], "close", asyncio.Event().wait)
    async with asyncio.timeout(60):
        assert not await place.close()
    assert len(environment.live) == 1
    environment.is_silent = False
    assert await place.close()
    assert environment.live == []
