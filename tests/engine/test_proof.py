"""The proof: what an actor arranged has no part in it."""

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call, done
from patchyard.clients.notices import Notices
from patchyard.clients.process import ProcessRef, kill
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken, ProofFailed
from patchyard.domain.events import EnvironmentStarted, Event, Noted, Validated
from patchyard.domain.plan import Phase, State
from patchyard.engine import evidence
from patchyard.engine.absent_programs import absence_cure
from patchyard.engine.proof import UNTOLD
from patchyard.engine.report import plan_data
from patchyard.engine.watching import Watching
from patchyard.engine.workflow import Workflow
from patchyard.workspaces import treelinks

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
def files() -> dict[str, str]:
    return {"check.sh": "exit 1\n"}


@dataclass
class CountedCalls:
    """A function whose calls are counted."""

    wrapped: Callable[..., Any]
    count: int = 0

    def __call__(self, *words: Any, **named: Any) -> Any:
        self.count += 1
        return self.wrapped(*words, **named)


async def test_what_one_gate_runs_cannot_turn_the_next_one_green(site: Worksite) -> None:
    plant = call("write_file", path="build.sh", content="echo exit 0 > check.sh\n")
    async with site.open() as (equipment, workflow):
        asked = site.asked(plant, validate=("sh build.sh", "sh check.sh"), rounds=0)
        plan_id = await site.made(workflow, asked)
        with pytest.raises(ProofFailed, match="1 of 2"):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert [gate["passed"] for gate in data["validation"]] == [True, False]


async def test_where_the_kernel_has_no_room_to_tell_of_files_that_is_noted_once(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_notices: Notices, _path: bytes) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(Notices, "add", none_left)
    async with site.open() as (_, workflow):
        asked = site.asked(ADD, validate=("grep -rq new .", "true"), rounds=0)
        await workflow.run(await site.made(workflow, asked))
    texts = [event.text for event in site.heard if isinstance(event, Noted)]
    assert [text for text in texts if "inotify" in text] == [UNTOLD]
    (proven,) = [event for event in site.heard if isinstance(event, Validated)]
    assert proven.touched == ("new.txt",)


async def test_tests_are_picked_out_once_a_base_and_links_once_a_change_set(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    picked, read = CountedCalls(evidence._deciding), CountedCalls(treelinks.links_of)
    monkeypatch.setattr(evidence, "_deciding", picked)
    monkeypatch.setattr(treelinks, "links_of", read)
    more = call("write_file", path="more.txt", content="x\n")
    async with site.open() as (_, workflow):
        asked = site.asked(ADD, done(), more, validate=("test -e more.txt",), rounds=1)
        await workflow.run(await site.made(workflow, asked))
    rounds = [event.passed for event in site.heard if isinstance(event, Validated)]
    assert rounds == [False, True]
    assert (picked.count, read.count) == (1, len(rounds))


@pytest.mark.parametrize(("kind", "cure"), [("process", "--setup"), ("host", "install it there")])
async def test_a_program_that_is_not_there_is_named_with_how_it_comes_in(
    site: Worksite, open_folder: Path, kind: str, cure: str
) -> None:
    site.workspaces = open_folder
    async with site.open() as (_, workflow):
        asked = site.asked(ADD, validate=("no-such-tool -q", "exit 1"), rounds=0, kind=kind)
        plan_id = await site.made(workflow, asked)
        with pytest.raises(ProofFailed) as caught:
            await workflow.run(plan_id)
    assert caught.value.hint.startswith(f"`no-such-tool` is not there on {kind} (exit code 127): ")
    assert cure in caught.value.hint
    assert f"agents plan status {plan_id}" in caught.value.hint


@pytest.mark.parametrize(
    ("code", "output", "named"),
    [
        (127, "sh: 1: pytest: not found\n", "`pytest` is not there"),
        (127, "bash: line 1: tools/go: command not found", "`tools/go` is not there"),
        (127, "bash: line 1: ./gone.sh: No such file or directory\n", "`./gone.sh` is not there"),
        (127, "run.sh: line 3: /opt/x/go: No such file or directory", "`/opt/x/go` is not there"),
        (
            127,
            "env: \u2018python9\u2019: No such file or directory",
            "`python9` is not there",
        ),
        (127, "env: 'python9': No such file or directory", "`python9` is not there"),
        (127, "cat: gone: No such file or directory", "exit code 127 usually means that a program"),
        (127, "bash: ./x: cannot execute: required file not found", "exit code 127 usually means"),
        (127, "", "exit code 127 usually means that a program is not there on container: look"),
        (
            127,
            "sh: 1: pyhton3: not found\n",
            "`pyhton3` is not there on container (exit code 127): look at",
        ),
        (1, "sh: 1: pytest: not found\n", ""),
        (None, "", ""),
    ],
)
def test_the_missing_program_is_read_of_what_the_shell_says(
    code: int | None, output: str, named: str
) -> None:
    said = absence_cure(code, output, ExecutionEnvironment.CONTAINER)
    assert said.startswith(named), said
    assert bool(said) == bool(named)


class Losing:
    """Kills the first environments of the proof as soon as they are up."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.heard: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.heard.append(event)
        if isinstance(event, EnvironmentStarted) and event.purpose == "proof" and self.left:
            self.left -= 1
            init = ProcessRef(**event.handle.details["init"])
            kill(init)
            while init.is_alive:  # else its toolbox might still answer
                time.sleep(0.005)


GATE = "test -e new.txt"


async def test_a_gate_whose_environment_is_lost_is_run_again_and_costs_no_round(
    site: Worksite,
) -> None:
    losing = Losing(times=1)
    async with site.open() as (equipment, _):
        workflow = Workflow(equipment, watching=Watching(on_event=losing))
        plan_id = await site.made(workflow, site.asked(ADD, validate=(GATE,), rounds=0))
        state = await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert (state.state, state.environments) == (State.COMPLETE, {})
    (gate,) = data["validation"]
    assert (gate["before"]["exit_code"], gate["exit_code"]) == (1, 0)
    said = [event.text for event in losing.heard if isinstance(event, Noted)]
    assert len(said) == 1
    assert "run once more" in said[0]


async def test_a_gate_that_is_lost_twice_is_neither_red_nor_green_and_can_be_resumed(
    site: Worksite,
) -> None:
    losing = Losing(times=2)
    async with site.open() as (equipment, _):
        workflow = Workflow(equipment, watching=Watching(on_event=losing))
        plan_id = await site.made(workflow, site.asked(ADD, validate=(GATE,), rounds=0))
        with pytest.raises(EnvironmentBroken, match=r"`test -e new\.txt` was lost twice") as caught:
            await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
        assert (state.phase, state.state) == (Phase.EXECUTE, State.ERRORED)
        assert (state.validation, state.environments) == (None, {})
        assert "plan resume" in caught.value.hint
        resumed = await workflow.run(plan_id)
    assert resumed.state == State.COMPLETE
    assert [event.passed for event in losing.heard if isinstance(event, Validated)] == [True]


async def test_a_gate_that_takes_its_toolbox_down_does_not_pass(
    site: Worksite, open_folder: Path
) -> None:
    site.workspaces = open_folder
    async with site.open() as (equipment, workflow):
        asked = site.asked(ADD, validate=("kill -9 $PPID",), rounds=0, kind="host")
        plan_id = await site.made(workflow, asked)
        with pytest.raises(EnvironmentBroken, match="was lost twice"):
            await workflow.run(plan_id)
        state = (await site.ledger(equipment, plan_id)).state
        await site.clear()
    assert (state.state, state.environments) == (State.ERRORED, {})
