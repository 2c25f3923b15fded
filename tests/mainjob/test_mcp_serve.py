"""`agents mcp serve`: other clients make plans by it, and hand over only where that was allowed."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from mainjob.driver import Desk, bits, shell, write
from mainjob.mcp_desks import configured
from npm_servers import INSPECTOR, installed
from patchyard.cli.offering import ROWS

pytestmark = [
    *(pytest.mark.anyio, pytest.mark.service("bubblewrap")),
]

READING = {"make_plan", "list_plans", "plan_status", "plan_events", "plan_diff", "cancel_plan"}
WRITING = {"approve_plan", "reject_plan", "apply_plan", "resume_plan"}


def words(desk: Desk, *replies: dict[str, Any]) -> list[str]:
    script = desk.script(*replies)
    return ["-m", "patchyard", "mcp", "serve", "--model", f"scripted:{script}"]


@contextlib.asynccontextmanager
async def client(desk: Desk, *replies: dict[str, Any], flags: Any = ()) -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=[*words(desk, *replies), *flags],
        cwd=desk.repo,
        env=desk.environ,
    )
    async with Client(server, read_timeout_seconds=60) as opened:
        yield opened


async def ask(served: Client, tool: str, **arguments: Any) -> Any:
    result = await served.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(served: Client, tool: str, **arguments: Any) -> str:
    result = await served.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0])


async def made(served: Client, **more: Any) -> Any:
    plan = (await ask(served, "make_plan", task="do it", validate=["true"], **more))["plan_id"]
    return await ask(served, "plan_status", plan_id=plan, wait_s=50)


async def test_a_client_makes_a_plan_follows_it_and_reads_what_it_changed(desk: Desk) -> None:
    configured(desk, "apply: worktree\n")  # which counts for `agents run` alone
    before = bits(desk.repo)
    async with client(desk, write("new.txt", "new\n")) as served:
        assert {tool.name for tool in (await served.list_tools()).tools} == READING
        told = await made(served)
        assert (told["phase"], told["state"], told["is_running"]) == ("execute", "complete", False)
        assert (told["changed"], told["applied"]) == (True, None)
        patch = await ask(served, "plan_diff")
        assert ("+new" in patch["patch"], patch["next_offset"]) == (True, None)
        events = await ask(served, "plan_events", plan_id=told["plan_id"])
        names = [event["event"] for event in events["events"]]
        assert {"PlanCreated", "ToolCallSettled", "ValidationRecorded"} & set(names)
        created = next(each for each in events["events"] if each["event"] == "PlanCreated")
        assert created["says"].startswith('{"spec": {"task": "do it"')
        assert max(len(each["says"]) for each in events["events"]) <= 1_000
        later = await ask(served, "plan_events", after=events["next_after"])
        assert later["events"] == []
        (listed,) = (await ask(served, "list_plans"))["plans"]
        assert listed["plan_id"] == told["plan_id"]
        assert "Unknown tool" in await refused(served, "apply_plan", plan_id=told["plan_id"])
    assert bits(desk.repo) == before


async def test_of_a_large_change_a_client_gets_the_first_rows_and_how_many_there_are(
    desk: Desk,
) -> None:
    many = f"mkdir m; cd m; touch $(seq -w {ROWS + 3})"
    async with client(desk, shell(many), flags=["--allow-apply"]) as served:
        told = await made(served)
        files = told["changeset"]
        assert (files["counts"]["files"], files["files_left_off"]) == (ROWS + 3, 3)
        assert [each["path"] for each in files["files"]] == [
            f"m/{n:03}" for n in range(1, ROWS + 1)
        ]
        receipt = (await ask(served, "apply_plan", plan_id=told["plan_id"]))["receipt"]
        assert (len(receipt["touched"]), receipt["touched_left_off"]) == (ROWS, 3)
        assert "undo" not in receipt
    assert len(list((desk.repo / "m").iterdir())) == ROWS + 3


async def test_mistakes_are_told_to_the_client_with_the_cure(desk: Desk) -> None:
    other = desk.folder / "other"
    shutil.copytree(desk.repo, other)
    script = desk.script(write("x.txt", "x\n"))
    run = ("run", "x", "--model", f"scripted:{script}", "--repo", str(other))
    foreign = (await asyncio.to_thread(desk.agents, *run)).data["plan_id"]
    async with client(desk) as served:
        assert "there is no plan of" in await refused(served, "plan_status")
        assert "of this repository" in await refused(served, "plan_diff", plan_id=foreign)
        assert "`task` is empty; say what to do" in await refused(served, "make_plan", task=" ")
        long = await refused(served, "make_plan", task="x" * 200_001)
        assert "200,000 characters at most" in long


async def test_arguments_that_do_not_fit_are_refused_in_our_words(desk: Desk) -> None:
    async with client(desk) as served:
        assert "make_plan needs `task`" in await refused(served, "make_plan")
        wrong = await refused(served, "plan_status", plan="01")
        assert "unknown argument of plan_status: 'plan'. Did you mean 'plan_id'?" in wrong
        assert "known: plan_id, wait_s" in wrong
        kind = await refused(served, "plan_status", wait_s="soon")
        assert "plan_status: `wait_s`: input should be a valid number" in kind
        assert "http" not in kind
        tools = (await served.list_tools()).tools
        assert {tool.input_schema["additionalProperties"] for tool in tools} == {False}


async def test_what_was_allowed_is_approved_and_applied(desk: Desk) -> None:
    configured(desk, "approvals: [execute]\n")
    async with client(desk, write("new.txt", "new\n"), flags=["--allow-apply"]) as served:
        assert {tool.name for tool in (await served.list_tools()).tools} == READING | WRITING
        waits = await made(served)
        assert waits["approval"]
        assert "approve" in waits["stopped_by"]
        await ask(served, "approve_plan", plan_id=waits["plan_id"])
        done = await ask(served, "plan_status", plan_id=waits["plan_id"], wait_s=50)
        assert (done["state"], (desk.repo / "new.txt").exists()) == ("complete", False)
        wrong = await refused(served, "apply_plan", plan_id=done["plan_id"], to="worktre")
        assert "Did you mean" in wrong
        receipt = (await ask(served, "apply_plan", plan_id=done["plan_id"]))["receipt"]
        assert receipt["touched"] == ["new.txt"]
        assert (desk.repo / "new.txt").read_text() == "new\n"
        again = await refused(served, "resume_plan", plan_id=done["plan_id"])
        assert "the plan is applied" in again
        second = await made(served)
        await ask(served, "reject_plan", plan_id=second["plan_id"], reason="no")
        after = await ask(served, "resume_plan", plan_id=second["plan_id"])
        assert after["plan_id"] == second["plan_id"]


async def test_a_plan_whose_client_left_can_be_resumed_and_one_can_be_cancelled(desk: Desk) -> None:
    replies = shell("sleep 300", timeout_s=300), write("a", "one\n")
    async with client(desk, *replies) as served:
        plan = (await ask(served, "make_plan", task="one", validate=[]))["plan_id"]
        second = await ask(served, "make_plan", task="two", validate=[])
        stopped = await ask(served, "cancel_plan", plan_id=second["plan_id"])
        assert stopped["state"] == "cancelled"
        assert (await ask(served, "plan_status", plan_id=plan))["is_running"]
        while "ToolCallRequested" not in str(await ask(served, "plan_events", plan_id=plan)):
            pass  # each question takes its time
    resumed = await asyncio.to_thread(desk.agents, "plan", "resume", plan)
    assert (resumed.code, resumed.changed) == (0, {"a": "added"}), resumed.message


@pytest.fixture
def folder() -> Iterator[Path]:
    with installed(INSPECTOR) as lent:
        yield lent


@pytest.mark.service("npm-index")
@pytest.mark.service("node-20")
async def test_the_official_inspector_lists_and_calls_the_tools(desk: Desk, folder: Path) -> None:
    program = folder / "node_modules" / ".bin" / "mcp-inspector"
    line = [str(program), "--cli", sys.executable, *words(desk, write("new.txt", "new\n"))]

    def inspect(*more: str) -> Any:
        run = subprocess.run(
            [*line, *more], cwd=desk.repo, env={**os.environ, **desk.environ}, check=False,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    assert {tool["name"] for tool in inspect("--method", "tools/list")["tools"]} == READING
    call = ("--method", "tools/call", "--tool-name", "make_plan", "--tool-arg", "task=do it")
    assert inspect(*call)["structuredContent"]["task"] == "do it"
