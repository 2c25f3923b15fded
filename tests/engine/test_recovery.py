"""Calls whose environment is lost: undone and run again where that is safe, else unknown."""

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from engine.held import release
from engine.worksite import Worksite, call
from hostile_mcp import PROGRAM
from patchyard.clients.berths import from_details
from patchyard.clients.process import kill
from patchyard.contracts.trees import whole
from patchyard.domain.changeset import ChangeSet
from patchyard.domain.checkpoint import REPEATS, CallRepeated, CallUndone, FilesRestored
from patchyard.domain.codec import from_json
from patchyard.domain.environment import (
    IN_PLACE,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
    Site,
)
from patchyard.domain.events import Event, ToolCallRequested, ToolCallSettled
from patchyard.domain.mcp import McpServer
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.state import PlanState
from patchyard.engine.checkpoints import Checkpoints
from patchyard.engine.equipment import Equipment
from patchyard.engine.places import Places
from patchyard.engine.rows import body_of
from patchyard.engine.tool_runner import ToolRunner
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

WORD = "while ! test -e {}; do sleep 0.02; done"
LINGER = call(
    "execute_command",
    command=f"echo once >> log.txt; {WORD.format('again1')}; echo then >> log.txt",
    timeout_s=500,
)
"""A call that goes on once it was made again."""
FOREVER = call("execute_command", command="echo once >> log.txt; sleep 600", timeout_s=500)
AFTER = call("execute_command", command="echo after >> log.txt")

TOOLBOXES = {ExecutionEnvironment.PROCESS: "init", ExecutionEnvironment.HOST: "root"}

E = TypeVar("E", bound=Event)


def told(site: Worksite, kind: type[E]) -> list[E]:
    return [event for event in site.heard if isinstance(event, kind)]


def errors(site: Worksite) -> list[str | None]:
    return [event.error for event in told(site, ToolCallSettled)]


def letting(site: Worksite) -> Watching:
    """Hear all, and let what waits for it go on with each call that is made again."""

    def heard(event: Event) -> None:
        site.heard.append(event)
        if isinstance(event, CallRepeated):
            release(site, f"again{len(told(site, CallRepeated))}")

    return Watching(on_event=heard)


async def lose(
    equipment: Equipment, site: Worksite, plan_id: str, times: int, *, by_call: bool = False
) -> None:
    """Kill the toolbox of an open call that has written; so many different ones (or calls)."""
    lost: set[str] = set()
    while len(lost) < times:
        await asyncio.sleep(0.02)
        state = (await site.ledger(equipment, plan_id)).state
        if not state.open_calls or state.restoring or not _has_written(state):
            continue
        for name, live in state.environments.items():
            victim = next(iter(state.open_calls)) if by_call else name
            if victim not in lost:
                lost.add(victim)
                toolbox = from_details(live.handle, TOOLBOXES[live.handle.kind])
                if toolbox is not None:
                    kill(toolbox)


def _has_written(state: PlanState) -> bool:
    place = Path(str((state.workspace or {}).get("root")), "log.txt")
    return place.exists() and place.stat().st_size > 0


async def lines(equipment: Equipment, site: Worksite, plan_id: str) -> list[str]:
    """What the plan added, as its patch says it."""
    ledger = await site.ledger(equipment, plan_id)
    state = ledger.state
    assert state.changeset is not None
    assert state.base is not None
    changeset = from_json(ChangeSet, await ledger.value(state.changeset.body))
    patch = (await whole(equipment.trees.diff(state.base, changeset))).decode()
    return [line[1:] for line in patch.splitlines() if line[0] == "+" and line[:3] != "+++"]


