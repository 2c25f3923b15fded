"""Commands, jobs and shells of a toolbox in this process: bounds, and starts that fail."""

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patchyard.toolbox import commands, files, operations, running, shells
from patchyard.toolbox.capture import Capture
from patchyard.toolbox.commands import Command, signal_name
from patchyard.toolbox.operations import begin
from toolboxes import Operations


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def test_a_defect_of_ours_is_a_result_too(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_room: object, _args: object) -> dict[str, Any]:
        raise ZeroDivisionError("ours")

    def eats(_room: object, _args: object) -> dict[str, Any]:
        raise MemoryError

    def breaks_later(_room: object, _args: object) -> Iterator[float]:
        yield 0.0
        raise ZeroDivisionError("later")

    for replacement, error in (
        (breaks, "INTERNAL_ERROR"),
        (eats, "FILE_TOO_LARGE"),
        (breaks_later, "INTERNAL_ERROR"),
    ):
        monkeypatch.setattr(files, "read_file", replacement)
        assert tools.code("read_file", path="a") == error
    assert operations.PLACES["read_file"] == "files"


@pytest.mark.usefixtures("uncollected")
def test_a_command_that_cannot_start_leaves_no_descriptor(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (running, shells):
        monkeypatch.setattr(module, "find_shell", lambda: "/nonexistent/bash")
    before = descriptors()
    assert tools.code("execute_command", command="true") == "FILE_NOT_FOUND"
    assert tools.code("execute_command", command="true", session="s") == "FILE_NOT_FOUND"
    assert tools.room.shells == {}
    assert descriptors() == before


@pytest.mark.usefixtures("uncollected")
def test_a_shell_in_a_folder_that_is_not_there_leaves_nothing(tools: Operations) -> None:
    before = descriptors()
    args = {"command": "true", "session": "s", "cwd": "none"}
    assert tools.code("execute_command", **args) == "DIRECTORY_NOT_FOUND"
    assert tools.room.shells == {}
    assert descriptors() == before


def test_a_command_that_ended_is_not_held_until_its_time_limit(tools: Operations) -> None:
    assert tools.run("execute_command", command="true", timeout_s=600)["success"]
    assert tools.room.loop._patience() < 1  # for what is to come


@pytest.mark.parametrize(
    "args",
    [
        {"command": "echo \ud800"},
        {"command": "echo \ud800", "session": "s"},
        {"command": "true", "env": {"A": "\ud800"}},
    ],
)
def test_text_that_no_program_can_be_given_is_refused(
    tools: Operations, args: dict[str, Any]
) -> None:
    assert tools.code("execute_command", **args) == "VALIDATION_ERROR"


def test_a_shell_takes_a_long_command_through_a_short_pipe(tools: Operations) -> None:
    assert tools.run("execute_command", command="true", session="s")["success"]
    fcntl.fcntl(tools.room.shells["s"]._commands, fcntl.F_SETPIPE_SZ, 4096)
    command = f"x={'y' * 50_000}; echo ${{#x}}"
    result = tools.run("execute_command", command=command, session="s", timeout_s=60)
    assert (result["success"], result["stdout"]) == (True, "50000\n")


def test_sessions_are_bounded_and_need_bash(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shells, "MAX_SHELLS", 1)
    assert tools.run("execute_command", command="x=1", session="s")["success"]
    assert tools.code("execute_command", command="true", session="t") == "TOO_MANY_SESSIONS"
    shell = tools.room.shells["s"]
    shell._on_code(0)  # woken for nothing
    assert tools.run("execute_command", command="echo $x", session="s")["stdout"] == "1\n"
    shell.kill("CANCELLED")
    shell.kill("TIMEOUT")
    wait_until(tools, lambda: not tools.room.shells)
    shell._close()  # a second end changes nothing
    monkeypatch.setattr(shells, "find_shell", lambda: "/bin/sh")
    assert tools.code("execute_command", command="true", session="s") == "NO_BASH"


def wait_until(tools: Operations, condition: Callable[[], bool]) -> None:
    """Turn the loop as the server does, which hears of children by a signal."""
    while not condition():
        tools.room.children.reap()
        tools.room.loop.later(0.001, lambda: None)
        tools.room.loop.turn()


def test_a_shell_that_died_unseen_says_so(tools: Operations) -> None:
    assert tools.run("execute_command", command="true", session="s")["success"]
    shell = tools.room.shells["s"]
    os.kill(shell.pid, signal.SIGKILL)
    os.waitid(os.P_PID, shell.pid, os.WEXITED | os.WNOWAIT)
    call = tools.call()
    begin(tools.room, call, "execute_command", {"command": "true", "session": "s"})
    wait_until(tools, lambda: call.frame is not None)
    assert b"this shell has ended" in (call.frame or b"")
    assert tools.room.shells == {}


def test_what_a_test_kills_is_never_the_command_of_another_session(
    tools: Operations, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Operations(tmp_path / "other")
    job = tools.run("execute_command", command="sleep 60", background=True)
    assert other.code("execute_command", command="sleep 60", timeout_s=0.1) == "TIMEOUT"
    other.room.close()
    pid = tools.room.jobs[job["job_id"]].pid
    assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None


def test_jobs_are_bounded(tools: Operations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_JOBS", 1)
    job = tools.run("execute_command", command="sleep 60", background=True)
    assert job["success"]
    assert tools.code("execute_command", command="true", background=True) == "TOO_MANY_JOBS"
    held = tools.room.jobs[job["job_id"]]
    held.kill("CANCELLED")
    held.kill("TIMEOUT")
    wait_until(tools, lambda: not held.is_running)
    call = tools.call("next")
    begin(tools.room, call, "execute_command", {"command": "true", "background": True})
    assert list(tools.room.jobs) == ["next"]
    wait_until(tools, lambda: not tools.room.jobs["next"].is_running)


def test_what_a_pipe_says_after_the_end_is_drained_and_dropped(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    heard: list[str] = []
    stream = Capture(reading, 100, heard.append)
    os.write(writing, b"caf\xc3")
    assert stream.read() is False
    assert heard == ["caf"]
    os.write(writing, b"\xa9")
    stream.read()
    stream.is_discarding = True
    os.write(writing, b"late")
    os.close(writing)
    assert stream.read() is True
    assert ("".join(heard), stream.total) == ("caf\u00e9", 5)
    stream.close()
    stream.close()
    assert stream.read() is True
    assert tmp_path.is_dir()


def test_a_signal_without_a_name_has_a_number() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(50) == "signal 50"


def test_settling_twice_and_killing_what_ended_change_nothing(tools: Operations) -> None:
    results: list[dict[str, Any]] = []
    folder = os.open(tools.workspace, os.O_RDONLY)
    env = {**commands.environment(tools.room, {}, "m")}
    launch = commands.Launch(["/bin/true"], env, folder)
    command = Command(tools.room, launch, lambda _stream, _text: None, results.append)
    command.limit(60.0)
    wait_until(tools, lambda: not command.is_running)
    command.kill("CANCELLED")
    command._kill_round()
    command._finish()
    os.close(folder)
    assert [result["exit_code"] for result in results] == [0]
