"""A program that the kernel killed is told as that: no wrong use, and no reason for fewer walls."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from laboratory import Lab
from patchyard.clients.blobreader import BlobReader
from patchyard.clients.deaths import FREE_MEMORY, death
from patchyard.clients.git import Git, failure
from patchyard.clients.obstacles import Obstacles, diagnose
from patchyard.clients.treewriter import TreeWriter
from patchyard.domain.errors import PatchyardError, Unavailable, WorkFailed
from patchyard.workspaces.bases import run

HERE = Obstacles(is_root=False, is_container=False, has_apparmor_rule=False, allows_namespaces=True)
ENDS = [
    (-9, "", "was killed by SIGKILL"),
    (-99, "", "was killed by signal 99"),
    (137, "", "was killed by SIGKILL"),
    (139, "", "was killed by SIGSEGV"),
    (134, "", "was killed by SIGABRT"),
    (128, "error: pack-objects died of signal 9", "was killed by SIGKILL"),
    (128, "fatal: Out of memory, malloc failed (tried to allocate 9 bytes)", "ran out of memory"),
    (1, "", ""),
    (128, "fatal: not a git repository", ""),
    (129, "usage: git config", ""),
]


@pytest.mark.parametrize(("code", "said", "words"), ENDS)
def test_an_end_by_the_kernel_is_told_from_an_exit_code(code: int, said: str, words: str) -> None:
    assert death(code, said) == words
    error = failure(["log"], code, said)
    assert isinstance(error, Unavailable if words else WorkFailed)
    assert (error.hint == FREE_MEMORY) is bool(words)


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a program be one that is killed as soon as it runs."""

    def let(program: str) -> None:
        place = tmp_path / "bin" / program
        place.parent.mkdir(exist_ok=True)
        place.write_text("#!/bin/sh\nkill -KILL $$\n")
        place.chmod(0o755)
        monkeypatch.setenv("PATH", f"{place.parent}:{os.environ['PATH']}")

    return let


def git_in(lab: Lab) -> Git:
    return Git(home=lab.repo, config=lab.repo / "none", git_dir=lab.repo / ".git")


def require_killed(error: PatchyardError, program: str) -> None:
    assert (type(error), error.exit_code, error.hint) == (Unavailable, 4, FREE_MEMORY)
    assert error.message.startswith(f"{program} was killed by SIGKILL")


@pytest.mark.anyio
async def test_a_git_that_is_killed_over_a_checkout_is_no_wrong_use(
    copying: Lab, killed: Callable[[str], None]
) -> None:
    git = git_in(copying)
    killed("git")
    with pytest.raises(Unavailable) as caught:
        git.attempt("status")
    require_killed(caught.value, "git status")
    with pytest.raises(Unavailable) as caught:
        await copying.base()
    assert "was killed by SIGKILL" in caught.value.message
    killed("cp")
    with pytest.raises(Unavailable) as caught:
        run("cp", "a", "b")
    require_killed(caught.value, "cp")


def test_a_git_that_is_killed_while_it_reads_has_lost_no_content(
    copying: Lab, killed: Callable[[str], None]
) -> None:
    git = git_in(copying)
    killed("git")
    with BlobReader(git) as blobs, pytest.raises(Unavailable) as caught:
        blobs.content("0" * 40)
    require_killed(caught.value, "git cat-file")


def test_content_that_is_cut_by_a_kill_is_never_taken_for_whole(
    copying: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "git"
    place.write_text(f"#!/bin/sh\nprintf '{'0' * 40} blob 9\\nhalf'\nkill -KILL $$\n")
    place.chmod(0o755)
    git = git_in(copying)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with BlobReader(git) as blobs, pytest.raises(Unavailable) as caught:
        list(blobs.contents(["0" * 40]))
    require_killed(caught.value, "git cat-file")


def test_a_git_that_is_killed_while_it_writes_a_tree_is_told(copying: Lab) -> None:
    git = git_in(copying)
    with TreeWriter(git, "4b825dc6" * 5) as tree:
        os.kill(tree._process.pid, signal.SIGKILL)
        with pytest.raises(Unavailable) as caught:
            tree.finish()
    require_killed(caught.value, "git fast-import")


@pytest.mark.parametrize("said", ["", "Killed", "MemoryError"])
def test_a_sandbox_that_broke_is_no_reason_for_fewer_walls(said: str) -> None:
    found = diagnose(said, HERE)
    assert found.has_broken
    assert FREE_MEMORY in found.cure
    assert "host" not in found.cure
    refused = diagnose("bwrap: Unknown option --x", HERE)
    assert (refused.has_broken, "--in host" in refused.cure) == (False, True)
