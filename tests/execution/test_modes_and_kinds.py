"""One suite over all modes and kinds (D20): factories, operations, failures, what differs."""

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from execution.backends import KINDS, backed
from execution.premises import Premises, run_out
from patchyard.execution import (
    ExecutionSandbox,
    MockToolExecutor,
    Outcome,
    SandboxConfig,
    ToolExecutor,
    create_tool_executor,
)

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

MODES = ("local", "mock")

Opener = Callable[[Premises], AbstractAsyncContextManager[ToolExecutor]]


def by_mode(mode: str) -> Opener:
    @contextlib.asynccontextmanager
    async def opening(premises: Premises) -> AsyncIterator[ToolExecutor]:
        executor = create_tool_executor("task-1", str(premises.workspace()), mode)
        if isinstance(executor, MockToolExecutor):
            executor.set_latency(0)
        async with executor:
            yield executor

    return opening


def by_kind(kind: str) -> Opener:
    @contextlib.asynccontextmanager
    async def opening(premises: Premises) -> AsyncIterator[ToolExecutor]:
        with backed(kind) as named:
            config = SandboxConfig(**named, workspace=str(premises.workspace()))
            async with ExecutionSandbox(config) as sandbox:
                yield sandbox.tools

    return opening


OPENERS = [
    *(pytest.param(by_mode(mode), id=f"mode-{mode}") for mode in MODES),
    *(
        pytest.param(by_kind(str(each.values[0])), id=f"kind-{each.values[0]}", marks=each.marks)
        for each in KINDS
    ),
]


@pytest.fixture(params=OPENERS)
async def tools(request: pytest.FixtureRequest, premises: Premises) -> AsyncIterator[ToolExecutor]:
    async with request.param(premises) as executor:
        yield executor


@pytest.fixture
def workspace(premises: Premises) -> Path:
    return premises.folder / "work"


async def test_a_file_is_written_read_changed_and_deleted(
    tools: ToolExecutor, workspace: Path
) -> None:
    made = await tools.write_file("src/new.py", "one\ntwo\nthree\n")
    assert (made.success, made.is_new_file, made.lines_added, made.lines_removed) == (
        True, True, 3, 0,
    )  # fmt: skip
    assert (workspace / "src/new.py").read_text() == "one\ntwo\nthree\n"
    read = await tools.read_file("src/new.py", start_line=2, end_line=99)
    assert (read.content, read.total_lines, read.start_line, read.end_line) == (
        "two\nthree\n", 3, 2, 3,
    )  # fmt: skip
    changed = await tools.search_replace("src/new.py", "two", "TWO and more")
    assert (changed.success, changed.is_new_file, changed.occurrences) == (True, False, 1)
    assert (changed.old_length, changed.new_length) == (3, 12)
    assert (changed.lines_added, changed.lines_removed) == (1, 1)
    for was_gone in (False, True):
        gone = await tools.delete_file("src/new.py")
        assert (gone.success, gone.was_already_deleted) == (True, was_gone)


async def test_folders_are_listed_from_the_workspace(tools: ToolExecutor, workspace: Path) -> None:
    await tools.write_file("b/c/deep.txt", "x")
    await tools.write_file("a.txt", "x")
    for path in ("", "/", str(workspace)):
        listed = await tools.list_directory(path)
        rows = [(each.name, each.type, each.is_directory) for each in listed.contents]
        assert rows == [("b", "directory", True), ("a.txt", "file", False)]
    below = await tools.list_directory("/b", recursive=True)
    assert [each.relative_path for each in below.contents] == ["c", "c/deep.txt"]
    assert (below.path, below.total_count, below.truncated) == ("b", 2, False)


