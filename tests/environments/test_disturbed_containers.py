"""Containers of ours that another user of their engine renames or pauses meanwhile."""

import asyncio
import os
import secrets
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environments.limited import limited
from environments.yards import Adapter, Start, Yard
from patchyard.clients import container_making
from patchyard.clients.berths import Berth
from patchyard.clients.docker import ContainerEngine, connected, engine_socket
from patchyard.clients.trial_image import trial_image
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.domain.ids import ulid
from patchyard.engine import answers
from patchyard.engine.metering import metered
from patchyard.environments import devcontainer
from services import REAL_ENVIRONMENT
from toolboxes import until

pytestmark = [pytest.mark.anyio, pytest.mark.service("docker")]


def docker(*words: str) -> None:
    subprocess.run(["docker", *words], check=True, env=REAL_ENVIRONMENT)


@pytest.fixture
def adapter(yard: Yard) -> Adapter:
    return yard.adapter("container")


async def test_a_container_that_was_renamed_goes_and_what_has_its_name_stays(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    name = str(running.handle.details["container"])
    docker("rename", name, f"{name}-other")
    async with connected(engine_socket(os.environ)) as engine:
        await engine.create(name, {"Image": yard.image, "Entrypoint": ["/never"]})
        try:
            await adapter.end(running.handle)
            assert await engine.inspect(f"{name}-other") is None
            assert await engine.inspect(name)
        finally:
            await engine.remove(name)
            await engine.remove(f"{name}-other")


@pytest.mark.usefixtures("patient")
async def test_a_call_whose_container_is_killed_from_outside_says_how_it_ended(
    adapter: Adapter, yard: Yard
) -> None:
    async with limited(adapter, yard.spec()) as (handle, toolbox):
        asked = {"command": "touch begun; sleep 60"}
        calling = asyncio.create_task(toolbox.call("c", "execute_command", asked))
        await until(Path.exists, yard.workspace / "begun")
        await asyncio.to_thread(docker, "kill", str(handle.details["container"]))
        with pytest.raises(EnvironmentBroken, match=r"; its container ended with exit code 137$"):
            await calling


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("engine", "told"),
    [("", "; its container is not there any more: it was removed"), ("none", "")],
)
async def test_a_call_after_a_container_was_removed_says_so_where_its_engine_answers(
    engine: str, told: str, adapter: Adapter, yard: Yard
) -> None:
    async with limited(adapter, yard.spec()) as (handle, toolbox):
        place = str(yard.folder / engine) if engine else str(handle.details["engine"])
        asked = replace(handle, details={**handle.details, "engine": place})
        docker("rm", "--force", str(handle.details["container"]))
        other = metered(adapter, asked, toolbox.wrapped)
        with pytest.raises(EnvironmentBroken, match=rf"^[^;]+{told}$"):
            await other.call("c", "execute_command", {"command": "true"})
        await other.close()


async def test_a_container_that_stands_still_in_a_command_of_its_start_is_given_up(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devcontainer, "COMMAND_S", 30.0)  # it stands still well before
    monkeypatch.setattr(answers, "SLACK_S", 0.5)
    its_kind = yard.adapter("devcontainer")
    spec = replace(yard.spec(), commands=("touch begun; sleep 60",))
    starting = asyncio.create_task(its_kind.start(spec))
    await until(Path.exists, yard.workspace / "begun")
    name = f"patchyard-{next(yard.station.runtime.glob('0*')).name}"
    docker("pause", name)
    with pytest.raises(EnvironmentUnavailable, match=r"gave no answer within 30\.5 s"):
        await starting
    async with connected(engine_socket(os.environ)) as engine:
        assert await engine.inspect(name) is None


@pytest.mark.usefixtures("patient")
async def test_a_container_that_is_killed_in_a_command_of_its_start_says_how_it_ended(
    yard: Yard,
) -> None:
    its_kind = yard.adapter("devcontainer")
    spec = replace(yard.spec(), commands=("touch begun; sleep 60",))
    starting = asyncio.create_task(its_kind.start(spec))
    await until(Path.exists, yard.workspace / "begun")
    docker("kill", f"patchyard-{next(yard.station.runtime.glob('0*')).name}")
    with pytest.raises(EnvironmentUnavailable, match=r"; its container ended with exit code 137$"):
        await starting


async def test_a_container_that_is_made_after_its_engine_was_killed_goes_with_its_folder(
    adapter: Adapter, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    berth = Berth(yard.station, yard.station.new_id(), plan_id="")
    name = f"patchyard-{berth.directory.name}"
    handle = berth.handle(ExecutionEnvironment.CONTAINER, "/w", {"container": name})
    berth.close_listener()
    looked, inspect = asyncio.Event(), ContainerEngine.inspect

    async def noted(self: ContainerEngine, *given: Any, **more: Any) -> Any:
        found = await inspect(self, *given, **more)
        looked.set()
        return found

    monkeypatch.setattr(ContainerEngine, "inspect", noted)
    monkeypatch.setattr(container_making, "CREATING_S", 60.0)
    ending = asyncio.create_task(adapter.end(handle))
    await looked.wait()
    async with connected(engine_socket(os.environ)) as engine:
        await engine.create(name, {"Image": yard.image, "Entrypoint": ["/never"]})
        await ending
        assert await inspect(engine, name) is None
    assert not berth.directory.exists()


@pytest.mark.parametrize("which", [1, 2], ids=["asked for links", "its own"])
async def test_a_container_that_is_made_after_its_start_was_cancelled_goes_too(
    which: int, adapter: Adapter, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_go_on, create = asyncio.Event(), asyncio.Event(), ContainerEngine.create
    making: list[asyncio.Task[None]] = []

    async def slow(self: ContainerEngine, name: str, config: Mapping[str, Any]) -> None:
        async def work() -> None:
            if len(making) == which:
                asked.set()
                await may_go_on.wait()
            async with connected(self.socket) as engine:
                await create(engine, name, config)

        making.append(asyncio.create_task(work()))
        await asyncio.shield(making[-1])  # as its engine does, it goes on without who asked

    monkeypatch.setattr(ContainerEngine, "create", slow)
    monkeypatch.setattr(container_making, "CREATING_S", 60.0)
    starting = asyncio.create_task(adapter.start(yard.spec()))
    await asked.wait()
    (place,) = yard.station.runtime.glob("0*")
    starting.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await making[-1]
    async with connected(engine_socket(os.environ)) as engine:
        assert await engine.inspect(f"patchyard-{place.name}") is None


async def test_an_image_that_a_killed_check_left_goes_with_the_next_one(
    adapter: Adapter,
) -> None:
    yesterday, just_now = (
        trial_image(ulid(int(made * 1000), secrets.randbits(80)))
        for made in (time.time() - 86_400, time.time())
    )
    async with connected(engine_socket(os.environ)) as engine:
        for name, archive in (yesterday, just_now):
            await engine.load(name, archive)
        try:
            assert (await adapter.check()).is_ready
            assert not await engine.has_image(yesterday[0])
            assert await engine.has_image(just_now[0])  # another engine may be at it
        finally:
            await engine.remove_image(just_now[0])
