"""The checkout is bit-identical before and after planning and execution, however they end."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mainjob.driver import LONGEST_S, Desk, Waiting, bits, call, git, shell, write

pytestmark = pytest.mark.service("bubblewrap")


def soil(desk: Desk) -> None:
    """Leave every kind of uncommitted work in the checkout."""
    repo = desk.repo
    for name in ("modified", "staged", "deleted", "removed", "mode.sh", "both"):
        (repo / name).write_text(f"{name} in the commit\n")
    (repo / ".gitignore").write_text("*.log\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "files")
    (repo / "modified").write_text("modified by the user\n")
    (repo / "staged").write_text("staged by the user\n")
    git(repo, "add", "staged")
    (repo / "both").write_text("staged first\n")
    git(repo, "add", "both")
    (repo / "both").write_text("changed then\n")
    (repo / "deleted").unlink()
    git(repo, "rm", "-q", "removed")
    (repo / "mode.sh").chmod(0o755)
    (repo / "untracked").write_text("untracked\n")
    (repo / "intended").write_text("intended\n")
    git(repo, "add", "-N", "intended")
    (repo / "secret.log").write_text("ignored\n")


SEEN = (
    "grep -qx 'modified by the user' modified && grep -qx 'staged by the user' staged"
    " && grep -qx 'changed then' both && test ! -e deleted -a ! -e removed -a ! -e secret.log"
    " && test -x mode.sh -a -e untracked -a -e intended"
)


@pytest.mark.parametrize("kind", ["process", "host"])
def test_a_dirty_tree_is_seen_as_it_is_and_left_as_it_is(desk: Desk, kind: str) -> None:
    soil(desk)
    before = bits(desk.repo)
    looking = shell(f"{SEEN} && echo seen > result")
    path = desk.script(looking)

    said = desk.agents(
        "run", "a task", "--model", f"scripted:{path}", "--in", kind, "--validate", SEEN,
        "--validate", "test -e result", is_json=False,
    )  # fmt: skip

    assert said.code == 0, said.err
    assert bits(desk.repo) == before
    head = git(desk.repo, "rev-parse", "--short=7", "HEAD").strip()
    assert f"base: main@{head} + 8 uncommitted files" in said.err.splitlines()[0]
    assert desk.agents("plan", "status").changed == {"result": "added"}


def test_an_ordinary_users_checkout_is_left_as_it_is_too(plain_desk: Desk) -> None:
    before = bits(plain_desk.repo)

    said = plain_desk.run(shell("echo 2 > b"), options=["--validate", "test -e b"])

    assert said.code == 0, said.message
    assert said.changed == {"b": "added"}
    assert bits(plain_desk.repo) == before


ENDS: dict[str, tuple[int, tuple[dict[str, Any], ...], tuple[str, ...]]] = {
    "the actor's script breaks off": (1, ({"calls": [{"name": "no_such_tool"}]},), ()),
    "the proof fails": (1, (write("b", "b\n"),), ("--validate", "false", "--rounds", "0")),
    "setup fails": (1, (write("b", "b\n"),), ("--setup", "exit 3")),
    "the steps are used up": (5, tuple(write("b", "b\n") for _ in range(5)), ("--max-steps", "2")),
    "the time is used up": (5, (shell("sleep 30"),), ("--timeout", "1s")),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_plan_that_fails_leaves_the_checkout_as_it_was(desk: Desk, end: str) -> None:
    code, replies, options = ENDS[end]
    (desk.repo / "a.txt").write_text("changed\n")
    before = bits(desk.repo)
    path = desk.script(*replies, {"finish": "done"})
    if code == 1 and not options:
        path.write_text(json.dumps({"note": "by hand", "execute": list(replies)}))

    said = desk.agents("run", "a task", "--model", f"scripted:{path}", *options)

    assert said.code == code, said.message
    assert bits(desk.repo) == before


def cancel(desk: Desk, process: subprocess.Popen[bytes]) -> int:
    assert desk.agents("plan", "cancel").code == 0
    return process.wait(LONGEST_S)


def interrupt(_desk: Desk, process: subprocess.Popen[bytes]) -> int:
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(LONGEST_S)


def interrupt_twice(_desk: Desk, process: subprocess.Popen[bytes]) -> int:
    os.killpg(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(LONGEST_S)


def kill(_desk: Desk, process: subprocess.Popen[bytes]) -> int:
    process.kill()
    return process.wait(LONGEST_S)


STOPS: Mapping[str, tuple[Callable[[Desk, subprocess.Popen[bytes]], int], set[int]]] = {
    "cancel": (cancel, {1}),
    "Ctrl-C": (interrupt, {130}),
    "Ctrl-C twice": (interrupt_twice, {130, -signal.SIGINT}),
    "kill -9": (kill, {-signal.SIGKILL}),
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("phase", ["strategize", "execute"])
def test_a_plan_that_is_stopped_leaves_the_checkout_and_goes_on(
    desk: Desk, stop: str, phase: str
) -> None:
    soil(desk)
    before = bits(desk.repo)
    waiting = Waiting(desk, phase)
    process = waiting.start()

    with process:
        code = STOPS[stop][0](desk, process)

    assert code in STOPS[stop][1]
    assert bits(desk.repo) == before
    with waiting.released():
        end = desk.agents("plan", "resume")
    assert end.code == 0, end.message
    assert end.changed == {"result": "added"}
    assert bits(desk.repo) == before


def edit(repo: Path, _upstream: Path) -> None:
    (repo / "a.txt").write_text("edited\n")
    (repo / "new").write_text("new\n")


def commit(repo: Path, _upstream: Path) -> None:
    git(repo, "commit", "-q", "-am", "the user's own")


def pull(repo: Path, upstream: Path) -> None:
    git(repo, "stash", "-q")
    git(repo, "pull", "-q", "--ff-only", str(upstream), "main")


def switch(repo: Path, _upstream: Path) -> None:
    git(repo, "switch", "-q", "--discard-changes", "-c", "other", "HEAD~1")


def forget(repo: Path, _upstream: Path) -> None:
    """Make the base's commit unreachable and collect it."""
    gone = git(repo, "rev-parse", "HEAD").strip()
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")
    assert "missing" in git(repo, "cat-file", "-t", gone, check=False) + "missing"


