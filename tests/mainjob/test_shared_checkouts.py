"""Two homes at one checkout, at the command line: the second waits, and says for whom."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from chaos.killing import STRUCK, amount
from endings import ended
from mainjob.driver import Desk, git, shell
from patchyard.workspaces import turns

FILES = amount("PATCHYARD_SHARED_FILES", sample=100, soak=3000)

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(300 + FILES // 5)]

#: Changes of the disk before the moves: each file gets its length, and as root its owner.
STAGED = FILES * (2 if os.geteuid() == 0 else 1)
MADE = f"mkdir m && for n in $(seq {FILES}); do echo $n > m/$n; done; echo ONE > a.txt"
#: The very thread that changes the disk is stopped: another one may be slow to hear of a signal.
AT_ONCE = STRUCK.replace("import os, sys", "import os, signal, sys, threading").replace(
    "os.kill(os.getpid(), number)", "signal.pthread_kill(threading.get_ident(), number)"
)


@contextmanager
def stopped(desk: Desk, *words: str, at: int) -> Iterator[subprocess.Popen[bytes]]:
    """A command that stops itself just before its change `at` of the disk."""
    process = subprocess.Popen(
        [sys.executable, "-c", AT_ONCE, str(at), str(int(signal.SIGSTOP)), *words],
        cwd=desk.repo,
        env=desk.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        ended(process)


def present(repo: Path) -> int:
    """How many files of the change are in."""
    is_edited = (repo / "a.txt").read_text() == "ONE\n"
    return len(list(repo.glob("m/*"))) + is_edited


def test_a_second_home_waits_for_an_apply_that_is_stopped_and_takes_nothing_of_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "STOPPED_S", 0.0)
    away = desk.folder / "away"
    for place in (away, away / "home"):
        place.mkdir()
    second = Desk(folder=away, repo=desk.repo)
    for each in (desk, second):
        assert each.run(shell(MADE)).code == 0

    with stopped(desk, "plan", "apply", "@last", at=STAGED + FILES // 2) as first:
        half = present(desk.repo)
        refused = second.agents("plan", "apply", "@last")
        assert present(desk.repo) == half
        os.kill(first.pid, signal.SIGCONT)
        out, err = ended(first)
        assert first.returncode == 0, err.decode()

    assert 0 < half < FILES
    assert refused.code == 3
    assert f"process {first.pid} of the home {desk.folder / 'state'}" in refused.message
    assert f"kill -CONT {first.pid}" in refused.message
    assert f"{FILES + 1} files" in out.decode()
    assert present(desk.repo) == FILES + 1
    assert second.agents("plan", "apply", "@last").code == 0
    assert present(desk.repo) == FILES + 1
    assert desk.agents("plan", "unapply", "@last").code == 0
    assert present(desk.repo) == 0
    assert git(desk.repo, "status", "--porcelain") == ""
    second.clear()
