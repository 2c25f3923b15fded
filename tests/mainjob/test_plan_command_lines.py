"""What other users of the machine read in its list of processes while a whole plan works."""

import secrets

import pytest

from mainjob.driver import Desk, call, shell
from mainjob.mcp_desks import configured, with_server
from mainjob.test_mcp_credentials import place_of
from onlookers import looking

pytestmark = pytest.mark.service("bubblewrap")

KINDS = ["process", pytest.param("container", marks=pytest.mark.service("docker"))]
IS_THERE = 'test -n "$SHOP_NOTE"'


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_of_a_plans_variables_stands_in_a_command_line(
    desk: Desk, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = f"noted-{secrets.token_hex(8)}"
    monkeypatch.setenv("SHOP_NOTE", marker)
    server = f"{{command: python3, args: [server.py], env: {{OWN: {marker}-own}}}}"
    configured(with_server(desk), f"mcp_servers: {{h: {server}}}\n")
    with place_of(desk, kind) as place, looking(marker) as onlooker:
        done = desk.run(
            shell('printf "%s" "$SHOP_NOTE" >seen.txt'),
            call("mcp__h__echo", text="hello"),
            options=("--env", "SHOP_NOTE", "--setup", IS_THERE, "--validate", IS_THERE),
            in_=place,
        )
    assert done.code == 0, done.message
    assert done.changed == {"seen.txt": "added"}
    shown = desk.agents("plan", "diff", "@last", is_json=False).out.decode()
    assert f"+{marker}" in shown
    assert onlooker.seen == []
