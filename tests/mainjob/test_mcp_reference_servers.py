"""The public reference servers, as npm installs them, inside `process` and `container`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from images import image
from mainjob.driver import Desk, call, finish
from mainjob.mcp_desks import configured
from npm_servers import SERVERS, installed, with_node

pytestmark = [
    *(pytest.mark.service(name) for name in ("bubblewrap", "node", "npm-index")),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with installed(SERVERS) as lent:
        yield lent


def worked(desk: Desk, place: str, folder: Path) -> None:
    packages = folder / "node_modules" / "@modelcontextprotocol"
    start = "{{command: node, args: [{}/{}/dist/index.js{}]}}"
    files = start.format(packages, "server-filesystem", ", .")
    everything = start.format(packages, "server-everything", "")
    configured(desk, f"mcp_servers:\n  fs: {files}\n  all: {everything}\n")
    script = desk.script(
        call("mcp__fs__read_text_file", path="a.txt"),
        call("mcp__fs__write_file", path="b.txt", content="by a server\n"),
        call("mcp__fs__edit_file", path="a.txt", edits=[{"oldText": "one", "newText": "1"}]),
        call("mcp__fs__read_text_file", path="/etc/passwd"),
        call("mcp__all__echo", message="zwölf"),
        call("mcp__all__get-sum", a=2, b=3),
        call("mcp__all__get-sum", a="two", b=3),
        call("mcp__all__get-tiny-image"),
        finish(),
    )
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "")
    done = desk.agents(*words, "--in", place, "--mount", str(folder))
    assert done.code == 0, done.message
    assert done.changed == {"a.txt": "modified", "b.txt": "added"}
    events = desk.agents("plan", "events", "@last").data["events"]
    settled = [each for each in events if each["event"] == "ToolCallSettled"]
    assert [each.get("error", "") for each in settled] == [
        *("", "", "", "MCP_TOOL_ERROR", "", "", "VALIDATION_ERROR", ""),
    ]
    answers = [str(each.get("data")) for each in settled]
    assert "one" in answers[0]
    assert "outside allowed directories" in answers[3]
    assert "The sum of 2 and 3 is 5" in answers[5]
    assert settled[7]["data"]["size"] > 5_000  # a picture, kept beside the journal


def test_they_work_inside_process(desk: Desk, folder: Path) -> None:
    worked(desk, "process", folder)


@pytest.mark.service("docker")
def test_they_work_inside_a_container(desk: Desk, folder: Path) -> None:
    desk.agents("project", "create", "shop")
    words = ("resource", "add", "container-instance", "box", "--image", image(with_node()))
    assert desk.agents(*words).code == 0
    desk.agents("project", "link-resource", "shop", "box")
    worked(desk, "box", folder)
