"""Shells that stay, in a toolbox of its own process."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolboxes import Server, alive, serving, timed_out

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as started:
        yield started


async def test_a_stateful_shell_keeps_folder_and_variables(server: Server) -> None:
    (server.workspace / "a").mkdir()
    await server.command("cd a; x='1 2'; f() { echo f; }", session="s")
    result = await server.command('pwd; echo "$x"; f; echo oops >&2; (exit 7)', session="s")
    assert result["stdout"] == f"{server.workspace}/a\n1 2\nf\n"
    assert (result["stderr"], result["exit_code"], result["session"]) == ("oops\n", 7, "s")
    other = await server.command("pwd; echo $x", session="other")
    assert other["stdout"] == f"{server.workspace}\n\n"


async def test_no_output_is_taken_for_the_end_of_a_shells_command(server: Server) -> None:
    tricky = "echo 'token 0'; printf 'no newline'; cat; ls /proc/self/fd | wc -l; false"
    result = await server.command(tricky, session="s")
    assert result["stdout"].startswith("token 0\nno newline")
    assert result["exit_code"] == 1
    quoted = await server.command("cat <<'X'\na'b\"c\nX\necho ${#x} \\\n  end", session="s")
    assert quoted["stdout"] == "a'b\"c\n0 end\n"
    assert (await server.command("if", session="s"))["success"] is False
    assert (await server.command("echo on", session="s"))["stdout"] == "on\n"


async def test_a_shell_that_ends_says_so_and_the_next_is_new(server: Server) -> None:
    await server.command("x=1", session="s")
    result = await server.command("exit 4", session="s")
    assert result["exit_code"] == 4
    assert "ended" in result["message"]
    assert (await server.command("echo [$x]", session="s"))["stdout"] == "[]\n"


async def test_a_shells_time_out_kills_all_it_started(server: Server) -> None:
    command = "echo hi; setsid sh -c 'echo $$ > pid; sleep 600' & sleep 600"
    result = await timed_out(server, command, "pid", session="s")
    assert (result["error"], result["stdout"]) == ("TIMEOUT", "hi\n")
    assert "timed out" in result["message"]
    assert not alive(server.workspace / "pid")
    assert (await server.command("echo new", session="s"))["stdout"] == "new\n"


async def test_a_shell_does_one_thing_at_a_time(server: Server) -> None:
    await server.command("true", session="s")
    slow = asyncio.create_task(server.command("until [ -e go ]; do sleep 0.01; done", session="s"))
    await server.run("list_directory")
    assert (await server.command("true", session="s"))["error"] == "SESSION_BUSY"
    (server.workspace / "go").touch()
    assert (await slow)["success"]
    assert (await server.command("x" * 70_000, session="s"))["error"] == "VALIDATION_ERROR"
    assert (await server.command("true", session=""))["error"] == "VALIDATION_ERROR"