async def ran(
    site: Worksite, spec: PlanSpec, *, times: int = 1, by_call: bool = False
) -> list[str]:
    """Run a plan whose environment is lost so often; return the lines that it added."""
    async with site.open() as (equipment, _):
        workflow = Workflow(equipment, watching=letting(site))
        plan_id = await workflow.create(spec)
        losing = asyncio.create_task(lose(equipment, site, plan_id, times, by_call=by_call))
        async with asyncio.timeout(240):
            state = await workflow.run(plan_id)
            await losing
        assert (state.phase, state.state, state.repeats) == (Phase.EXECUTE, State.COMPLETE, {})
        return await lines(equipment, site, plan_id)


async def test_a_call_whose_environment_died_is_undone_and_run_again(site: Worksite) -> None:
    spec = spec_of(site.asked(LINGER, AFTER), site.environ)
    assert await ran(site, spec) == ["once", "then", "after"]
    assert errors(site) == [None, None]
    (undone,), (repeated,) = told(site, CallUndone), told(site, CallRepeated)
    first = told(site, ToolCallRequested)[0]
    assert undone.checkpoint_id == first.checkpoint_id
    assert (repeated.call_id, repeated.number) == (first.call_id, 1)
    assert repeated.environment_id != first.environment_id
    assert len(told(site, FilesRestored)) == 1


async def test_what_was_written_before_the_call_stays(site: Worksite) -> None:
    earlier = call("write_file", path="log.txt", content="earlier\n")
    ready = call("execute_command", command="rm a.txt; mkdir -p d; echo kept > d/kept")
    spec = spec_of(site.asked(ready, earlier, LINGER), site.environ)
    assert await ran(site, spec) == ["kept", "earlier", "once", "then"]


async def test_what_a_repeated_call_wrote_stays_when_the_next_one_is_lost_too(
    site: Worksite,
) -> None:
    command = f"{WORD.format('again2')}; echo again >> log.txt"
    again = call("execute_command", command=command, timeout_s=500)
    spec = spec_of(site.asked(LINGER, again), site.environ)
    assert await ran(site, spec, times=2, by_call=True) == ["once", "then", "again"]
    undone = told(site, CallUndone)
    assert len({event.checkpoint_id for event in undone}) == len(undone) == 2


async def test_a_call_that_loses_its_environment_each_time_ends_as_unknown(site: Worksite) -> None:
    spec = spec_of(site.asked(FOREVER, AFTER), site.environ)
    assert await ran(site, spec, times=REPEATS + 1) == ["once", "after"]
    assert errors(site) == ["OUTCOME_UNKNOWN", None]
    assert [event.number for event in told(site, CallRepeated)] == [1, 2, 3]


async def test_on_host_a_call_is_never_run_again_by_itself(
    site: Worksite, open_folder: Path
) -> None:
    site.workspaces = open_folder / "workspaces"
    spec = spec_of(site.asked(LINGER, AFTER, kind="host"), site.environ)
    assert await ran(site, spec) == ["once", "after"]
    assert errors(site) == ["OUTCOME_UNKNOWN", None]
    assert told(site, CallRepeated) == []


async def test_where_more_than_the_workspace_can_be_written_nothing_is_run_again(
    site: Worksite, tmp_path: Path
) -> None:
    spec = spec_of(site.asked(LINGER, AFTER), site.environ)
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    assert await ran(site, replace(spec, mounts=(f"{outside}:rw",))) == ["once", "after"]
    assert errors(site) == ["OUTCOME_UNKNOWN", None]


async def test_a_call_that_was_lost_is_never_run_again_where_a_host_was_allowed(
    site: Worksite,
) -> None:
    spec = spec_of(site.asked(LINGER, AFTER, allow_hosts=("a.example",)), site.environ)
    assert await ran(site, spec) == ["once", "after"]
    assert errors(site) == ["OUTCOME_UNKNOWN", None]


async def test_without_a_checkpoint_before_the_call_nothing_is_run_again(site: Worksite) -> None:
    spec = spec_of(site.asked(LINGER, AFTER), site.environ)
    assert await ran(site, replace(spec, checkpoints=())) == ["once", "after"]
    assert errors(site) == ["OUTCOME_UNKNOWN", None]


