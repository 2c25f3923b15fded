"""MCP servers that listen, reached from inside by the plan's gateway alone."""

import json
from collections.abc import Iterator

import pytest

from images import WITHOUT_PYTHON, image
from mainjob.driver import Answer, Desk, call, finish, write
from mainjob.mcp_desks import configured
from mcp_listeners import listening

pytestmark = [pytest.mark.service("bubblewrap")]


@pytest.fixture
def url() -> Iterator[str]:
    with listening() as address:
        yield address


def ran(desk: Desk, *options: str) -> Answer:
    script = desk.script(call("mcp__house__greet", who="Ada"), write("a", "b\n"), finish())
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "")
    return desk.agents(*words, *options)


def test_a_server_is_reached_only_where_its_host_was_granted(desk: Desk, url: str) -> None:
    configured(desk, f"mcp_servers: {{house: {{url: '{url}'}}}}\n")
    place = url.removesuffix("/mcp")
    refused = ran(desk)
    assert refused.code == 0, refused.message
    told = desk.agents("plan", "events", "@last").data["events"]
    notes = [each["text"] for each in told if each["event"] == "Noted"]
    assert any("none of its tools are offered" in each and "--allow-host" in each for each in notes)

    checked = desk.agents("mcp", "check", "house", "--allow-host", place)
    assert (checked.code, [tool["name"] for tool in checked.data["tools"]]) == (0, ["greet", "ask"])
    done = ran(desk, "--allow-host", place)
    assert done.code == 0, done.message
    events = desk.agents("plan", "events", "@last").data["events"]
    settled = [each for each in events if each["event"] == "ToolCallSettled"]
    assert "good day, Ada" in str(settled[0]["data"])
    used = [each for each in events if each["event"] == "NetworkUsed"]
    assert place.removeprefix("http://").partition(":")[0] in str(used)


@pytest.mark.parametrize(("allow", "person"), [("", "no person: "), ("elicitation", "cancel")])
def test_a_server_of_the_official_library_asks_nobody_unless_that_is_allowed(
    desk: Desk, url: str, allow: str, person: str
) -> None:
    configured(desk, f"mcp_servers: {{house: {{url: '{url}', allow: [{allow}]}}}}\n")
    script = desk.script(call("mcp__house__ask"), write("a", "b\n"), finish())
    words = ("run", "a task", "--model", f"scripted:{script}", "--validate", "")
    done = desk.agents(*words, "--allow-host", url.removesuffix("/mcp"))
    assert done.code == 0, done.message
    events = desk.agents("plan", "events", "@last").data["events"]
    settled = next(each for each in events if each["event"] == "ToolCallSettled")
    said = json.loads(settled["data"]["value"]["answer"])["content"][0]["text"]
    assert said.startswith(person), said
    assert "; no model: " in said


@pytest.mark.service("docker")
def test_one_is_reached_from_inside_a_container_without_python(desk: Desk, url: str) -> None:
    configured(desk, f"mcp_servers: {{house: {{url: '{url}'}}}}\n")
    desk.agents("project", "create", "shop")
    desk.agents("resource", "add", "container-instance", "box", "--image", image(WITHOUT_PYTHON))
    desk.agents("project", "link-resource", "shop", "box")
    done = ran(desk, "--in", "box", "--allow-host", url.removesuffix("/mcp"))
    assert done.code == 0, done.message
    events = desk.agents("plan", "events", "@last").data["events"]
    settled = [each for each in events if each["event"] == "ToolCallSettled"]
    assert "good day, Ada" in str(settled[0]["data"])
