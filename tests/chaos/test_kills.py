"""`kill -9` of the engine at seeded instants: after resume each effect happened exactly once.

`PATCHYARD_KILLS` sets how many plans are killed (12 in CI), `PATCHYARD_SEED` the seed.
"""

import itertools
import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chaos.killing import (
    SEED,
    agents,
    amount,
    answered,
    effects,
    opened,
    rest_of,
    settlements,
    started,
    unsettled,
    up_to_a_word,
)
from chaos.matrix import running_in
from endings import ended
from engine.held import release
from engine.worksite import Worksite
from patchyard.clients.process import ProcessRef

STEPS = 10
KILLS = amount("PATCHYARD_KILLS", sample=12, soak=300)
AT_ONCE = 4
EVENTS = 45  # a plan of ten steps has some more

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(900 + 10 * KILLS),
]


def script() -> dict[str, Any]:
    """Ten steps, each an effect that shows when it is doubled; every third one takes a while."""
    replies = []
    for step in range(STEPS):
        pause = "sleep 0.15; " if step % 3 == 0 else ""
        command = f"{pause}echo step-{step} >> effects.log"
        replies.append({"calls": [{"name": "execute_command", "arguments": {"command": command}}]})
    return {
        "note": "written by hand",
        "execute": [*replies, {"finish": "all steps are done"}],
    }


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Path]:
    with opened(tmp_path / "yard") as folder:
        (folder / "script.json").write_text(json.dumps(script()))
        yield folder


def killed_after(yard: Path, events: int, delay_s: float, *arguments: str) -> list[dict[str, Any]]:
    """Start a command, kill its engine some time after it told of that many events; what it told.

    A command that ends before is not killed any more; its last line, the result, is told too.
    """
    process = agents(yard, *arguments, "--stream", "--format", "json")
    assert process.stdout is not None
    told = [json.loads(line) for line in itertools.islice(process.stdout, events)]
    threading.Event().wait(delay_s)
    process.send_signal(signal.SIGKILL)
    ended(process)
    return told


def run_of(yard: Path, script_name: str) -> tuple[str, ...]:
    return ("run", "do ten steps", "--model", f"scripted:{yard / script_name}")


