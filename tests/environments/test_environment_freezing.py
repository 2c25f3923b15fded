"""All that runs in an environment stands still for a moment, and goes on after it."""

import asyncio
import itertools
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from environments.yards import GVISORS, IN_GVISOR, KINDS, Adapter, Running, Start, Yard, held_still
from patchyard.clients import cgroups, freezing
from patchyard.clients.berths import from_details
from patchyard.clients.process import wait_ended
from patchyard.contracts.environment import Freezing
from patchyard.domain.environment import IN_PLACE
from toolboxes import comes_true

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

FREEZABLE = [kind for kind in KINDS if kind.values[0] not in GVISORS]
"""Kinds whose group an engine of any version may have frozen without harm."""

COUNTING = "echo $$ > counter.pid; while :; do echo x >> counter; sleep 0.002; done"


@pytest.fixture(params=KINDS)
def adapter(request: pytest.FixtureRequest, yard: Yard) -> Adapter:
    return yard.adapter(request.param)


@pytest.fixture(params=["cgroup", "toolbox"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By which means; where there is no cgroup the toolbox is asked anyway."""
    if request.param == "toolbox":
        monkeypatch.setattr(freezing, "can_freeze", lambda _group: False)
    return str(request.param)


def size(place: Path) -> int:
    return place.stat().st_size if place.exists() else 0


async def grown(place: Path, before: int) -> None:
    """Wait until the counter has grown."""
    await comes_true(lambda: size(place) > before)


async def counting(running: Running, yard: Yard, how: str) -> Path:
    """Let it count, and return the file that grows."""
    arguments = {"command": how, "background": True}
    assert (await running.toolbox.call("count", "execute_command", arguments))["success"]
    place = yard.inside(running.handle) / "counter"
    await grown(place, 0)
    return place


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("how", [COUNTING, f"setsid sh -c '{COUNTING}' & exit 0"])
async def test_a_job_stands_still_during_the_block_and_goes_on_after_it(
    start: Start, adapter: Adapter, yard: Yard, how: str
) -> None:
    assert isinstance(adapter, Freezing)
    running = await start(yard.spec())
    place = await counting(running, yard, how)
    async with asyncio.timeout(120):
        stood = 0
        while stood < 3:  # a busy disk keeps one in the kernel now and then: that is said
            async with adapter.frozen(running.handle, running.toolbox) as is_still:
                before = size(place)
                await asyncio.sleep(0.05)
                assert size(place) == before or not is_still
                stood += is_still
            await grown(place, before)
    assert await running.run("echo alive") == "alive"


async def test_where_nothing_runs_nobody_is_stopped(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    assert isinstance(adapter, Freezing)
    running = await start(yard.spec())
    async with adapter.frozen(running.handle, running.toolbox) as is_still:
        assert is_still
        assert await running.run("echo answered") == "answered"


@pytest.mark.parametrize("adapter", IN_GVISOR, indirect=True)
async def test_a_kernel_in_user_space_is_not_frozen_from_outside(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    place = await counting(running, yard, COUNTING)
    group = tuple(running.handle.details["group"])
    async with held_still(running):
        before = size(place)
        assert not freezing.is_frozen(group)
        assert await running.run("echo answered") == "answered"
        assert size(place) == before


@pytest.mark.parametrize("adapter", FREEZABLE, indirect=True)
async def test_what_a_dead_engine_left_frozen_goes_on_when_it_is_attached_to(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    place = await counting(running, yard, COUNTING)
    group = tuple(running.handle.details.get("group", ()))
    cgroups.freeze(group)
    before = size(place)
    toolbox = await adapter.attach(running.handle)
    async with asyncio.timeout(120):
        await grown(place, before)
    await toolbox.close()


async def test_what_a_dead_engine_let_the_toolbox_stop_goes_on_by_itself(
    start: Start, yard: Yard
) -> None:
    running = await start(yard.spec())
    place = await counting(running, yard, COUNTING)
    names = map(str, itertools.count())

    async def frozen(longest_s: float) -> Mapping[str, Any]:
        return await running.toolbox.call(next(names), "freeze", {"longest_s": longest_s})

    async with asyncio.timeout(120):
        while not (await frozen(60))["is_whole"]:  # a busy disk keeps one in the kernel
            continue
    before = size(place)
    again = await frozen(60)
    assert (again["stopped"], size(place)) == (0, before)
    await frozen(0.1)
    async with asyncio.timeout(120):
        await grown(place, before)


@pytest.mark.usefixtures("way")
async def test_a_toolbox_that_is_gone_keeps_nobody_waiting(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    assert isinstance(adapter, Freezing)
    running = await start(yard.spec())
    await counting(running, yard, COUNTING)
    name = "root" if adapter.kind in {*IN_PLACE, "ssh"} else "init"
    reference = from_details(running.handle, name)
    assert reference is not None
    async with asyncio.timeout(120):
        os.kill(reference.pid, signal.SIGKILL)
        await asyncio.to_thread(wait_ended, reference, timeout_s=60)
        async with adapter.frozen(running.handle, running.toolbox):
            assert not reference.is_alive
