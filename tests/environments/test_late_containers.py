"""Containers that are made after who asked for them has given up, by an engine of ours."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from environments.yards import Yard
from patchyard.clients import container_making
from patchyard.clients.berths import Berth
from patchyard.clients.container_making import GIVEN_UP, LATE_S, made, taken_back
from patchyard.clients.docker import ContainerEngine, EngineBusy
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.environments import container
from patchyard.environments.container import ContainerEnvironment

pytestmark = pytest.mark.anyio


class Slow(ContainerEngine):
    """It answers no request for a container, or with an error, and makes it when it is told."""

    def __init__(self, answer: EnvironmentUnavailable | None = None) -> None:
        super().__init__(None, "/run/slow.sock")
        self.answer = answer
        self.asked = asyncio.Event()
        self.there: set[str] = set()

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        assert (name, config) != ("", {})
        self.asked.set()
        if self.answer is not None:
            raise self.answer
        await asyncio.Event().wait()

    async def inspect(self, name: str, *, has_size: bool = False) -> Mapping[str, Any] | None:
        return {"Id": name, "has_size": has_size} if name in self.there else None

    async def remove(self, name: str) -> None:
        self.there.discard(name)


class Starting:
    """A start that has come to the container, and the environment that ends what is left."""

    def __init__(self, yard: Yard, engine: Slow) -> None:
        self.engine = engine
        self.berth = Berth(yard.station, yard.station.new_id(), plan_id="")
        self.name = f"patchyard-{self.berth.directory.name}"
        self.adapter = ContainerEnvironment(yard.station)

    @property
    def handle(self) -> EnvironmentHandle:
        details = {"container": self.name, "engine": self.engine.socket}
        return self.berth.handle(ExecutionEnvironment.CONTAINER, "/w", details)

    async def fails(self) -> None:
        """Ask for a container and, where that fails, take it back, as a start does."""
        try:
            await made(self.engine, self.name, {"Image": "it"}, self.berth.directory)
        finally:
            await taken_back(self.engine, self.name, self.berth)

    @property
    def is_noted(self) -> bool:
        return self.berth.directory.exists()


@pytest.fixture(params=["cancelled", "not answered in time"])
async def given_up(
    request: pytest.FixtureRequest, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> Starting:
    """A start that has given up."""
    monkeypatch.setattr(container_making, "CREATING_S", 0.0)
    is_cancelled = request.param == "cancelled"
    engine = Slow(None if is_cancelled else EngineBusy("nothing within 20 s"))

    @contextlib.asynccontextmanager
    async def connected(_: str) -> AsyncIterator[Slow]:
        yield engine

    monkeypatch.setattr(container, "connected", connected)
    starting = Starting(yard, engine)
    asking = asyncio.ensure_future(starting.fails())
    await engine.asked.wait()
    if is_cancelled:
        asking.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else EngineBusy):
        await asking
    return starting


async def test_what_is_made_late_for_a_start_that_gave_up_goes_with_its_folder(
    given_up: Starting,
) -> None:
    assert given_up.is_noted
    with pytest.raises(EnvironmentBroken, match=f"{given_up.name} may be made yet") as early:
        await given_up.adapter.end(given_up.handle)
    assert (given_up.is_noted, "`agents gc`" in early.value.hint) == (True, True)

    given_up.engine.there.add(given_up.name)
    await given_up.adapter.end(given_up.handle)
    assert (given_up.is_noted, given_up.engine.there) == (False, set())


async def test_what_was_not_made_for_long_is_waited_for_no_more(given_up: Starting) -> None:
    mark = given_up.berth.directory / GIVEN_UP
    status = await asyncio.to_thread(mark.stat)
    os.utime(mark, (status.st_atime, status.st_mtime - LATE_S - 1))
    await given_up.adapter.end(given_up.handle)
    assert not given_up.is_noted


async def test_a_container_that_is_refused_leaves_no_folder(yard: Yard) -> None:
    starting = Starting(yard, Slow(EnvironmentUnavailable("the container engine refused: no")))
    with pytest.raises(EnvironmentUnavailable, match="refused"):
        await starting.fails()
    assert not starting.is_noted
