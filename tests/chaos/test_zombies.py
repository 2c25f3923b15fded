"""An owner that is stopped, taken for dead, and comes back: it must not write any more.

`PATCHYARD_ZOMBIES` sets how many there are of each kind, `PATCHYARD_SEED` the seed. In a soak each
stays stopped for a minute; a sample comes back as soon as another may take it for dead.
"""

import itertools
import json
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chaos.killing import SEED, agents, amount, answered, journalled, opened, rest_of, struck
from chaos.matrix import badly_settled, case, left_mounted, left_running, lost, undisturbed
from endings import ended
from patchyard.clients.process import read_stat
from patchyard.domain.queue import DEAD_S

ZOMBIES = amount("PATCHYARD_ZOMBIES", sample=4, soak=72)
STOPPED_S = amount("PATCHYARD_STOPPED_S", sample=int(DEAD_S) + 1, soak=60)
AT_ONCE = max(4, STOPPED_S // 5)  # they wait most of the time
EVENTS = 120
CHANGES = 210  # of the disk that a run makes at least
CHANGES_OF_APPLY = 75
REFUSED = 3

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(900 + 30 * ZOMBIES),
]


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def stopped_after_events(
    yard: Path, words: Sequence[str], rng: random.Random
) -> "tuple[subprocess.Popen[bytes], list[dict[str, Any]]]":
    """An owner that is stopped once it told of some events, and those."""
    zombie = agents(yard, *words)
    assert zombie.stdout is not None
    count = rng.randint(8, EVENTS)
    told = [json.loads(line) for line in itertools.islice(zombie.stdout, count)]
    zombie.send_signal(signal.SIGSTOP)
    return zombie, told


def stopped_at_a_change(
    yard: Path, words: Sequence[str], rng: random.Random
) -> "tuple[subprocess.Popen[bytes], list[dict[str, Any]]]":
    """An owner that stops itself before one of its changes of the disk; what it told comes later.

    Or that came to its end before.
    """
    zombie = struck(yard, signal.SIGSTOP, rng.randint(1, CHANGES), *words)
    until_stopped(zombie)
    return zombie, []


def until_stopped(process: "subprocess.Popen[bytes]") -> None:
    """Wait until it is stopped, or over."""
    while process.poll() is None:
        stat = read_stat(process.pid)
        if stat is not None and stat.state == "T":
            break
        pause(0.02)


def come_back(folder: Path, seed: int, *, stopped: Callable[..., Any]) -> list[str]:
    """Stop one owner, let another go on, wake the first in between; what is wrong then."""
    rng = random.Random(seed)
    script = folder / f"{seed}.json"
    script.write_text(case(seed).script)
    with opened(folder / f"whole-{seed}") as yard:
        wanted = undisturbed(yard, script)
    with opened(folder / str(seed)) as yard:
        words = ("run", "steps", "--model", f"scripted:{script}", "--stream", "--format", "json")
        zombie, told = stopped(yard, words, rng)
        pause(STOPPED_S)
        if answered(yard, "plan", "list")["data"]["plans"]:
            found, heard = inherited(yard, zombie, told, rng)
        else:  # stopped before there was a plan, it has nothing to lose
            zombie.send_signal(signal.SIGCONT)
            woken, said = rest_of(zombie)
            heard, found = woken, [] if zombie.returncode == 0 else [said.decode()]
        state = answered(yard, "plan", "status", "@last")["data"]
        if (state["changeset"] or {}).get("tree") != wanted:
            found.append(f"it is at {state['phase']}/{state['state']}: {state['changeset']}")
            found.append(f"the last that was told: {heard[-1:]}")
        return [f"seed {seed}: {text}" for text in [*found, *left_mounted(yard)]]


