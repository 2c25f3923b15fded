"""Tools of MCP servers in plans: offered, journalled, held to what they were, and harmless."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from images import WITH_PYTHON, image
from mainjob.driver import Answer, Desk, call, finish, git
from mainjob.mcp_desks import SERVER, configured, with_server

pytestmark = [pytest.mark.service("bubblewrap")]


@pytest.fixture
def served(desk: Desk) -> Desk:
    return with_server(desk)


def ran(desk: Desk, *replies: dict[str, Any], planning: Any = (), place: str = "process") -> Answer:
    script = desk.folder / "script.json"
    body = {
        "note": "written by hand",
        "strategize": [*planning, finish("a plan")],
        "execute": [*replies, finish()],
    }
    script.write_text(json.dumps(body))
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "", "--in", place)
    return desk.agents(*words)


def events(desk: Desk, *names: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = desk.agents("plan", "events", "@last").data["events"]
    return [each for each in found if each["event"] in names]


def settled(desk: Desk) -> list[str]:
    return [each.get("error", "") for each in events(desk, "ToolCallSettled")]


def notes(desk: Desk) -> str:
    return "\n".join(each["text"] for each in events(desk, "Noted"))


def test_a_plan_uses_a_server_and_planning_only_what_the_user_says_it_reads(served: Desk) -> None:
    done = ran(
        served,
        call("mcp__h__write", text="by a server"),
        call("mcp__h__write", txt="x"),
        call("execute_command", command="cat log.txt > copy.txt"),
        planning=[call("mcp__h__echo", text="plan"), call("mcp__h__write", text="no")],
    )
    assert done.code == 0, done.message
    assert done.changed == {"copy.txt": "added", "log.txt": "added"}
    assert settled(served) == ["", "UNKNOWN_TOOL", "", "VALIDATION_ERROR", ""]
    assert "18 tools, seen for the first time and held to that" in notes(served)
    asked = events(served, "ToolCallRequested")
    assert [each.get("kind") for each in asked if each["name"].startswith("mcp")] == [
        *("process", None, "process", None)
    ]


def test_a_read_only_place_holds_what_a_server_calls_reading(served: Desk) -> None:
    done = ran(served, call("mcp__h__write", text="x"), planning=[call("mcp__h__change", text="")])
    assert done.code == 0, done.message
    assert settled(served) == ["OUTCOME_UNKNOWN", ""]  # it fell over the read-only tree


def test_a_tool_that_changes_is_refused_until_somebody_accepts_it(served: Desk) -> None:
    assert ran(served, call("mcp__h__write", text="x")).code == 0
    (served.repo / "changed").touch()  # the description is another one from here on
    again = ran(served, call("mcp__h__echo", text="x"), call("mcp__h__write", text="y"))
    assert again.code == 0, again.message
    assert settled(served) == ["MCP_TOOL_CHANGED", ""]
    (changed, _) = events(served, "ToolCallSettled")
    assert changed["message"] == (
        "echo of h is not what it was; it was not called; `agents mcp check h` shows what changed;"
        " `agents mcp check h --accept` holds it to that"
    )


def test_a_held_server_that_does_not_start_is_told_with_its_words_and_the_cure(
    served: Desk,
) -> None:
    assert served.agents("mcp", "check", "h").code == 0
    git(served.repo, "rm", "-q", "server.py")
    git(served.repo, "commit", "-q", "-m", "away")
    script = served.script(call("mcp__h__write", text="x"), call("execute_command", command="> b"))
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "")
    done = served.agents(*words, is_json=False)
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if "MCP_SERVER_FAILED" in line]
    for part in ("can't open file", "`--mount PATH` shows it there", "`agents mcp check h` tries"):
        assert part in line


def test_an_engine_killed_in_mid_call_takes_up_the_very_call(served: Desk) -> None:
    script = served.script(call("mcp__h__wait", text="waited"), call("mcp__h__write", text="then"))
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "", "--stream")
    process = served.start(*words, "--format", "json")
    assert process.stdout is not None
    (log,) = _until_written(process, served.folder / "workspaces" / "tasks")
    process.kill()
    process.communicate()
    (log.parent / ".git" / "go").touch()
    resumed = served.agents("plan", "resume", "@last")
    assert resumed.code == 0, resumed.message
    assert settled(served) == ["", ""]
    patch = served.agents("plan", "diff", "@last", is_json=False).out.decode()
    assert [line for line in patch.splitlines() if line[:2] in {"+w", "+t"}] == ["+waited", "+then"]


def _until_written(process: "subprocess.Popen[bytes]", tasks: Path) -> list[Path]:
    """Return the log once the server waits in its call."""
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("name") == "mcp__h__wait":
            break
    while not (found := [each for each in tasks.glob("*/root/log.txt") if each.stat().st_size]):
        assert process.poll() is None
    return found


def test_a_server_that_reaches_for_the_users_files_finds_what_a_command_finds(
    served: Desk,
) -> None:
    secret = served.home / "secret"
    secret.write_text("do not read\n")
    reach = call("mcp__h__reach", text=str(secret))
    done = ran(served, reach, call("mcp__h__reach", text="a.txt"), call("mcp__h__write", text="x"))
    assert done.code == 0, done.message
    assert settled(served) == ["OUTCOME_UNKNOWN", "", ""]  # the first was its end
    assert "do not read" not in str(events(served, "ToolCallSettled"))


def test_more_than_a_model_should_be_told_of_is_not_offered_and_said(served: Desk) -> None:
    configured(served, "mcp_servers: {h: {command: python3, args: [server.py, wordy]}}\n")
    done = ran(served, call("mcp__h__t0", text="x"), call("execute_command", command="> b"))
    assert done.code == 0, done.message
    assert settled(served) == ["", ""]
    assert "not offered: t24 and what follows it" in notes(served)


def test_a_model_that_writes_its_calls_as_text_uses_a_server_too(served: Desk) -> None:
    said = {"name": "mcp__h__write", "arguments": {"text": "by text"}}
    done = ran(served, {"text": f"<tool_call>{json.dumps(said)}</tool_call>"})
    assert (done.code, done.changed) == (0, {"log.txt": "added"}), done.message


def test_a_servers_memory_counts_to_the_limits_of_its_place(served: Desk) -> None:
    script = served.script(
        call("mcp__h__eat", text="400000000"),
        call("mcp__h__write", text="x"),
        finish(),
    )
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "")
    done = served.agents(*words, "--limit", "memory=200M")
    assert done.code == 0, done.message
    (hit, _) = events(served, "ToolCallSettled")
    assert (hit["limit"], settled(served)[1]) == ("memory", ""), hit


def test_servers_that_do_not_work_are_told_and_the_plan_goes_on(desk: Desk) -> None:
    configured(desk, "mcp_servers: {gone: {command: no-such-program}}\n")
    done = ran(desk, call("write_file", path="b.txt", content="b\n"))
    assert done.code == 0, done.message
    assert (
        "MCP server gone: none of its tools are offered: there is no program no-such-program in"
        " here; it must be found inside: `--mount PATH` shows it there" in notes(desk)
    )


def test_a_repositorys_servers_count_only_after_trust(served: Desk) -> None:
    configured(served, "")
    (served.repo / ".patchyard").mkdir()
    (served.repo / ".patchyard/config.yaml").write_text(f"mcp_servers: {{h: {SERVER}}}\n")
    git(served.repo, "add", "-A")
    git(served.repo, "commit", "-q", "-m", "settings")
    assert (
        ran(served, call("mcp__h__write", text="x"), call("execute_command", command="> b")).code
        == 0
    )
    assert settled(served) == ["UNKNOWN_TOOL", ""]
    assert served.agents("trust", ".").code == 0
    assert ran(served, call("mcp__h__write", text="x")).code == 0
    assert settled(served) == [""]


def test_a_call_of_a_server_waits_for_an_approval_where_that_was_asked_for(served: Desk) -> None:
    configured(served, f"mcp_servers: {{h: {SERVER}}}\napprovals: [mcp__h]\n")
    waits = ran(served, call("mcp__h__write", text="approved"))
    assert waits.code == 3, waits.message
    assert served.agents("plan", "approve", "@last").code == 0
    done = served.agents("plan", "resume", "@last")
    assert (done.code, done.changed) == (0, {"log.txt": "added"}), done.message
    configured(served, f"mcp_servers: {{h: {SERVER}}}\napprovals: [mcp__hh]\n")
    wrong = ran(served)
    assert (wrong.code, "Did you mean 'mcp__h'" in wrong.message) == (2, True), wrong.message


@pytest.mark.service("docker")
def test_a_server_works_inside_a_container(served: Desk) -> None:
    served.agents("project", "create", "shop")
    words = ("resource", "add", "container-instance", "box", "--image", image(WITH_PYTHON))
    served.agents(*words)
    served.agents("project", "link-resource", "shop", "box")
    done = ran(served, call("mcp__h__write", text="boxed"), place="box")
    assert (done.code, done.changed) == (0, {"log.txt": "added"}), done.message
    sent = "tools: {mcp__h: {execution_environment: box}}"  # and all else stays in `process`
    configured(served, f"mcp_servers: {{h: {SERVER}}}\n{sent}\n")
    shared = call("execute_command", command="cat log.txt > copy.txt")
    done = ran(served, call("mcp__h__write", text="boxed"), shared)
    assert (done.code, set(done.changed)) == (0, {"copy.txt", "log.txt"}), done.message
    asked = events(served, "ToolCallRequested")
    assert [each["kind"] for each in asked] == ["container", "process"]
