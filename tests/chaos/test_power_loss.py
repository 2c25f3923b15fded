"""The power is cut: all processes are gone, and of the disk only what was synced is left.

`PATCHYARD_CUTS` sets how often, `PATCHYARD_SEED` the seed.
"""

import itertools
import json
import random
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.disks import Machine, machine
from chaos.killing import SEED, amount, opened
from chaos.matrix import MOST, Case, case, lost, undisturbed
from endings import ended
from timing import IS_SOAK

CUTS_A_PLAN = 2
CUTS = amount("PATCHYARD_CUTS", sample=CUTS_A_PLAN, soak=100)
STEPS, EVENTS = (MOST, 120) if IS_SOAK else (12, 50)

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("root"),
    pytest.mark.service("loop-devices"),
    pytest.mark.slow,
    pytest.mark.timeout(900 + 30 * CUTS),
]


def told_by(here: Machine, *words: str) -> list[dict[str, Any]]:
    out, err = ended(here.agents(*words, "--stream", "--format", "json"))
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
    ended(process)
    here.start(is_other_boot=is_other_boot)
    return told


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The script of a plan, and the tree that it makes where no power is cut."""

    script: Path
    tree: str


class Plans:
    """Plans by their seeds, each run undisturbed once; of their steps a sample outside a soak."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[int, Planned] = {}

    def of(self, seed: int) -> Planned:
        if seed not in self._made:
            script = self._folder / f"{seed}.json"
            script.write_text(Case(steps=case(seed).steps[:STEPS]).script)
            with opened(self._folder / str(seed)) as yard:
                self._made[seed] = Planned(script=script, tree=undisturbed(yard, script))
        return self._made[seed]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    return Plans(tmp_path_factory.mktemp("plans"))


def survived(folder: Path, plans: Plans, seed: int, *, is_other_boot: bool = True) -> list[str]:
    """Cut the power of one plan again and again, let it end; what is wrong then."""
    rng = random.Random(seed)
    plan = plans.of(seed)
    run = ("run", "steps", "--model", f"scripted:{plan.script}")
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
        if tree != plan.tree:
            found.append(f"the change set is {tree}, undisturbed it is {plan.tree}")
        patch = here.answer("plan", "diff", "@last")["data"]["patch"]
        if not patch:
            found.append("the change set is empty")
        return [f"seed {seed}: {text}" for text in found]


def test_a_plan_goes_on_from_what_was_synced(tmp_path: Path, plans: Plans) -> None:
    found = [
        text
        for number in range(CUTS // CUTS_A_PLAN)
        for text in survived(tmp_path, plans, SEED + number)
    ]
    assert found == []


def test_a_plan_goes_on_from_what_was_synced_where_the_disk_alone_was_lost_and_mounted_anew(
    tmp_path: Path, plans: Plans
) -> None:
    found = [
        text
        for number in range(max(1, CUTS // CUTS_A_PLAN // 4))
        for text in survived(tmp_path, plans, SEED + number, is_other_boot=False)
    ]
    assert found == []
