"""Ctrl-C in a terminal, where it reaches the whole process group.

What is begun is ended, a wait is left at once, and a second one kills.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping

import pytest

from endings import ended
from mainjob.driver import Desk, finish, shell, write
from patchyard.clients.locks import locked
from patchyard.engine.finding import find_plan
from patchyard.storage import open_storage
from patchyard.stores.claims import LeaseClaims
from patchyard.workspaces.turns import LOCK

pytestmark = [pytest.mark.service("bubblewrap")]

PATIENCE_S = 60
SLOW = """#!/bin/sh
case "$*" in *" {word} "*) if mkdir {mark} 2>/dev/null; then {slow}; fi;; esac
exec {git} "$@"
"""


def slow_git(desk: Desk, word: str, *, slow: str) -> dict[str, str]:
    """Have git be `slow` over its first `word`; the folder `slow` is there from then on."""
    place = desk.folder / "bin"
    place.mkdir()
    mark = desk.folder / "slow"
    text = SLOW.format(word=word, mark=mark, slow=slow, git=shutil.which("git"))
    (place / "git").write_text(text)
    (place / "git").chmod(0o755)
    return {"PATH": f"{place}:{os.environ['PATH']}"}


def interrupt(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def owned(desk: Desk) -> bool:
    """Whether a command has begun its work on the plan: before, Python may lose an interrupt."""
    return asyncio.run(_owned(desk.environ, str(desk.repo)))


async def _owned(environ: Mapping[str, str], repository: str) -> bool:
    async with open_storage(environ) as storage:
        plan_id = await find_plan(storage.journal, "@last", repository=repository)
        return await LeaseClaims(storage.membership).holder(plan_id) is not None


def begun(desk: Desk, *words: str, **further: str) -> subprocess.Popen[bytes]:
    """Start a command and return once its git is slow."""
    process = desk.start(*words, **further)
    ends = time.monotonic() + PATIENCE_S
    while not (desk.folder / "slow").exists():
        assert time.monotonic() < ends
        time.sleep(0.02)
    return process


@contextlib.contextmanager
def taken(desk: Desk) -> Iterator[None]:
    """Have the turn of who writes into the repository."""
    with locked(desk.repo / ".git" / LOCK):
        yield


@pytest.mark.parametrize(("to", "word"), [("worktree", "cat-file"), ("merge", "update-ref")])
def test_an_apply_that_is_interrupted_is_done_and_says_so(desk: Desk, to: str, word: str) -> None:
    assert desk.run(write("one.txt", "1"), finish()).code == 0
    slow = f"while ! test -e {desk.folder}/go; do sleep 0.02; done"
    process = begun(desk, "plan", "apply", "@last", "--to", to, **slow_git(desk, word, slow=slow))

    interrupt(process)
    (desk.folder / "go").touch()

    out, err = ended(process)
    state = desk.agents("plan", "status").data["state"]
    assert (process.returncode, state) in {(0, "applied"), (130, "complete")}, err.decode()
    assert (desk.repo / "one.txt").exists() == (process.returncode == 0)
    assert "applied: the interrupt came after it" in out.decode() or process.returncode
    assert "Traceback" not in err.decode()


def test_an_apply_that_waits_its_turn_is_left_untouched(desk: Desk) -> None:
    assert desk.run(write("one.txt", "1"), finish()).code == 0
    with taken(desk):
        process = desk.start("plan", "apply", "@last")
        ends = time.monotonic() + PATIENCE_S
        while not owned(desk):
            assert time.monotonic() < ends
            time.sleep(0.02)
        time.sleep(1.0)
        assert process.poll() is None
        interrupt(process)
        _, err = ended(process)

    assert process.returncode == 130, err.decode()
    plan = desk.agents("plan", "status").data
    assert (plan["phase"], plan["state"]) == ("execute", "complete")
    assert desk.agents("plan", "apply").code == 0


def test_a_worker_that_is_interrupted_leaves_its_plan_at_a_step(desk: Desk) -> None:
    queued = desk.run(write("one.txt", "1"), shell("sleep 1"), finish(), options=("-d",))
    assert queued.code == 0, queued.message
    environ = slow_git(desk, "read-tree", slow="sleep 1")
    process = begun(desk, "worker", "--drain", "100s", **environ)

    interrupt(process)

    _, err = ended(process)
    plan = desk.agents("plan", "status").data
    assert (process.returncode, plan["error_message"]) == (0, None), err.decode()
    assert desk.agents("plan", "resume").changed == {"one.txt": "added"}


def test_a_second_interrupt_kills_and_lets_nothing_go_on(desk: Desk) -> None:
    path = desk.script(write("one.txt", "1"), finish())
    words = ("run", "a task", "--model", f"scripted:{path}")
    process = begun(desk, *words, **slow_git(desk, "read-tree", slow="sleep 300"))
    interrupt(process)
    time.sleep(0.5)
    assert process.poll() is None  # git goes on, and with it who waits for it

    ends = time.monotonic() + PATIENCE_S
    while process.poll() is None:  # one that comes before the first was heard is the same
        assert time.monotonic() < ends
        interrupt(process)
        time.sleep(0.5)

    _, err = ended(process)  # git would have gone on for longer
    assert process.returncode == 130
    assert "killed; `agents plan resume`" in err.decode()
    assert "Traceback" not in err.decode()
    (desk.folder / "bin" / "git").unlink()
    assert desk.agents("plan", "resume").changed == {"one.txt": "added"}
