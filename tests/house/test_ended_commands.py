"""A command that does not end fails the test that waits for it, and no other."""

import subprocess

import pytest

from endings import ended


def test_a_command_that_does_not_end_is_killed_and_its_pipes_are_closed() -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen(["sleep", "600"], stdin=pipe, stdout=pipe, stderr=pipe)

    with pytest.raises(subprocess.TimeoutExpired):
        ended(process, within_s=0.05)

    assert process.returncode is not None
    assert [each.closed for each in (process.stdin, process.stdout, process.stderr) if each] == [
        True
    ] * 3
