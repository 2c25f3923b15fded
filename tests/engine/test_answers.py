"""Waiting within bounds: silent toolboxes, steps that are not cut, claims that are no numbers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from patchyard.contracts.environment import Environment, OnOutput
from patchyard.contracts.forwarding import ForwardingToolbox
from patchyard.domain.codec import to_json
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment, Limits
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.tooling import COMMAND, finite, result_from_wire
from patchyard.engine.answers import answer_in_time, heard, whole
from patchyard.engine.call_results import settled_event
from patchyard.engine.metering import Metered
from patchyard.engine.proof import gate_result
from toolboxes import serving

pytestmark = pytest.mark.anyio

HUGE = 10**400


class Clock:
    """The time of the running loop, which can be moved on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self.later_s = 0.0
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + self.later_s)

    async def pass_by(self, seconds: float) -> None:
        self.later_s += seconds
        for _ in range(5):  # what is due happens
            await asyncio.sleep(0)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize(
    ("op", "args", "own_s"),
    [
        (COMMAND, {"timeout_s": 7}, 7),
        (COMMAND, {}, 30),
        ("read_file", {}, 120),
    ],
)
async def test_a_toolbox_that_says_nothing_is_given_up_ten_seconds_after_the_time_of_its_call(
    clock: Clock, op: str, args: Mapping[str, Any], own_s: float
) -> None:
    waiting = asyncio.create_task(answer_in_time(asyncio.Event().wait(), args, op=op))
    await clock.pass_by(0)
    await clock.pass_by(own_s + 9)
    assert not waiting.done()
    await clock.pass_by(2)
    with pytest.raises(EnvironmentBroken, match=rf"no answer within {own_s + 10:g} s"):
        await asyncio.wait_for(waiting, 0)


async def test_each_answer_gives_the_next_one_the_whole_time(clock: Clock, tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        is_over = asyncio.Event()

        async def exchanging() -> None:
            """Ask as a replica does around one call."""
            for _ in range(5):
                await server.command("true")
                await clock.pass_by(30)
            is_over.set()
            await asyncio.Event().wait()

        waiting = asyncio.create_task(answer_in_time(exchanging(), {"timeout_s": 30}))
        await asyncio.wait(
            {waiting, asyncio.create_task(is_over.wait())}, return_when="FIRST_COMPLETED"
        )
        assert not waiting.done()
        await clock.pass_by(11)
        with pytest.raises(EnvironmentBroken, match="no answer within 40 s"):
            await asyncio.wait_for(waiting, 0)


class Silent(ForwardingToolbox):
    """Answers nothing."""

    def __init__(self) -> None:
        super().__init__(self)

    async def call(
        self,
        call_id: str,  # noqa: ARG002 - the contract's
        op: str,  # noqa: ARG002 - the contract's
        args: Mapping[str, Any],  # noqa: ARG002 - the contract's
        *,
        on_output: OnOutput | None = None,  # noqa: ARG002 - the contract's
    ) -> Mapping[str, Any]:
        await asyncio.Event().wait()
        return {}


async def test_where_a_limit_leaves_a_call_less_time_it_is_waited_for_no_longer(
    clock: Clock, tmp_path: Path
) -> None:
    limits = to_json(Limits(wall_s=5))
    handle = EnvironmentHandle(
        environment_id="01J00000000000000000000001",
        kind=ExecutionEnvironment.PROCESS,
        workspace_path=str(tmp_path),
        details={"limits": limits},
    )
    toolbox = Metered(cast("Environment", object()), handle, Silent())
    asked = {"command": "true", "timeout_s": 600}
    waiting = asyncio.create_task(answer_in_time(toolbox.call("c", COMMAND, asked), asked))
    await clock.pass_by(0)
    await clock.pass_by(14)
    assert not waiting.done()
    await clock.pass_by(2)
    with pytest.raises(EnvironmentBroken, match="no answer within 15 s"):
        await asyncio.wait_for(waiting, 0)


async def test_an_answer_after_a_call_was_given_up_changes_nothing(clock: Clock) -> None:
    begun: list[asyncio.Task[None]] = []
    go_on = asyncio.Event()

    async def hearing() -> None:
        await go_on.wait()
        heard()

    async def asking() -> None:
        begun.append(asyncio.create_task(hearing()))
        await asyncio.Event().wait()

    waiting = asyncio.create_task(answer_in_time(asking(), {"timeout_s": 1}))
    await clock.pass_by(0)
    await clock.pass_by(12)
    with pytest.raises(EnvironmentBroken):
        await asyncio.wait_for(waiting, 0)
    go_on.set()
    await begun[0]


async def test_a_time_out_of_somebody_else_is_not_taken_for_ours() -> None:
    async def failing() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await answer_in_time(failing(), {})


async def test_what_a_cancelled_step_made_is_undone_before_the_cancel_is_heard() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    undone: list[str] = []

    async def making() -> str:
        begun.set()
        await may_end.wait()
        return "a mount"

    async def undo(made: str) -> None:
        undone.append(made)

    task = asyncio.create_task(whole(making(), undo=undo))
    await begun.wait()
    task.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert undone == ["a mount"]


async def test_a_step_that_is_cancelled_twice_comes_to_its_end_all_the_same() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    said: list[str] = []

    async def making() -> None:
        begun.set()
        await may_end.wait()
        said.append("made")

    task = asyncio.create_task(whole(making()))
    await begun.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["made"]


async def test_a_cancelled_step_that_fails_has_nothing_to_undo() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    undone: list[None] = []

    async def failing() -> None:
        begun.set()
        await may_end.wait()
        raise EnvironmentBroken

    async def undo(made: None) -> None:
        undone.append(made)

    task = asyncio.create_task(whole(failing(), undo=undo))
    await begun.wait()
    task.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not undone


async def test_a_cancelled_step_is_told_that_nobody_wants_the_rest() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def long() -> None:
        begun.set()
        await may_end.wait()

    task = asyncio.create_task(whole(long(), hurry=may_end.set))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("code", [False, True, 0.0, "0", None, [0], HUGE])
def test_only_the_number_0_is_an_exit_code_that_passes(code: Any) -> None:
    result = result_from_wire("c", {"success": True, "exit_code": code})
    assert not gate_result("true", result).passed


@pytest.mark.parametrize("claim", [HUGE, -HUGE, float("nan"), float("inf"), True, "1", None, []])
def test_a_claim_that_is_no_finite_number_is_passed_over(claim: Any) -> None:
    assert finite(claim, 7.0) == 7.0
    payload = {"success": True, "exit_code": 0, "started": claim, "elapsed_s": claim}
    assert settled_event(result_from_wire("c", payload)).started == 0.0
    assert gate_result("true", result_from_wire("c", payload)).elapsed_s == 0.0


@pytest.mark.parametrize(
    ("started", "ended"), [(-1.0, 2.0), (2.0, 1.0), (1e300, 1e301), (0.0, 1e12), (1, -1), (5, None)]
)
def test_moments_at_which_no_call_can_have_run_are_passed_over(started: Any, ended: Any) -> None:
    payload = {"success": True, "started": started, "ended": ended}
    event = settled_event(result_from_wire("c", payload))
    assert (event.started, event.ended) == (0.0, 0.0)


def test_when_a_call_ran_is_kept() -> None:
    payload = {"success": True, "started": 1.7e9, "ended": 1.7e9 + 1}
    event = settled_event(result_from_wire("c", payload))
    assert (event.started, event.ended) == (1.7e9, 1.7e9 + 1)
