"""`kill -9` of owners and of commands that tell them something, at seeded instants.

What a command had said when it ended is told to the actor in exactly one turn; what one that was
killed had on its lips, in one or none. Each effect of the work happens once.
`PATCHYARD_WORDS` sets how many plans, `PATCHYARD_SEED` the seed.
"""

import json
import random
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from chaos.killing import SEED, agents, amount, answered, effects, journalled, opened
from endings import ended

STEPS = 8
WORDS = 5
PLANS = amount("PATCHYARD_WORDS", sample=2, soak=40)

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.slow,
    pytest.mark.timeout(300 + 150 * PLANS),
]


def script() -> str:
    """Eight effects, and ends enough for whatever is said after the first one."""
    commands = [f"sleep 0.1; echo step-{step} >> effects.log" for step in range(STEPS)]
    calls = [
        {"calls": [{"name": "execute_command", "arguments": {"command": command}}]}
        for command in commands
    ]
    return json.dumps({"note": "by hand", "execute": [*calls, *[{"finish": "done"}] * 2 * WORDS]})


def shot(process: "subprocess.Popen[bytes]", rng: random.Random, *, most_s: float) -> bool:
    """Kill a command some time after its start; return whether it had ended well before."""
    threading.Event().wait(rng.uniform(0.0, most_s))
    process.send_signal(signal.SIGKILL)
    ended(process)
    return process.returncode == 0


def problems(folder: Path, seed: int) -> list[str]:
    """Carry one plan to its end through kills and words; return what is wrong then."""
    rng = random.Random(seed)
    with opened(folder) as yard:
        (yard / "script.json").write_text(script())
        model = f"scripted:{yard / 'script.json'}"
        owner = agents(yard, "run", "steps", "--model", model, "--validate", "", "--stream")
        assert owner.stderr is not None
        owner.stderr.readline()  # the plan is there
        said: dict[str, bool] = {}
        for number in range(WORDS):
            text = f"word-{number}-"
            command = agents(yard, "plan", "prompt", "@last", text)
            if rng.random() < 0.5:
                said[text] = shot(command, rng, most_s=1.5)
            else:
                ended(command)
                said[text] = command.returncode == 0
            if rng.random() < 0.3:
                shot(agents(yard, "plan", "pause", "@last"), rng, most_s=1.0)
            if rng.random() < 0.6:
                shot(owner, rng, most_s=0.5)
                owner = agents(yard, "plan", "resume", "@last")
        shot(owner, rng, most_s=2.0)
        end = answered(yard, "plan", "resume", "@last")
        return [*_wrong_words(yard, said), *_wrong_ends(yard, end["data"]["state"])]


def _wrong_words(yard: Path, said: dict[str, bool]) -> list[str]:
    told = [str(e.get("guidance", "")) for e in journalled(yard) if e["event"] == "TurnTaken"]
    found = []
    for text, is_certain in said.items():
        count = sum(turn.count(text) for turn in told)
        if count > 1 or (is_certain and count != 1):
            found.append(f"{text} was told {count} times (the command ended well: {is_certain})")
    return found


def _wrong_ends(yard: Path, state: str) -> list[str]:
    wanted = [f"step-{step}" for step in range(STEPS)]
    seen = effects(yard)
    wrong = [] if seen == wanted else [f"effects: {seen}"]
    return [*wrong, *([] if state == "complete" else [f"it ended {state}"])]


def test_each_word_is_told_once_whoever_is_killed(tmp_path: Path) -> None:
    found = {}
    for number in range(PLANS):
        wrong = problems(tmp_path / str(number), SEED + number)
        if wrong:
            found[SEED + number] = wrong
    assert found == {}
