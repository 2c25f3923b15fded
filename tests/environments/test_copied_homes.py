"""A copy of a home, made while an environment runs: it ends nothing of the original's."""

import math
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from environments.yards import ADAPTERS, KINDS, LOCAL, Running, Yard, starting
from patchyard.clients.belonging import is_own
from patchyard.clients.berths import FOLDER, Station, write_note
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.plan import Phase, State
from patchyard.domain.retention import judged_environment
from patchyard.domain.state import PlanState
from patchyard.environments.keeping import EnvironmentKeeper

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


def copied(yard: Yard, *options: str) -> Station:
    """Copy all that the home has of its environments; return where the copy keeps them."""
    there = yard.folder / "copy"
    subprocess.run(["cp", "-a", *options, yard.station.runtime, there], check=True)
    return replace(yard.station, runtime=there)


def left(station: Station) -> list[Path]:
    return list(station.runtime.glob("0*"))


async def goes_on(running: Running) -> bool:
    return await running.run("echo here") == "here"


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_copy_ends_goes_on_in_the_original(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    async with starting(adapter) as start:
        running = await start(yard.spec())
        copy = copied(yard)
        other = ADAPTERS[kind](copy)
        with pytest.raises(EnvironmentBroken, match="another home's"):
            await other.attach(running.handle)
        keeper = EnvironmentKeeper(copy, {running.handle.kind: other})
        (found,) = await keeper.found()
        assert found.is_copy
        assert not found.is_live
        assert await keeper.give_back(found, unused_since=math.inf)
        assert left(copy) == []
        await other.end(running.handle)  # as the copied journal names it, too
        assert await goes_on(running)
    assert left(yard.station) == []


@pytest.mark.parametrize("kind", LOCAL)
async def test_a_copy_that_shares_its_sockets_is_no_other(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    async with starting(adapter) as start:
        running = await start(yard.spec())
        copy = copied(yard, "-l")  # hard links: whoever listens there answers
        (found,) = await EnvironmentKeeper(copy, {}).found()
        assert (found.is_copy, found.is_live) == (True, False)
        await ADAPTERS[kind](copy).end(running.handle)
        assert await goes_on(running)


@pytest.mark.parametrize("kind", LOCAL)
async def test_a_copy_of_a_start_that_was_cut_off_ends_nothing(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    async with starting(adapter) as start:
        running = await start(yard.spec())
        early = {name: running.handle.details[name] for name in ("boot", FOLDER, "group")}
        copy = copied(yard)
        await ADAPTERS[kind](copy).end(replace(running.handle, details=early))
        assert await goes_on(running)


@pytest.mark.parametrize("kind", LOCAL)
async def test_a_note_of_an_older_version_counts_where_its_socket_answers(
    kind: str, yard: Yard
) -> None:
    adapter = yard.adapter(kind)
    async with starting(adapter) as start:
        running = await start(yard.spec())
        older = without_folder(running.handle)
        write_note(yard.station.runtime / older.environment_id, older, plan_id="01P")
        copy = copied(yard)
        assert not is_own(copy, older)
        with pytest.raises(EnvironmentBroken, match="has ended"):
            await ADAPTERS[kind](copy).attach(older)
        await ADAPTERS[kind](copy).end(older)
        assert await goes_on(running)
        await adapter.end(older)
        with pytest.raises(EnvironmentBroken):
            await adapter.attach(running.handle)


def without_folder(handle: EnvironmentHandle) -> EnvironmentHandle:
    kept = {name: value for name, value in handle.details.items() if name != FOLDER}
    return replace(handle, details=kept)


async def test_after_a_restart_a_device_may_have_another_number(yard: Yard) -> None:
    adapter = yard.adapter("process")
    async with starting(adapter) as start:
        handle = (await start(yard.spec())).handle
        folder = {**handle.details[FOLDER], "device": 0}
        elsewhere = replace(handle, details={**handle.details, FOLDER: folder})
        assert not is_own(yard.station, elsewhere)
        later = {**handle.details, FOLDER: {**folder, "boot": "another"}}
        assert is_own(yard.station, replace(handle, details=later))


async def test_the_janitor_names_what_is_another_homes(yard: Yard) -> None:
    async with starting(yard.adapter("process")) as start:
        await start(yard.spec())
        (found,) = await EnvironmentKeeper(copied(yard), {}).found()
    state = PlanState(plan_id="01P", phase=Phase.EXECUTE, state=State.PROCESSING)
    verdict = judged_environment(found, state, time.time())
    assert verdict.may_go
    assert verdict.reason == "it was copied from another home: what runs there is left alone"
