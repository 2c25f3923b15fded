"""The power is cut: all processes are gone, and of the disk only what was synced is left.

`PATCHYARD_CUTS` sets how often, `PATCHYARD_SEED` the seed.
"""

import itertools
import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from chaos.disks import Machine, machine
from chaos.killing import SEED, amount
from chaos.matrix import case, lost

CUTS = amount("PATCHYARD_CUTS", sample=4, soak=100)
LIVES = 8
CUTS_A_PLAN = 2
EVENTS = 120

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("root"),
    pytest.mark.service("loop-devices"),
    pytest.mark.slow,
    pytest.mark.timeout(300 + 30 * CUTS),
]


def told_by(here: Machine, *words: str) -> list[dict[str, Any]]:
    out, err = here.agents(*words, "--stream", "--format", "json").communicate(timeout=120)
    assert out, err.decode()
    return [json.loads(line) for line in out.splitlines()]


def cut_in(
    here: Machine, rng: random.Random, *words: str, is_other_boot: bool
) -> list[dict[str, Any]]:
    """Cut the power some time after the command told of some events; what it told before."""
    process = here.agents(*words, "--stream", "--format", "json")
    assert process.stdout is not None
    count = rng.randint(1, EVENTS)
    told = [json.loads(line) for line in itertools.islice(process.stdout, count)]
    threading.Event().wait(rng.choice((0.0, rng.uniform(0, 0.3))))
    here.cut()
    process.communicate(timeout=30)
    here.start(is_other_boot=is_other_boot)
    return told


def survived(folder: Path, seed: int, *, is_other_boot: bool = True) -> list[str]:
    """Cut the power of one plan again and again, let it end; what is wrong then."""
    rng = random.Random(seed)
    script = folder / f"{seed}.json"
    script.write_text(case(seed).script)
    run = ("run", "steps", "--model", f"scripted:{script}")
    with machine(folder / f"whole-{seed}", [("README", "a repository\n")]) as here:
        wanted = told_by(here, *run)[-1]["data"]["changeset"]["tree"]
    with machine(folder / f"cut-{seed}", [("README", "a repository\n")]) as here:
        told: list[dict[str, Any]] = []
        words: tuple[str, ...] = run
        for _ in range(CUTS_A_PLAN):
            told += cut_in(here, rng, *words, is_other_boot=is_other_boot)
            known = here.answer("plan", "list")["data"]["plans"]
            words = ("plan", "resume", "@last") if known else run
        last = told_by(here, *words)
        end = last[-1]
        if end["exit_code"] != 0:
            return [f"seed {seed}: it ended with {end['error']}"]
        events = here.answer("plan", "events", "@last")["data"]["events"]
        found = lost(told, events)
        tree = end["data"]["changeset"]["tree"]
        if tree != wanted:
            found.append(f"the change set is {tree}, undisturbed it is {wanted}")
        patch = here.answer("plan", "diff", "@last")["data"]["patch"]
        if not patch:
            found.append("the change set is empty")
        return [f"seed {seed}: {text}" for text in found]


def test_a_plan_goes_on_from_what_was_synced(tmp_path: Path) -> None:
    found = [
        text for number in range(CUTS // CUTS_A_PLAN) for text in survived(tmp_path, SEED + number)
    ]
    assert found == []


def test_a_plan_goes_on_from_what_was_synced_where_the_disk_alone_was_lost_and_mounted_anew(
    tmp_path: Path,
) -> None:
    found = [
        text
        for number in range(max(1, CUTS // CUTS_A_PLAN // 4))
        for text in survived(tmp_path, SEED + number, is_other_boot=False)
    ]
    assert found == []