@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_a_lost_call_of_an_mcp_server_is_made_again_only_where_it_is_said_to_be_idempotent(
    site: Worksite, *, is_idempotent: bool
) -> None:
    shutil.copy(PROGRAM, site.repository / "server.py")
    server = McpServer(
        name="h", command="python3", args=("server.py",), idempotent=is_idempotent, timeout_s=120
    )
    spec = spec_of(site.asked(call("mcp__h__linger", text=""), AFTER), site.environ)
    added = await ran(site, replace(spec, mcp_servers=(server,)))
    known = ["once", "then", "after"] if is_idempotent else ["once", "after"]
    assert (added, errors(site)) == (known, [None if is_idempotent else "OUTCOME_UNKNOWN", None])


class Killed(BaseException):
    """The engine died here."""


async def test_an_engine_killed_while_it_undoes_a_call_does_the_rest_in_its_next_life(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(LINGER, AFTER))

        async def dies(*_arguments: object) -> None:
            raise Killed

        monkeypatch.setattr(Checkpoints, "restore", dies)
        losing = asyncio.create_task(lose(equipment, site, plan_id, 1))
        with pytest.raises(Killed):
            await workflow.run(plan_id)
        await losing
        monkeypatch.undo()
    async with site.open() as (equipment, _):
        state = (await site.ledger(equipment, plan_id)).state
        assert (len(state.open_calls), bool(state.restoring)) == (1, True)
        state = await Workflow(equipment, watching=letting(site)).run(plan_id)
        assert (state.state, state.restoring) == (State.COMPLETE, "")
        assert await lines(equipment, site, plan_id) == ["once", "then", "after"]


async def test_what_the_engine_answers_itself_did_nothing_when_it_was_killed(
    site: Worksite,
) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(AFTER))
        ledger = await site.ledger(equipment, plan_id)
        places = Places(equipment, ledger, none_there, "execute")
        tools = equipment.tools("/srv/work")
        runner = ToolRunner(equipment, ledger, places, tools=tools, phase=Phase.EXECUTE)
        event = ToolCallRequested(
            call_id="01J00000000000000000000000",
            turn=1,
            ref="r",
            name="no_such_tool",
            arguments=body_of({}),
            environment_id="",
            level="engine",
        )
        await ledger.record(event)
        answered = await runner.settle_left_over(event)
    assert answered.result.error == "CANCELLED"
    assert "nothing was done" in answered.result.message


async def none_there() -> Mapping[Site, EnvironmentSpec]:
    return {}


@pytest.mark.parametrize("kind", ["host", "mock", "process"])
async def test_what_only_reads_is_just_run_again(
    site: Worksite, open_folder: Path, kind: str
) -> None:
    await asyncio.to_thread((open_folder / "a.txt").write_text, "read me\n")
    await asyncio.to_thread(open_folder.chmod, 0o755)
    target = str(open_folder) if kind in IN_PLACE else "/srv/work"
    mount = Mount(source=str(open_folder), target=target)
    spec = EnvironmentSpec(plan_id="P", purpose="execute", workspace=mount)
    where = Site(ExecutionEnvironment(kind))

    async def specs() -> Mapping[Site, EnvironmentSpec]:
        return {where: spec}

    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(AFTER))
        ledger = await site.ledger(equipment, plan_id)
        places = Places(equipment, ledger, specs, "execute")
        tools = equipment.tools(target)
        runner = ToolRunner(equipment, ledger, places, tools=tools, phase=Phase.EXECUTE)
        event = ToolCallRequested(
            call_id="01J00000000000000000000000",
            turn=1,
            ref="r",
            name="read_file",
            arguments=body_of({"path": "a.txt"}),
            environment_id="01J00000000000000000000001",
            kind=where.kind,
        )
        await ledger.record(event)
        answered = await runner.settle_left_over(event)
        await places.end()
    assert "read me" in answered.text
    assert answered.result.success
