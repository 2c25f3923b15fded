"""`kill -9` of a rollback at seeded instants: it is done or not begun, what follows is right."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from chaos.killing import SEED, agents, amount, answered, effects, opened, struck, unsettled
from endings import ended

ROLLBACKS = amount("PATCHYARD_ROLLBACKS", sample=4, soak=60)
STEPS = 4
MOST = 120  # changes of the disk before which it is struck; a rollback makes about as many

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


def script() -> dict[str, Any]:
    """Steps that each show when they are doubled, and leave many entries to bring back."""
    commands = [
        f"echo step-{step} >> effects.log; mkdir -p d{step}/e && for n in 1 2 3 4 5 6;"
        f" do echo $n > d{step}/e/f$n; done; ln -s nowhere d{step}/l"
        for step in range(STEPS)
    ]
    replies = [
        {"calls": [{"name": "execute_command", "arguments": {"command": command}}]}
        for command in commands
    ]
    return {"note": "written by hand", "execute": [*replies, {"finish": "all steps are done"}]}


def marks(yard: Path) -> list[str]:
    listed = answered(yard, "plan", "status", "@last")["data"]["execution"]["checkpoints"]
    return [row["checkpoint_id"] for row in listed]


def test_a_rollback_killed_at_any_instant_is_whole_or_not_begun(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    tries = killed = 0
    with opened(tmp_path / "yard") as yard:
        (yard / "script.json").write_text(json.dumps(script()))
        model = f"scripted:{yard / 'script.json'}"
        run = agents(yard, "run", "steps", "--model", model, "--max-steps", "5000")
        ended(run)
        assert run.returncode == 0
        while tries < ROLLBACKS or not killed:  # some end before they are struck
            tries += 1
            at, mark = rng.randint(1, MOST), rng.choice(marks(yard)[:STEPS])
            words = ("plan", "rollback", "@last", mark, "--yes")
            process = struck(yard, signal.SIGKILL, at, *words)
            _, err = ended(process)
            assert process.returncode in {0, -signal.SIGKILL}, err.decode()
            killed += process.returncode != 0
            end = answered(yard, "plan", "resume", "@last")
            assert end["exit_code"] == 0, (at, mark, end["error"])
            assert effects(yard) == [f"step-{step}" for step in range(STEPS)], (at, mark)
            assert len(end["data"]["changeset"]["files"]) == 1 + STEPS * 7, (at, mark)
            assert unsettled(yard) == []