def inherited(
    yard: Path,
    zombie: "subprocess.Popen[bytes]",
    told: list[dict[str, Any]],
    rng: random.Random,
) -> tuple[list[str], list[dict[str, Any]]]:
    """Let an heir carry the plan out, and wake the zombie meanwhile; what is wrong, and said."""
    was_over = zombie.poll() is not None
    heir = agents(yard, "plan", "resume", "@last", "--stream", "--format", "json")
    assert heir.stdout is not None
    heard = [json.loads(line) for line in itertools.islice(heir.stdout, rng.randint(1, 60))]
    zombie.send_signal(signal.SIGCONT)
    woken, _ = rest_of(zombie)
    rest, said = rest_of(heir)
    heard += rest
    end = heard[-1] if heard else {}
    if "error" not in end:
        return [f"the heir ended with {heir.returncode}, {end}: {said.decode()}"], heard
    events = journalled(yard)
    found = [*lost(told, events), *badly_settled(events), *left_running(yard, events)]
    if end["exit_code"] != 0:
        found.append(f"the heir ended with {end['error']}")
    if woken and woken[-1].get("exit_code") == 0 and not was_over:
        found.append(f"not the owner carried the plan out: {woken[-1:]}, {end}")
    return found, [*woken, *heard]


@pytest.mark.parametrize("stopped", [stopped_after_events, stopped_at_a_change])
def test_an_owner_that_comes_back_from_the_dead_writes_nothing(
    tmp_path: Path, stopped: Callable[..., Any]
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [
            pool.submit(come_back, tmp_path, SEED + number, stopped=stopped)
            for number in range(ZOMBIES)
        ]
        assert [text for one in found for text in one.result()] == []


def applied_late(folder: Path, seed: int) -> list[str]:
    """Stop an apply, let another one do it, work on, wake the first; what is wrong then.

    One that is stopped in the middle of its turn at the checkout keeps it: the other is refused.
    """
    rng = random.Random(seed)
    with opened(folder / str(seed)) as yard:
        script = yard / "script.json"
        script.write_text(case(SEED).script)
        undisturbed(yard, script)
        apply = ("plan", "apply", "@last", "--to", "worktree")
        zombie = struck(yard, signal.SIGSTOP, rng.randint(1, CHANGES_OF_APPLY), *apply)
        until_stopped(zombie)
        pause(STOPPED_S)
        end = answered(yard, *apply)
        if end["exit_code"] == REFUSED:
            return [f"seed {seed}: {text}" for text in finished(yard, zombie, end)]
        files = sorted(path for path in (yard / "repo").rglob("*.txt") if path.is_file())
        for file in files:
            file.write_text("newer work\n")
        zombie.send_signal(signal.SIGCONT)
        ended(zombie)
        found = [f"it ended with {end['error']}"] if end["exit_code"] else []
        found += [f"lost: {file}" for file in files if file.read_text() != "newer work\n"]
        applied = [event for event in journalled(yard) if event["event"] == "Applied"]
        if len(applied) != 1 or not files:
            found.append(f"applied {len(applied)} times, {len(files)} files")
        return [f"seed {seed}: {text}" for text in found]


def finished(
    yard: Path, zombie: "subprocess.Popen[bytes]", refused: dict[str, Any]
) -> Sequence[str]:
    """Wake an apply that kept its turn and lost its plan, and apply again; what is wrong then."""
    zombie.send_signal(signal.SIGCONT)
    ended(zombie)
    end = answered(yard, "plan", "apply", "@last", "--to", "worktree")
    applied = [event for event in journalled(yard) if event["event"] == "Applied"]
    found = [f"it ended with {end['error']}"] if end["exit_code"] else []
    if str(zombie.pid) not in refused["error"]["message"]:
        found.append(f"the refusal does not name who is stopped: {refused['error']}")
    return found if len(applied) == 1 else [*found, f"applied {len(applied)} times"]


def test_an_apply_that_comes_back_from_the_dead_writes_over_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        seeds = range(SEED, SEED + ZOMBIES)
        found = list(pool.map(lambda seed: applied_late(tmp_path, seed), seeds))
        assert [text for texts in found for text in texts] == []
