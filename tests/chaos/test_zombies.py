"""An owner that is stopped, taken for dead, and comes back: it must not write any more.

`PATCHYARD_ZOMBIES` sets how many there are, `PATCHYARD_SEED` the seed.
"""

import itertools
import json
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chaos.killing import SEED, agents, amount, answered, journalled, opened, rest_of
from chaos.matrix import badly_settled, case, left_running, lost, undisturbed
from patchyard.domain.queue import DEAD_S

ZOMBIES = amount("PATCHYARD_ZOMBIES", sample=4, soak=60)
AT_ONCE = 4
EVENTS = 120

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(300 + 30 * ZOMBIES),
]


def come_back(folder: Path, seed: int) -> list[str]:
    """Stop one owner, let another go on, wake the first in between; what is wrong then."""
    rng = random.Random(seed)  # noqa: S311 - seeded on purpose
    script = folder / f"{seed}.json"
    script.write_text(case(seed).script)
    with opened(folder / f"whole-{seed}") as yard:
        wanted = undisturbed(yard, script)
    with opened(folder / str(seed)) as yard:
        words = ("run", "steps", "--model", f"scripted:{script}")
        zombie = agents(yard, *words, "--stream", "--format", "json")
        assert zombie.stdout is not None
        told: list[dict[str, Any]] = [
            json.loads(line) for line in itertools.islice(zombie.stdout, rng.randint(8, EVENTS))
        ]
        zombie.send_signal(signal.SIGSTOP)
        threading.Event().wait(DEAD_S + 1)
        heir = agents(yard, "plan", "resume", "@last", "--stream", "--format", "json")
        assert heir.stdout is not None
        heard = [json.loads(line) for line in itertools.islice(heir.stdout, rng.randint(1, 60))]
        zombie.send_signal(signal.SIGCONT)
        woken, _ = rest_of(zombie)
        rest, said = rest_of(heir)
        heard += rest
        end = heard[-1]
        if "error" not in end:
            return [f"seed {seed}: the heir ended with {heir.returncode}, {end}: {said.decode()}"]
        events = journalled(yard)
        found = [*lost(told, events), *badly_settled(events), *left_running(yard, events)]
        is_done_by_zombie = len(woken) > 1 and woken[-1].get("exit_code") == 0
        if (end["error"] or {}).get("code") == "conflict":
            # Stopped in the middle of a write it holds the database, and so its plan.
            is_done_by_zombie = not is_done_by_zombie
        elif end["exit_code"] != 0:
            found.append(f"the heir ended with {end['error']}")
        if is_done_by_zombie:
            found.append("not the owner carried the plan out")
        state = answered(yard, "plan", "status", "@last")["data"]
        if (state["changeset"] or {}).get("tree") != wanted:
            found.append(f"it is at {state['phase']}/{state['state']}: {state['changeset']}")
            found.append(f"zombie: {woken[-1:]}, heir: {heard[-1:]}")
        return [f"seed {seed}: {text}" for text in found]


def test_an_owner_that_comes_back_from_the_dead_writes_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda number: come_back(tmp_path, SEED + number), range(ZOMBIES))
        assert [text for texts in found for text in texts] == []
