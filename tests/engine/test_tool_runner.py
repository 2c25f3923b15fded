"""Calls that an earlier life of the engine left behind, and outputs read again."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call
from patchyard.contracts.actor import Wanted
from patchyard.contracts.environment import Environment, Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
    Site,
)
from patchyard.domain.errors import EnvironmentBroken, UnknownName
from patchyard.domain.events import ToolCallRequested
from patchyard.domain.plan import Phase
from patchyard.engine import places as places_of_engine
from patchyard.engine import tool_runner
from patchyard.engine.answers import answer_in_time
from patchyard.engine.metering import Metered, metered
from patchyard.engine.places import Places
from patchyard.engine.rows import body_of
from patchyard.engine.tool_runner import ToolRunner

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

KIND = ExecutionEnvironment.PROCESS
HERE = Site(KIND)


def asked(handle: EnvironmentHandle, name: str, **arguments: object) -> ToolCallRequested:
    """The intent of a call that an earlier life of the engine left open."""
    return ToolCallRequested(
        call_id="01J00000000000000000000000",
        turn=1,
        ref="r",
        name=name,
        arguments=body_of(arguments),
        environment_id=handle.environment_id,
        kind=KIND,
    )


@pytest.fixture
async def runner(site: Worksite, open_folder: Path) -> AsyncIterator[ToolRunner]:
    await asyncio.to_thread(open_folder.chmod, 0o755)
    spec = EnvironmentSpec(
        plan_id="P",
        purpose="execute",
        workspace=Mount(source=str(open_folder), target="/srv/work", is_writable=True),
    )

    async def specs() -> Mapping[Site, EnvironmentSpec]:
        return {HERE: spec}

    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(call("read_file", path="a.txt")))
        ledger = await site.ledger(equipment, plan_id)
        places = Places(equipment, ledger, specs, "execute")
        tools = equipment.tools("/srv/work")
        yield ToolRunner(equipment, ledger, places, tools=tools, phase=Phase.EXECUTE)
        await places.end()


async def test_a_call_taken_up_again_has_the_time_it_was_given(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    async def told(waiting: Awaitable[Any], args: Mapping[str, Any], *, op: str) -> Any:
        limits.append(args.get("timeout_s"))
        return await answer_in_time(waiting, args, op=op)

    monkeypatch.setattr(tool_runner, "answer_in_time", told)
    handle, _ = await runner._places.toolbox(HERE)
    event = asked(handle, "execute_command", command="echo hi", timeout_s="45")
    await runner._ledger.record(event)
    answered = await runner.settle_left_over(event)
    assert answered.result.data["stdout"] == "hi\n"
    assert limits == [45]


async def test_a_call_of_another_environment_is_not_sent_to_the_one_that_runs_now(
    runner: ToolRunner, open_folder: Path
) -> None:
    here, _ = await runner._places.toolbox(HERE)
    gone = replace(here, environment_id="01J00000000000000000000001")
    event = asked(gone, "write_file", path="twice.txt", content="again")
    await runner._ledger.record(event)
    answered = await runner.settle_left_over(event)
    assert answered.result.error == "OUTCOME_UNKNOWN"
    assert await asyncio.to_thread(os.listdir, open_folder) == []


async def test_of_two_environments_left_behind_the_newer_is_taken_up_and_the_other_ended(
    runner: ToolRunner,
) -> None:
    places = runner._places
    await places.toolbox(HERE)
    places._open.clear()  # given up, but it would not end
    newer, _ = await places.toolbox(HERE)
    places._open.clear()
    await places.find_again()
    assert list(runner._ledger.state.environments) == [newer.environment_id]
    handle, _ = await places.toolbox(HERE)
    assert handle == newer


async def test_what_was_attached_to_is_closed_where_it_cannot_be_taken_up(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[Toolbox] = []

    def unmetered(
        _environment: Environment, _handle: EnvironmentHandle, found: Toolbox, **_more: object
    ) -> Metered:
        reached.append(found)
        raise OSError("the counters are gone")

    def kept(
        environment: Environment, handle: EnvironmentHandle, found: Toolbox, **_more: object
    ) -> Metered:
        reached.append(found)
        return metered(environment, handle, found)

    async def staying(*_given: object, **_more: object) -> None:
        raise EnvironmentBroken("it would not end")

    places = runner._places
    for _ in range(2):
        await places.toolbox(HERE)
        places._open.clear()
    with monkeypatch.context() as patched:
        patched.setattr(places_of_engine, "entrusted", unmetered)
        with pytest.raises(OSError, match="the counters"):
            await places.find_again()
        patched.setattr(places_of_engine, "entrusted", kept)
        patched.setattr(places_of_engine, "ended", staying)
        with pytest.raises(EnvironmentBroken, match="would not end"):
            await places.find_again()  # the older one's place is taken by the newer one
    assert len(reached) == 3
    for toolbox in reached:
        with pytest.raises(EnvironmentBroken):
            await toolbox.call("c", "read_file", {"path": "a.txt"})
    await places.find_again()
    assert len(runner._ledger.state.environments) == 1


async def test_a_kind_without_an_adapter_is_named(runner: ToolRunner) -> None:
    with pytest.raises(UnknownName, match="not in this version"):
        await runner._places.toolbox(Site(ExecutionEnvironment.POD))


async def test_a_call_with_a_problem_is_never_made_whatever_its_arguments(
    runner: ToolRunner, open_folder: Path
) -> None:
    arguments = {"path": "x.txt", "content": "x"}
    wanted = Wanted(ref="r", name="write_file", arguments=arguments, problem="not now")
    answered = await runner.run(wanted, turn=1)
    assert (answered.result.error, answered.result.message) == ("VALIDATION_ERROR", "not now")
    assert await asyncio.to_thread(os.listdir, open_folder) == []


async def test_any_earlier_output_can_be_read_again(runner: ToolRunner) -> None:
    for number in range(3):
        wanted = {"command": f"echo output {number}"}
        last = await runner.run(
            Wanted(ref=str(number), name="execute_command", arguments=wanted), turn=1
        )
    asked = {"call_id": last.result.call_id}
    read = await runner.run(Wanted(ref="r", name="read_output", arguments=asked), turn=2)
    assert "output 2" in read.result.data["content"]


@pytest.mark.parametrize("gives_up", ["replace", "end"])
async def test_an_environment_is_ended_though_the_close_of_its_connection_is_cancelled(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch, gives_up: str
) -> None:
    closing, close = asyncio.Event(), Metered.close

    async def slowly(self: Metered) -> None:
        await close(self)
        closing.set()
        await asyncio.Event().wait()

    places = runner._places
    await places.toolbox(HERE)
    monkeypatch.setattr(Metered, "close", slowly)
    ways = {"replace": lambda: places.replace(HERE, "it broke"), "end": places.end}
    ending = asyncio.ensure_future(ways[gives_up]())
    await closing.wait()
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert runner._ledger.state.environments == {}