def problem(folder: Path, number: int) -> str | None:
    """Kill one plan, resume it, and say what is wrong then; None when nothing is."""
    rng = random.Random(SEED * 1000 + number)
    with opened(folder / str(number)) as yard:
        (yard / "script.json").write_text(json.dumps(script()))
        command = run_of(yard, "script.json")
        killed_after(yard, rng.randint(1, EVENTS), rng.uniform(0, 0.2), *command)
        if number % 4 == 0:
            again = ("plan", "resume", "@last")
            killed_after(yard, rng.randint(1, EVENTS // 2), rng.uniform(0, 0.2), *again)
        end = answered(yard, "plan", "resume", "@last")
        if end["exit_code"] != 0:
            return f"resume ended with {end['error']}"
        found = effects(yard)
        if found != [f"step-{step}" for step in range(STEPS)]:
            return f"the effects are {found}"
        left = unsettled(yard)
        return f"calls were never settled: {left}" if left else None


def test_each_effect_happens_once_whenever_the_engine_is_killed(tmp_path: Path) -> None:
    """Several at a time, each with a home of its own: the machine is busy when they die."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda number: problem(tmp_path, number), range(KILLS)))
    assert {number: text for number, text in enumerate(found) if text} == {}


DIES_AFTER = """
import os, signal, sys
from patchyard.cli.main import main
from patchyard.engine.ledger import Ledger

record, last = Ledger.record, sys.argv.pop(1)

async def recorded(ledger, *events, **options):
    found = await record(ledger, *events, **options)
    if any(type(event).__name__ == last for event in events):
        os.kill(os.getpid(), signal.SIGKILL)
    return found

Ledger.record = recorded
main()
"""


DIES_BEFORE = """
import os, signal, sys
from patchyard.cli.main import main
from patchyard.engine.ledger import Ledger

record, first = Ledger.record, sys.argv.pop(1)

async def recorded(ledger, *events, **options):
    if any(type(event).__name__ == first for event in events):
        os.kill(os.getpid(), signal.SIGKILL)
    return await record(ledger, *events, **options)

Ledger.record = recorded
main()
"""


def test_an_environment_that_no_journal_knows_ends_when_its_plan_goes_on(yard: Path) -> None:
    asked = (*run_of(yard, "script.json"), "--format", "json")
    process = started(yard, "-c", DIES_BEFORE, "EnvironmentStarted", *asked)
    ended(process)
    assert process.returncode == -signal.SIGKILL
    assert running_in(yard) != []

    end = answered(yard, "plan", "resume", "@last")

    assert end["exit_code"] == 0, end["error"]
    assert running_in(yard) == []


@pytest.mark.parametrize("last", ["EnvironmentStarted", "ToolCallRequested"])
def test_an_engine_killed_before_its_first_call_was_sent_sends_it_once(
    yard: Path, last: str
) -> None:
    asked = (*run_of(yard, "script.json"), "--stream", "--format", "json")
    process = started(yard, "-c", DIES_AFTER, last, *asked)
    out, err = ended(process)
    assert process.returncode == -signal.SIGKILL, err.decode()
    told = [json.loads(line) for line in out.splitlines()]
    handles = [event["handle"] for event in told if event["event"] == "EnvironmentStarted"]

    end = answered(yard, "plan", "resume", "@last")

    assert end["exit_code"] == 0, end["error"]
    assert effects(yard) == [f"step-{step}" for step in range(STEPS)]
    assert unsettled(yard) == []
    assert all(settled["success"] for settled in settlements(yard))
    for handle in handles:
        assert not ProcessRef(**handle["details"]["init"]).is_alive


def killed_in_call(yard: Path) -> dict[str, Any]:
    """Kill the engine while a command runs that shows both its beginning and its end.

    The command goes on some seconds after it was released.
    """
    command = "echo step-begun >> effects.log; echo begun; while ! test -e go; do sleep 0.02; done"
    command += "; sleep 3; echo step-ended >> effects.log"
    reply = {"calls": [{"name": "execute_command", "arguments": {"command": command}}]}
    body = {"note": "written by hand", "execute": [reply, *2 * [{"finish": "done"}]]}
    (yard / "long.json").write_text(json.dumps(body))
    process = agents(yard, *run_of(yard, "long.json"), "--stream", "--format", "json")
    told = up_to_a_word(process)
    process.send_signal(signal.SIGKILL)
    ended(process)
    handles = [event["handle"] for event in told if event["event"] == "EnvironmentStarted"]
    found: dict[str, Any] = handles[-1]
    return found


def test_a_call_that_was_running_is_taken_up_again(yard: Path) -> None:
    killed_in_call(yard)
    release(Worksite(folder=yard))
    end = answered(yard, "plan", "resume", "@last")
    assert end["exit_code"] == 0, end["error"]
    assert effects(yard) == ["step-begun", "step-ended"]
    (settled,) = settlements(yard)
    assert (settled["success"], settled["is_reattached"]) == (True, True)


def test_a_call_whose_toolbox_is_gone_is_undone_and_run_again(yard: Path) -> None:
    handle = killed_in_call(yard)
    os.kill(handle["details"]["init"]["pid"], signal.SIGKILL)
    process = agents(yard, "plan", "resume", "@last", "--stream", "--format", "json")
    up_to_a_word(process)
    release(Worksite(folder=yard))
    told, _ = rest_of(process)
    assert told[-1]["exit_code"] == 0, told[-1]["error"]
    assert effects(yard) == ["step-begun", "step-ended"]
    (settled,) = settlements(yard)
    assert (settled["success"], settled["is_reattached"]) == (True, True)
