"""What a failure of an MCP server says that a person can do."""

import pytest

from patchyard.domain.mcp_cures import cure_of, cure_of_start, told, with_cure
from patchyard.domain.tooling import ToolResult


@pytest.mark.parametrize(
    ("why", "cure"),
    [
        ("there is no program x in here", "--mount PATH"),
        ("it ended with exit code 1; its last words: Error: Cannot find module '/x'", "--mount"),
        ("http://h/mcp cannot be reached: refused", "--allow-host HOST"),
        ("the variable NIX is not set where the engine runs", "set the variable"),
        ("h gave no answer within 2 s and was ended", "timeout_s"),
        ("the server h does not work: it ended with exit code 0", "`command` and `args`"),
    ],
)
def test_a_cure_fits_what_the_failure_says(why: str, cure: str) -> None:
    assert cure in cure_of(why)
    assert told("h", f"{why}\nmore").splitlines()[1:] == ["more"]


def test_a_server_that_is_fetched_first_is_told_that_no_registry_is_reached() -> None:
    why = "h gave no answer within 60 s and was ended"
    for words in (["npx", "-y", "server"], ["/usr/bin/uvx", "server"], ["/opt/my tools/npx", "x"]):
        assert "no registry is reached from inside" in cure_of_start(why, words)
        assert "by hand" not in cure_of_start(why, words)
    assert "--mount" in cure_of_start("there is no program npx in here", ["npx", "-y", "server"])


def test_a_server_that_says_nothing_is_to_be_started_by_hand() -> None:
    started = "start it by hand to see more: `sh -c 'exit 3'`"
    assert cure_of_start("it ended with exit code 3", ["sh", "-c", "exit 3"]) == started
    silent = cure_of_start("h gave no answer within 60 s and was ended", ["sh", "-c", "exit 3"])
    assert silent == f"`timeout_s` of the server in `mcp_servers` gives it longer; {started}"
    assert cure_of_start("it ended", []) == "look at the log of that server"


def test_where_no_cure_is_known_only_the_way_to_look_is_told() -> None:
    why = "it ended with exit code 1; its last words: no licence"
    assert cure_of(why) == ""
    assert told("h", why) == f"{why}; `agents mcp check h` tries it alone"


def test_only_failures_of_a_server_are_told_a_cure() -> None:
    failed = ToolResult(call_id="c", success=False, message="m", error="MCP_SERVER_FAILED")
    assert "agents mcp check fs" in with_cure("mcp__fs__read", failed).message
    assert with_cure("execute_command", failed) == failed
    other = ToolResult(call_id="c", success=False, message="m", error="TIMEOUT")
    assert with_cure("mcp__fs__read", other) == other
