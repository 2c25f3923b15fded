"""One plan at work in four kinds at once, also while its engine is killed: one right change set.

Commands run in a container, files are written in a process sandbox, read on a host over SSH and
searched on this host. `PATCHYARD_FOUR_KINDS` sets how many such plans are killed (2 in CI),
`PATCHYARD_SEED` the seed.
"""

import itertools
import json
import os
import random
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.killing import SEED, agents, amount, answered, journalled, opened, unsettled
from chaos.matrix import running_in
from endings import ended
from images import WITHOUT_PYTHON, image
from patchyard.clients.removal import remove_tree
from sshds import HOST, SshServer, serving_ssh

STEPS = 4
PLANS = amount("PATCHYARD_FOUR_KINDS", sample=2, soak=60)
EVENTS = 60  # such a plan has some more
PLACES = {
    "execute_command": "container",
    "grep_search": "host",
    "read_file": "ssh",
    "write_file": "process",
}
SETTINGS = {
    "execute_command": {"preference": "required"},
    "grep_search": {"execution_environment": "host"},
    "read_file": {"execution_environment": "far"},
}

pytestmark = [
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("docker"),
    pytest.mark.service("sshd"),
    pytest.mark.slow,
    pytest.mark.timeout(300 + 150 * PLANS),
]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def script() -> dict[str, Any]:
    """Each step writes a file in one kind, and the others see it, change it and find the change."""
    replies = []
    for step in range(STEPS):
        replies += [
            call("write_file", path=f"made-{step}.txt", content=f"made-{step}\n"),
            call("read_file", path=f"made-{step}.txt"),
            call("execute_command", command=f"cat made-{step}.txt >> all.log; sleep 0.05"),
            call("grep_search", pattern=f"made-{step}", include_pattern="all.log"),
            call("read_file", path="all.log"),
        ]
    return {"note": "written by hand", "execute": [*replies, {"finish": "all steps are done"}]}


@pytest.fixture
def server() -> Iterator[SshServer]:
    with serving_ssh() as made:
        yield made
        assert made.environments() == []


@pytest.fixture
def yard(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    top = Path(tempfile.mkdtemp(prefix="patchyard-four-", dir="/tmp"))
    top.chmod(0o711)  # an agent on `host` is another user, who has to pass
    with opened(top / "yard") as folder:
        server.configure(folder)
        (folder / "script.json").write_text(json.dumps(script()))
        monkeypatch.setenv("PATCHYARD_TOOLS", json.dumps(SETTINGS))
        answered(folder, "project", "create", "shop")
        box = ("container-instance", "box", "--image", image(WITHOUT_PYTHON))
        for words in (box, ("ssh-host", "far", "--host", HOST)):
            answered(folder, "resource", "add", *words)
            answered(folder, "project", "link-resource", "shop", words[1])
        yield folder
    remove_tree(top)


def run_of(yard: Path) -> tuple[str, ...]:
    return ("run", "four kinds", "--model", f"scripted:{yard / 'script.json'}", "--in", "process")


def require_right(yard: Path) -> None:
    """Fail unless the change set is that of the script, each call settled, each in its kind."""
    assert unsettled(yard) == []
    events = journalled(yard)
    calls = {e["call_id"]: e for e in events if e["event"] == "ToolCallRequested"}
    seen = {(call["name"], call["kind"]) for call in calls.values()}
    assert seen == set(PLACES.items())
    settled = [e for e in events if e["event"] == "ToolCallSettled"]
    failed = [(calls[e["call_id"]]["name"], e["message"]) for e in settled if not e["success"]]
    assert failed == []
    found = answered(yard, "plan", "diff", "@last")["data"]
    lines = [line[1:] for line in found["patch"].splitlines() if line.startswith("+made-")]
    wanted = [f"made-{step}" for step in range(STEPS)]
    assert Counter(lines) == Counter(wanted * 2)
    assert lines[:STEPS] == wanted  # in the log, which comes first
    assert running_in(yard) == []


def test_four_kinds_work_on_one_workspace(yard: Path) -> None:
    done = answered(yard, *run_of(yard))
    assert done["exit_code"] == 0, done["error"]
    require_right(yard)


@pytest.mark.parametrize("number", range(PLANS))
def test_they_do_so_while_their_engine_is_killed(yard: Path, number: int) -> None:
    chance = random.Random(f"{SEED}-{number}")
    words: tuple[str, ...] = run_of(yard)
    for _ in range(3):
        process = agents(yard, *words, "--stream", "--format", "json")
        assert process.stdout is not None
        told = list(itertools.islice(process.stdout, chance.randrange(14, EVENTS)))
        threading.Event().wait(chance.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        ended(process)
        assert told
        words = ("plan", "resume", "@last")
    done = answered(yard, *words)
    assert done["exit_code"] == 0, (os.fsdecode(yard), done["error"])
    require_right(yard)
