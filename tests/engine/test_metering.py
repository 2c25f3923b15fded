"""What a plan's calls use and which limits they hit, from the toolbox to journal and report."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.worksite import Worksite, call
from patchyard.clients import cgroups
from patchyard.clients.tally import Tally
from patchyard.contracts.environment import Environment, OnOutput
from patchyard.contracts.handover import Receipt
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
)
from patchyard.domain.errors import EnvironmentBroken, PatchyardError
from patchyard.domain.events import EnvironmentEnded, EnvironmentStarted, Noted, ToolCallSettled
from patchyard.domain.state import LiveEnvironment, PlanState
from patchyard.domain.usage import Health, Reading
from patchyard.engine import ends, metering
from patchyard.engine.call_results import result_of
from patchyard.engine.conditions import conditions
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import Metered, ended_by_limit, metered, used_in_all
from patchyard.engine.report import plan_data
from toolboxes import comes_true

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

HOG = "python3 -c 'x = bytearray(1 << 28)'"
FLOOD = "head -c 16000000 /dev/zero; head -c 16000000 /dev/zero >&2"
TIGHT = ("memory=64M", "processes=32")


async def settled(ledger: Ledger) -> list[ToolCallSettled]:
    return [event for _, _, event in await ledger.events() if isinstance(event, ToolCallSettled)]


async def test_a_call_that_hits_a_limit_is_a_result_and_the_plan_goes_on(site: Worksite) -> None:
    calls = (call("execute_command", command=HOG), call("execute_command", command="echo on >b"))
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(*calls, limits=TIGHT, validate=("true",)))
        await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        data = await plan_data(ledger)
        hog, on = await settled(ledger)
        result = result_of(hog, await ledger.value(hog.data))
    assert (hog.error, on.success, data["changed"]) == ("LIMIT", True, True)
    assert "the limit `memory` was reached" in hog.message
    assert (result.data["limit"], result.data["allowed"]) == ("memory", 64 * 1024**2)
    assert hog.usage is not None
    assert result.data["usage"]["memory_bytes"] == hog.usage.memory_bytes
    ended = [event for event in site.heard if isinstance(event, EnvironmentEnded)]
    assert all(event.usage is not None and event.usage.cpu_s for event in ended)
    total = data["execution"]["usage"]
    assert total["cpu_s"] >= hog.usage.cpu_s
    assert total["memory_bytes"] >= hog.usage.memory_bytes
    assert total["wall_s"] > 0
    assert total["output_bytes"] == hog.usage.output_bytes  # a traceback, without a control group
    assert {"output_bytes", "wall_s"} <= {*total["claimed"]}


@pytest.mark.service("control-groups")
async def test_memory_that_ends_the_environment_is_a_result_and_another_is_started(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "LOOKS", 1200)  # on a busy machine it may take long to die
    calls = (call("execute_command", command=FLOOD), call("execute_command", command="echo on >b"))
    limits = ("memory=40M", "processes=32")
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(*calls, limits=limits, validate=("true",)))
        await workflow.run(plan_id)
        flood, on = await settled(await site.ledger(equipment, plan_id))
    assert (flood.success, flood.error, on.success) == (False, "LIMIT", True)
    assert "the limit `memory` was reached" in flood.message
    started = [
        e for e in site.heard if isinstance(e, EnvironmentStarted) and e.purpose == "execute"
    ]
    assert len(started) == 2


async def test_a_gate_that_hits_a_limit_says_which(site: Worksite) -> None:
    write = call("write_file", path="b", content="b")
    asked = site.asked(write, limits=TIGHT, validate=(HOG,), rounds=0)
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, asked)
        with pytest.raises(PatchyardError):  # the script knows nothing of a second round
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    (row,) = data["validation"]
    assert not row["passed"]
    assert "the limit `memory` was reached" in row["output"]


async def test_the_receipt_holds_what_the_plan_used(site: Worksite) -> None:
    asked = site.asked(call("execute_command", command="echo on >b"), validate=("true",))
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, asked)
        await workflow.run(plan_id)
        ledger = await site.ledger(equipment, plan_id)
        receipt = await Handing(equipment, ledger).apply("worktree")
    assert isinstance(receipt, Receipt)
    assert receipt.usage["cpu_s"] > 0


async def test_a_limit_that_nothing_holds_is_said_once_and_counts_for_nothing(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "own_group", lambda _name, _limits: ())
    write = call("execute_command", command="echo on >b")
    asked = site.asked(write, limits=("cpus=1",), validate=("true",))
    async with site.open() as (_, workflow):
        await workflow.run(await site.made(workflow, asked))
    words = [event.text for event in site.heard if isinstance(event, Noted)]
    assert [each for each in words if "`cpus`" in each] == [
        "nothing holds the limit `cpus` of process: it counts for nothing there"
    ]


async def test_environments_that_run_say_how_they_are(site: Worksite, open_folder: Path) -> None:
    place = Mount(source=str(open_folder), target="/srv/work", is_writable=True)
    async with site.open() as (equipment, _):
        environment = equipment.environment(ExecutionEnvironment.PROCESS)
        handle = await environment.start(
            EnvironmentSpec(plan_id="P", purpose="execute", workspace=place)
        )
        lost = replace(handle, environment_id="01J00000000000000000000000", details={})
        rows = await conditions(equipment, holding(handle, lost))
        deaf = replace(equipment, environments={handle.kind: cast("Environment", Unmetered())})
        (unsaid,) = await conditions(deaf, holding(handle))
        none = await conditions(replace(equipment, environments={}), holding(handle))
        await environment.end(handle)
    up, down = rows
    assert (up["is_alive"], up["answers"], up["limit"]) == (True, True, "")
    assert up["since"] > 0
    assert up["usage"]["cpu_s"] > 0
    assert (down["is_alive"], down["answers"], down["since"]) == (False, False, None)
    assert (unsaid["is_alive"], none) == (None, [])


def holding(*handles: EnvironmentHandle) -> Ledger:
    """A ledger in whose plan these environments run."""
    live = {str(n): LiveEnvironment(handle=h, purpose="execute") for n, h in enumerate(handles)}
    return cast("Ledger", SimpleNamespace(state=PlanState(plan_id="P", environments=live)))


class Unmetered:
    """A kind that reports nothing."""


class Scripted:
    """A toolbox that answers as it is told, or is gone."""

    def __init__(self, **said: Any) -> None:
        self.said = said
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.is_gone = False

    async def call(
        self, call_id: str, op: str, args: Mapping[str, Any], *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any]:
        assert call_id or on_output
        self.asked.append((op, args))
        if self.is_gone:
            raise EnvironmentBroken("it is gone")
        return {"success": True, "message": "", **self.said}

    async def attach(self, call_id: str, *, on_output: OnOutput | None = None) -> None:
        assert call_id or on_output

    async def cancel(self, call_id: str) -> None:
        self.asked.append(("cancel", {"call_id": call_id}))

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        self.asked.append(("forget", {"call_ids": call_ids}))

    async def close(self) -> None:
        self.asked.append(("close", {}))


HANDLE = EnvironmentHandle(
    environment_id="01J00000000000000000000000",
    kind=ExecutionEnvironment.MOCK,
    workspace_path="/w",
    details={"limits": {"wall_s": 5.0, "memory_bytes": 100}},
)


def over(toolbox: Scripted) -> Metered:
    return metered(cast("Environment", Unmetered()), HANDLE, toolbox)


async def test_what_jobs_carry_after_the_last_command_is_the_environments_too() -> None:
    wrapped = over(Scripted(exit_code=0))
    tally = Tally(NetworkBounds(used_bytes=1000))
    wrapped.count_network(tally)
    tally.count(5)
    with tally.connection():
        said = await wrapped.call("c", "execute_command", {"command": "x"})
    assert (said["usage"]["network_bytes"], said["usage"]["connections"]) == (5, 1)
    tally.count(7)  # a job's
    await wrapped.close()
    assert (wrapped.calls.network_bytes, wrapped.calls.connections) == (12, 1)


async def test_where_nobody_counts_the_claims_of_the_toolbox_are_taken_and_marked() -> None:
    toolbox = Scripted(usage={"cpu_s": 0.5}, stdout_bytes=3, exit_code=0)
    wrapped = over(toolbox)
    said = await wrapped.call("c", "execute_command", {"command": "x"})
    assert said["usage"] == {
        "cpu_s": 0.5, "output_bytes": 3, "claimed": ["cpu_s", "output_bytes"]
    }  # fmt: skip
    assert wrapped.calls.cpu_s == 0.5
    assert used_in_all(cast("Environment", Unmetered()), HANDLE, wrapped.calls) == wrapped.calls
    assert await wrapped.attach("c") is None
    await wrapped.cancel("c")
    await wrapped.forget(("c",))
    await wrapped.close()
    assert [op for op, _ in toolbox.asked[1:]] == ["cancel", "forget", "close"]


@pytest.mark.parametrize(
    ("args", "timeout_s"), [({}, 5.0), ({"timeout_s": 3}, 3), ({"timeout_s": "x"}, 5.0)]
)
async def test_no_command_is_given_more_time_than_the_limit(
    args: Mapping[str, Any], timeout_s: float
) -> None:
    toolbox = Scripted()
    await over(toolbox).call("c", "execute_command", args)
    assert toolbox.asked[0][1]["timeout_s"] == timeout_s
    assert toolbox.asked[0][1]["wall_s"] == 5.0


async def test_what_is_counted_for_a_limit_is_told_with_it() -> None:
    details = {"limits": {"processes": 9}, "counted": {"processes": "of all that runs there"}}
    toolbox = Scripted(success=False, stderr="can't start new thread", exit_code=1)
    place = replace(HANDLE, details=details)
    said = await metered(cast("Environment", Unmetered()), place, toolbox).call(
        "c", "execute_command", {}
    )
    assert "was reached: 9 of 9 of all that runs there; start fewer" in said["message"]


async def test_only_commands_may_speak_of_usage() -> None:
    said = await over(Scripted(usage={"cpu_s": "a lie"})).call("c", "read_file", {"path": "x"})
    assert "usage" not in said


async def test_a_lost_environment_without_a_reason_stays_lost() -> None:
    toolbox = Scripted()
    toolbox.is_gone = True
    with pytest.raises(EnvironmentBroken) as broken:
        await over(toolbox).call("c", "execute_command", {})
    assert ended_by_limit(broken.value) is None


class Counted(Unmetered):
    """A kind whose meter and health are as the test says."""

    def __init__(self, *looks: Reading, health: Health | None = None) -> None:
        self.looks = list(looks)
        self.healths = [Health(is_alive=True, answers=False), health] if health else []
        self.is_closed = False

    def meter(self, _handle: EnvironmentHandle) -> "Counted":
        return self

    def read(self) -> Reading:
        return Reading(memory_bytes=90, is_due=bool(self.looks))

    async def look(self) -> Reading:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def close(self) -> None:
        self.is_closed = True

    async def health(self, _handle: EnvironmentHandle) -> Health | None:
        return self.healths.pop(0) if len(self.healths) > 1 else self.healths[0]


def counted(kind: Counted, toolbox: Scripted) -> Metered:
    return metered(cast("Environment", kind), HANDLE, toolbox)


async def test_an_environment_that_a_limit_ended_is_told_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ends, "DYING_S", 0)
    toolbox = Scripted()
    toolbox.is_gone = True
    dead = Health(is_alive=False, answers=False, limit="memory")
    wrapped = counted(Counted(health=dead), toolbox)
    with pytest.raises(EnvironmentBroken, match="it is gone; the limit `memory`") as broken:
        await wrapped.call("c", "read_file", {})
    payload = ended_by_limit(broken.value)
    assert payload is not None
    assert (payload["error"], payload["used"], payload["allowed"]) == ("LIMIT", 90, 100)


async def test_an_environment_that_lives_or_ended_otherwise_is_not_said_to_be_at_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ends, "DYING_S", 0)
    toolbox = Scripted()
    toolbox.is_gone = True
    for health in (Health(is_alive=True, answers=True), Health(is_alive=False, answers=False)):
        with pytest.raises(EnvironmentBroken) as broken:
            await counted(Counted(health=health), toolbox).call("c", "read_file", {})
        assert broken.value.message == "it is gone"


class Seen(Counted):
    """A kind that nothing counts for; the engine looks while a command runs."""

    def read(self) -> Reading:
        return Reading(is_due=True)


async def test_a_look_before_a_command_grew_does_not_hide_how_large_it_became() -> None:
    toolbox = Scripted(usage={"memory_bytes": 28})
    wrapped = counted(Seen(Reading(memory_now=16)), toolbox)
    told = await wrapped.call("c", "execute_command", {"command": "grow"})
    assert (told["usage"]["memory_bytes"], told["usage"]["claimed"]) == (28, ["memory_bytes"])


async def test_what_runs_on_is_looked_at_and_ended_and_the_next_answer_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metering, "JOBS_LOOK_S", 0)
    toolbox = Scripted(is_background=True)
    kind = Counted(Reading(), Reading(memory_now=101))
    wrapped = counted(kind, toolbox)
    begun = await wrapped.call("job", "execute_command", {"background": True})
    await comes_true(lambda: wrapped._between is not None)
    toolbox.said = {}
    told = await wrapped.call("ask", "job_status", {"job_id": "job"})
    again = await wrapped.call("again", "job_output", {"job_id": "job"})
    await wrapped.close()
    assert "limit" not in begun
    assert (told["limit"], told["limit_seen_by"]) == ("memory", "watch")
    assert ("sweep", {"jobs": True}) in toolbox.asked
    assert "limit" not in again or wrapped._between is None
    assert kind.is_closed
