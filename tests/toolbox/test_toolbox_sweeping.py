"""What commands leave running, ended when there is no room for another process."""

from pathlib import Path

import pytest

from patchyard.toolbox import sweeping
from patchyard.toolbox.processes import Children
from toolboxes import Operations, gone, serving, written

LEFT = "(echo $BASHPID >left; exec sleep 60) >/dev/null 2>&1 &"


@pytest.mark.anyio
async def test_what_ended_commands_left_goes_and_running_jobs_stay(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await server.command(LEFT)
        left = await written(server.workspace / "left")
        job = await server.command("sleep 60", background=True)
        assert (await server.run("sweep"))["ended"] >= 1
        await gone(left)
        assert (await server.run("job_status", job_id=job["job_id"]))["is_running"]
        await server.run("sweep", jobs=True)
        status = await server.run("job_status", job_id=job["job_id"])
        assert (status["is_running"], status["exit_code"]) == (False, -9)


@pytest.mark.anyio
async def test_a_shell_that_stays_is_spared(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await server.command("kept=here", session="s")
        await server.run("sweep", jobs=True)
        said = await server.command("echo $kept", session="s")
        assert said["stdout"] == "here\n"


def test_a_command_says_what_it_used(tmp_path: Path) -> None:
    use = "python3 -c 'x = b\"x\" * (30 << 20)'"
    usage = Operations(tmp_path).run("execute_command", command=use)["usage"]
    assert usage["memory_bytes"] > 30 * 1024**2
    assert usage["cpu_s"] > 0
    assert usage["written_bytes"] >= 0


def test_a_process_that_never_finds_room_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_arguments: object) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(sweeping, "everybody", lambda _table: set())
    monkeypatch.setattr(Children, "spawn", refusing)
    operations = Operations(tmp_path)
    said = operations.run("execute_command", command="echo here")
    told = "the command cannot be started: Resource temporarily unavailable"
    assert (said["success"], said["message"]) == (False, told)
    assert operations.room.running == set()
