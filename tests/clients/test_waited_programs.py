"""Programs that are waited for in a thread: what they are given, and when they are given up."""

import subprocess
import sys

import pytest

from patchyard.clients.waited import LOOK_S, completed

LATE = f"import sys, time; time.sleep({3 * LOOK_S}); print(len(sys.stdin.buffer.read()))"


@pytest.mark.parametrize("size", [0, 1, 8 * 1024 * 1024])
def test_a_program_that_reads_late_gets_all_of_its_input(size: int) -> None:
    done = completed([sys.executable, "-c", LATE], stdin=b"x" * size, timeout_s=30, patience_s=1)
    assert (done.returncode, done.stdout) == (0, b"%d\n" % size)


def test_a_program_that_reads_nothing_of_its_input_ends_as_it_wants() -> None:
    words = [sys.executable, "-c", "print('no')"]
    done = completed(words, stdin=b"x" * 8_000_000, timeout_s=30, patience_s=1)
    assert (done.returncode, done.stdout) == (0, b"no\n")


def test_one_that_does_not_end_is_ended() -> None:
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(subprocess.TimeoutExpired):
        completed(words, stdin=b"", timeout_s=2 * LOOK_S, patience_s=1)
