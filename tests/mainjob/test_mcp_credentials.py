"""Servers that hold a credential: used by the agent, and read by nobody."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostile_mcp import PROGRAM
from images import WITH_PYTHON, image
from machines import lend
from mainjob.driver import Answer, Desk, call, finish, shell
from mainjob.mcp_desks import configured
from services import kernel_folder
from sshds import HOST, serving_ssh, with_engine

pytestmark = [pytest.mark.service("bubblewrap")]

SECRET = "t0p-secret-9f3a77"
LOOK = (
    "{ cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n';"
    " find . /tmp /run /var /home /root /mnt /etc /dev/shm -type f -mmin -10"
    " -exec grep -s t0p-secret {} +; echo looked; } >seen.txt"
)
"""What a command can look at: the processes there are, with their variables, and files."""


@pytest.fixture
def holding(desk: Desk) -> Desk:
    """A desk with a server that holds a credential, in a folder of the user's own."""
    folder = desk.folder / "servers"
    folder.mkdir()
    shutil.copy(PROGRAM, folder / "server.py")
    settle(desk, str(folder / "server.py"))
    return desk


def settle(desk: Desk, *args: str) -> None:
    entry = {
        "command": "python3",
        "args": args,
        "env": {"API_TOKEN": "${HOUSE_TOKEN}", "BOTH": "user:${HOUSE_TOKEN}@"},
        "read_only_tools": ["reach"],
    }
    configured(desk, json.dumps({"mcp_servers": {"h": entry}}))


def ran(
    desk: Desk,
    place: str,
    *replies: dict[str, Any],
    token: str = SECRET,
    is_far: bool = False,
) -> Answer:
    script = desk.folder / "script.json"
    planning = [call("mcp__h__reach", text="/proc/self/environ"), finish("a plan")]
    body = {"note": "by hand", "strategize": planning, "execute": [*replies, finish()]}
    script.write_text(json.dumps(body))
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "", "--in", place)
    mounted: tuple[str, ...] = ("--mount", str(desk.folder / "servers"))
    if is_far:  # where nothing of this machine can be mounted
        settle(desk, "-c", f"__file__ = 'server.py'\n{Path(PROGRAM).read_text()}")
        mounted = ()
    return desk.agents(*words, *mounted, environ={"HOUSE_TOKEN": token})


def events(desk: Desk, name: str) -> list[dict[str, Any]]:
    found = desk.agents("plan", "events", "@last").data["events"]
    return [each for each in found if each["event"] == name]


def leaks(desk: Desk) -> list[str]:
    files = [path for path in desk.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if SECRET.encode() in path.read_bytes()]


KINDS = [
    "process",
    pytest.param("container", marks=pytest.mark.service("docker")),
    pytest.param("vm", marks=[pytest.mark.service("qemu"), pytest.mark.timeout(900)]),
    pytest.param("ssh", marks=pytest.mark.service("sshd")),
]


@contextmanager
def place_of(desk: Desk, kind: str) -> Iterator[str]:
    """A place of that kind, linked to the desk's project."""
    if kind == "process":
        yield kind
        return
    words: tuple[str, ...]
    with ExitStack() as stack:
        if kind == "ssh":
            stack.enter_context(serving_ssh(prepared=with_engine)).configure(desk.home)
            words = ("ssh-host", "box", "--host", HOST, "--carries", "process")
        elif kind == "vm":
            lend(desk.folder / "state" / "run")
            kernel = kernel_folder()
            words = ("vm-image", "box", *(("--image", kernel) if kernel else ()))
        else:
            words = ("container-instance", "box", "--image", image(WITH_PYTHON))
        for said in (
            ("project", "create", "shop"),
            ("resource", "add", *words),
            ("project", "link-resource", "shop", "box"),
        ):
            assert desk.agents(*said).code == 0
        yield "box"


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_uses_a_server_with_a_credential_and_never_reads_it(
    holding: Desk, kind: str
) -> None:
    with place_of(holding, kind) as place:
        done = ran(
            holding,
            place,
            call("mcp__h__reach", text="/proc/self/environ"),
            shell(LOOK),
            call("mcp__h__write", text="x"),
            call("mcp__h__reach", text=str(holding.repo / "a.txt")),
            is_far=kind == "ssh",
        )
    assert done.code == 0, done.message
    assert done.changed == {"seen.txt": "added"}
    planned, has, _, wrote, read = events(holding, "ToolCallSettled")
    for each in (planned, has):
        assert "API_TOKEN=[hidden]" in str(each["data"])
        assert "BOTH=user:[hidden]@" in str(each["data"])
    seen = holding.agents("plan", "diff", "@last", is_json=False).out.decode()
    assert ("+PATH=" in seen, "+looked" in seen, SECRET in seen) == (True, True, False)
    assert {wrote["error"], read["error"]} == {"OUTCOME_UNKNOWN"}  # nothing of the work is there
    started = [each["handle"] for each in events(holding, "EnvironmentStarted")]
    assert [(each["kind"], each.get("server", "")) for each in started] == [
        *((kind, "h"), (kind, "h"), (kind, ""))
    ]
    assert SECRET not in (done.out.decode() + done.err)
    assert leaks(holding) == []


def test_what_would_let_the_agent_read_a_credential_is_refused_with_the_cure(holding: Desk) -> None:
    done = ran(holding, "host", shell("> b"))
    assert done.code == 0, done.message
    (note,) = [each["text"] for each in events(holding, "Noted") if "MCP server" in each["text"]]
    assert "nothing keeps what runs on host from reading it: work with `--in process`" in note
    unset = ran(holding, "process", shell("> b"), token="")
    assert unset.code == 0, unset.message
    notes = str(events(holding, "Noted"))
    assert "none of its tools are offered: the variable HOUSE_TOKEN is not set" in notes


def test_a_server_is_looked_at_where_it_would_be_used(holding: Desk) -> None:
    mount = ("--mount", str(holding.folder / "servers"))
    seen = holding.agents("mcp", "check", "h", *mount, environ={"HOUSE_TOKEN": SECRET})
    assert seen.code == 0, seen.message
    listed = holding.agents("mcp", "list").data["servers"][0]
    assert listed["credentials"] == ["HOUSE_TOKEN"]
    unset = holding.agents("mcp", "check", "h", *mount)
    assert (unset.code, "HOUSE_TOKEN is not set" in unset.message) == (4, True), unset.message


def test_an_engine_killed_in_mid_call_takes_up_the_very_call(holding: Desk) -> None:
    script = holding.script(call("mcp__h__sleep", text="1"), shell("> b"))
    mount = ("--mount", str(holding.folder / "servers"))
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "", *mount)
    process = holding.start(*words, "--stream", "--format", "json", HOUSE_TOKEN=SECRET)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("name") == "mcp__h__sleep":
            break
    process.kill()
    process.communicate()
    resumed = holding.agents("plan", "resume", "@last", environ={"HOUSE_TOKEN": SECRET})
    assert resumed.code == 0, resumed.message
    slept, _ = events(holding, "ToolCallSettled")
    assert (slept["success"], slept["is_reattached"]) == (True, True), slept