WORK = {each.__name__: each for each in (edit, commit, pull, switch, forget)}


@pytest.mark.parametrize("work", WORK)
def test_a_plan_stands_on_its_base_whatever_the_user_does_meanwhile(
    desk: Desk, tmp_path: Path, work: str
) -> None:
    (desk.repo / "second").write_text("second\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "second")
    upstream = tmp_path / "upstream"
    git(tmp_path, "clone", "-q", str(desk.repo), str(upstream))
    (upstream / "a.txt").write_text("from upstream\n")
    git(upstream, "commit", "-q", "-am", "upstream")
    (desk.repo / "a.txt").write_text("one\ntwo\nmine\n")
    waiting = Waiting(desk, "execute", "cat a.txt second > result")

    with waiting.start() as process:
        WORK[work](desk.repo, upstream)
        before = bits(desk.repo)
        waiting.release()
        assert process.wait(LONGEST_S) == 0

    assert bits(desk.repo) == before
    end = desk.agents("plan", "status")
    assert end.changed == {"result": "added"}
    assert end.data["base"]["uncommitted"] == 1
    patch = desk.agents("plan", "diff", is_json=False).out
    assert b"+one\n+two\n+mine\n+second\n" in patch


def test_diff_writes_nothing_and_apply_only_what_it_says(desk: Desk) -> None:
    soil(desk)
    end = desk.run(write("modified", "by the agent\n"), call("delete_file", path="untracked"))
    assert end.code == 0, end.message
    before = bits(desk.repo)
    assert desk.agents("plan", "diff", is_json=False).code == 0
    assert desk.agents("plan", "status").code == 0
    assert bits(desk.repo) == before

    assert desk.agents("plan", "apply").code == 0
    touched = changed_between(before, bits(desk.repo))
    assert touched - {".", ".git"} == {"modified", "untracked"}
    assert desk.agents("plan", "unapply").code == 0
    contents = {path: entry[0:3] + entry[8:] for path, entry in bits(desk.repo).items()}
    assert contents == {path: entry[0:3] + entry[8:] for path, entry in before.items()}


def changed_between(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    paths = {*before, *after}
    return {path.removesuffix("/.") for path in paths if before.get(path) != after.get(path)}


def test_a_proof_that_was_killed_leaves_nothing_behind(desk: Desk) -> None:
    path = desk.script(write("b", "b\n"))
    slow = "test ! -e b || while ! test -e .git/go; do sleep 0.02; done"
    words = ["run", "x", "--model", f"scripted:{path}", "--validate", slow, "--rounds", "0"]
    tasks = desk.folder / "workspaces/tasks"

    with desk.start(*words, "--format", "json", "--stream") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("event") == "ChangeSetCaptured":
                break
        while not [root for root in tasks.glob("*-proof/root") if (root / "b").exists()]:
            assert process.poll() is None
        process.kill()
    with desk.start("plan", "resume", "--format", "json") as resuming:
        while resuming.poll() is None:
            for root in tasks.glob("[!.]*-proof/root/.git"):
                with contextlib.suppress(FileNotFoundError):
                    (root / "go").touch()
        out = resuming.communicate()[0]

    assert json.loads(out)["exit_code"] == 0
    assert not list(tasks.glob("*-proof"))
    assert str(desk.folder) not in Path("/proc/self/mounts").read_text(errors="surrogateescape")