async def test_what_is_searched_is_found(tools: ToolExecutor) -> None:
    await tools.write_file("shop/price.py", "def price_of(ware):\n    return ware.price\n")
    await tools.write_file("shop/other.md", "nothing of that\n")
    files = await tools.search_files("PRICE")
    assert (files.files, files.count, files.query) == (("shop/price.py",), 1, "PRICE")
    lines = await tools.grep_search("PRICE_of", include_pattern="*.py")
    (line,) = lines.detailed_matches
    assert (line.file, line.line_number, line.content) == (
        "shop/price.py", 1, "def price_of(ware):",
    )  # fmt: skip
    assert lines.matches == ("shop/price.py:1:def price_of(ware):",)
    none = await tools.grep_search("PRICE_of", case_sensitive=True)
    assert (none.success, none.match_count, none.matches) == (True, 0, ())
    pieces = await tools.codebase_search("price of a ware")
    assert (pieces.results[0].path, pieces.results[0].relevance) == ("shop/price.py", 1.0)
    assert "price" in pieces.search_terms


async def test_a_command_says_what_it_wrote_and_how_it_ended(tools: ToolExecutor) -> None:
    await tools.write_file("sub/x", "")
    done = await tools.execute_command("echo out; echo err >&2; pwd", cwd="sub", env={"A": "b"})
    assert (done.success, done.exit_code, done.stderr) == (True, 0, "err\n")
    assert done.stdout.endswith("/sub\n")
    assert (done.is_background, done.security_level) == (False, "APPROVAL_REQUIRED")
    assert (await tools.execute_command("pwd")).security_level == "SAFE"
    assert done.command == "echo out; echo err >&2; pwd"
    assert (await tools.execute_command("echo $A", env={"A": "b"})).stdout == "b\n"


async def test_a_failed_command_keeps_its_output_and_runs_once(tools: ToolExecutor) -> None:
    done = await tools.execute_command("echo once >> count; echo said; exit 3")
    assert (done.success, done.exit_code, done.stdout) == (False, 3, "said\n")
    assert (done.error, done.retryable) == ("COMMAND_FAILED", False)
    assert (await tools.read_file("count")).content == "once\n"


async def test_death_by_a_signal_is_no_exit_code_0(tools: ToolExecutor) -> None:
    done = await tools.execute_command("kill -KILL $$")
    assert (done.success, done.exit_code, done.signal) == (False, -9, "SIGKILL")


async def test_a_command_is_killed_when_its_time_is_over(tools: ToolExecutor) -> None:
    hangs = "echo begun; echo so > told; sleep 300"
    done = await run_out(lambda s: tools.execute_command(hangs, timeout_s=s), tools, "told")
    assert (done.success, done.error, done.stdout) == (False, "TIMEOUT", "begun\n")
    assert "timed out after" in done.message


async def test_a_background_command_is_asked_for_and_ended(tools: ToolExecutor) -> None:
    begun = await tools.execute_command("echo begun; sleep 300", background=True)
    assert (begun.success, begun.is_background, begun.exit_code) == (True, True, None)
    async with asyncio.timeout(120):
        while (said := await tools.job_output(begun.job_id)).stdout != "begun\n":
            continue
    assert (said.is_running, said.job_id) == (True, begun.job_id)
    assert (await tools.job_status(begun.job_id)).is_running
    ended = await tools.job_kill(begun.job_id)
    assert (ended.success, ended.is_running, ended.signal) == (True, False, "SIGKILL")
    assert (await tools.job_output(begun.job_id)).stdout == "begun\n"
    assert (await tools.job_output("none")).error == "UNKNOWN_JOB"


