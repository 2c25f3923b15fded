"""`agents plan shell`: at a terminal, where Ctrl-C is typed, and behind a pipe."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from mainjob.driver import Desk, write

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(60)]

CTRL_C = "\x03"


@dataclass(kw_only=True)
class Terminal:
    """The user's side of a terminal that `agents` runs on."""

    process: subprocess.Popen[bytes]
    descriptor: int
    seen: str = field(default="", init=False)

    def wait_for(self, text: str) -> str:
        """Read until `text` is there; return what came before, and forget both."""
        while text not in self.seen:
            self.seen += os.read(self.descriptor, 4096).decode()
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text: str) -> None:
        """Type it."""
        os.write(self.descriptor, text.encode())


@contextmanager
def at_a_terminal(desk: Desk, *words: str) -> Iterator[Terminal]:
    """Run `agents` with a terminal of its own."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", sys.executable, "-m", "patchyard", *words],
            cwd=desk.repo,
            env={**desk.environ, "NO_COLOR": "1"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        yield Terminal(process=process, descriptor=ours)
        process.wait(timeout=30)
    finally:
        os.close(ours)


def test_ctrl_c_stops_the_command_and_not_the_shell(desk: Desk) -> None:
    assert desk.run(write("x", "made\n")).code == 0
    with at_a_terminal(desk, "plan", "shell") as terminal:
        assert "Ctrl-C stops a command" in terminal.wait_for("plan$ ")
        terminal.type("cat x; printf '\\033[31mred\\n'\n")
        shown = terminal.wait_for("plan$ ")
        assert "made" in shown
        assert "\\x1b[31mred" in shown
        terminal.type("echo begun; sleep 50\n")
        terminal.wait_for("\nbegun")
        terminal.type(CTRL_C)
        assert "was cancelled" in terminal.wait_for("plan$ ")
        terminal.type(CTRL_C)
        terminal.wait_for("plan$ ")
        terminal.type("(exit 7)\n")
        terminal.wait_for("plan$ ")
        terminal.type("exit\n")
    assert terminal.process.returncode == 7


def test_a_pipe_gets_exact_bytes_and_the_last_line_needs_no_end(desk: Desk) -> None:
    assert desk.run(write("x", "made\n")).code == 0
    done = subprocess.run(
        [sys.executable, "-m", "patchyard", "plan", "shell"],
        cwd=desk.repo,
        env=desk.environ,
        input=b"cd /\n\nprintf 'a\\033\\377\\n'\npwd; false",
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"a\x1b\xff\n/\n"), done.stderr
