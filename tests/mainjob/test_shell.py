"""`agents plan shell`: at a terminal, where Ctrl-C is typed, and behind a pipe."""

import subprocess
import sys

import pytest

from mainjob.driver import LONGEST_S, Desk, write
from terminals import CTRL_C, at_a_terminal

pytestmark = pytest.mark.service("bubblewrap")


def test_ctrl_c_stops_the_command_and_not_the_shell(desk: Desk) -> None:
    assert desk.run(write("x", "made\n")).code == 0
    words = [sys.executable, "-m", "patchyard", "plan", "shell"]
    environ = {**desk.environ, "NO_COLOR": "1"}
    with at_a_terminal(words, cwd=desk.repo, environ=environ) as terminal:
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
        timeout=LONGEST_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"a\x1b\xff\n/\n"), done.stderr