async def test_no_path_leads_out_of_the_workspace(
    tools: ToolExecutor, premises: Premises, workspace: Path
) -> None:
    outside = premises.folder / "outside"
    outside.mkdir(mode=0o777)
    (outside / "secret").write_text("secret")
    (workspace / "link").symlink_to(outside)
    for path in ("../outside/secret", "link/secret", str(outside / "secret"), "a/../../outside/x"):
        results: list[Outcome] = [
            await tools.read_file(path),
            await tools.write_file(path, "changed"),
            await tools.delete_file(path),
            await tools.search_replace(path, "secret", "changed"),
            await tools.grep_search("secret", path=path),
            await tools.execute_command("cat secret", cwd=path),
        ]
        assert {each.success for each in results} == {False}
        assert (await tools.read_file(path)).content == ""
    assert [each.name for each in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    listed = await tools.list_directory("link")
    assert (listed.success, listed.error) == (False, "PATH_OUTSIDE_WORKSPACE")


async def test_no_query_is_ever_a_shell_line(tools: ToolExecutor, workspace: Path) -> None:
    await tools.write_file("a.txt", "text\n")
    for query in (
        "x; touch ran",
        "$(touch ran)",
        "`touch ran`",
        "--help",
        "-e x",
        "' || touch ran '",
    ):
        await tools.search_files(query)
        await tools.grep_search(query)
        await tools.codebase_search(query)
        await tools.read_file(query)
    assert not (workspace / "ran").exists()


async def test_a_failure_is_a_result_with_a_code_and_the_fallbacks_values(
    tools: ToolExecutor,
) -> None:
    await tools.write_file("twice", "a a")
    failures: list[tuple[Outcome, str]] = [
        (await tools.read_file("none"), "FILE_NOT_FOUND"),
        (await tools.list_directory("none"), "DIRECTORY_NOT_FOUND"),
        (await tools.search_replace("twice", "", "b"), "EMPTY_OLD_STRING"),
        (await tools.search_replace("twice", "a", "a"), "IDENTICAL_STRINGS"),
        (await tools.search_replace("twice", "b", "c"), "TEXT_NOT_FOUND"),
        (await tools.search_replace("twice", "a", "c"), "TEXT_NOT_UNIQUE"),
        (await tools.search_files(""), "VALIDATION_ERROR"),
        (await tools.codebase_search("?"), "VALIDATION_ERROR"),
        (await tools.execute_command(" "), "VALIDATION_ERROR"),
        (await tools.execute_command("true", timeout_s=-1), "VALIDATION_ERROR"),
    ]
    for outcome, code in failures:
        assert (outcome.success, outcome.error, outcome.retryable) == (False, code, False)
        assert outcome.message
    assert (await tools.search_files("")).files == ()
    assert (await tools.list_directory("none")).contents == ()


async def test_arguments_of_another_type_are_refused_and_end_nothing(tools: ToolExecutor) -> None:
    """What JSON does not have ended the environment, with all that ran in it."""
    job = await tools.execute_command("sleep 60", background=True)
    wrong: Any = [None, 5, b"x", Path("x"), math.nan, math.inf, (b"x",)]
    times: Any = {5: "5"}
    for value in wrong:
        for outcome in (
            await tools.read_file(value),
            await tools.list_directory(value),
            await tools.write_file("x", value),
            await tools.execute_command(value),
            await tools.execute_command("true", timeout_s=times.get(value, value)),
            await tools.grep_search(value),
        ):
            is_usual = value is None and outcome.success  # as if it was not said
            assert is_usual or outcome.error == "VALIDATION_ERROR", (value, outcome)
    assert (await tools.job_status(job.job_id)).success


async def test_results_cannot_be_changed(tools: ToolExecutor) -> None:
    result = await tools.write_file("a", "b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, "success", False)  # noqa: B010 - mypy refuses it as it should


async def test_a_cancelled_command_does_not_run_on(tools: ToolExecutor, workspace: Path) -> None:
    await tools.execute_command("mkfifo gate")
    waiting = asyncio.create_task(tools.execute_command("read x < gate; touch ran", timeout_s=60))
    await tools.execute_command("true")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(120):  # who is killed may stand at the gate for a moment
        while (await tools.execute_command("echo word > gate", timeout_s=0.2)).error != "TIMEOUT":
            pass
    assert not (workspace / "ran").exists()


async def test_closing_ends_all_that_runs_and_may_be_done_again(
    tools: ToolExecutor, workspace: Path
) -> None:
    await tools.execute_command("setsid sh -c 'echo $$ > pid; sleep 300' &", background=True)
    async with asyncio.timeout(120):
        while not (workspace / "pid").exists():
            await tools.execute_command("true")
    for _ in range(2):
        assert (await tools.close()).success
    assert standing_in(workspace) == []


def standing_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").samefile(folder):
                found.append(process.name)
    return found
