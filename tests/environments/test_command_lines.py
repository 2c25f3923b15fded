"""What other users of a machine read in its list of processes: names of variables, no values."""

import secrets
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from environments.yards import KINDS, VM, Adapter, Start, Yard, marks_of
from onlookers import looking
from timing import IS_SOAK

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

FASTER = KINDS if IS_SOAK else [kind for kind in KINDS if kind.values != VM.values]
ORDINARY = [pytest.param("ssh-process-nobody", marks=marks_of("ssh-process-nobody"))]
TOLD = 'printf "%s" "$TOKENISH" "$OWN"'
SERVER = """
while IFS= read -r line; do case $line in
*initialize\\"*) echo '{"id":1,"result":{}}' ;;
*tools/list*) echo '{"id":2,"result":{"tools":[{"name":"'$TOKENISH$OWN'"}]}}' ;;
esac; done
"""


@pytest.fixture(params=[*FASTER, *ORDINARY])
def adapter(request: pytest.FixtureRequest, yard: Yard) -> Adapter:
    return yard.adapter(request.param)


async def test_the_values_of_variables_stand_in_no_command_line(start: Start, yard: Yard) -> None:
    marker = f"tokenish-{secrets.token_hex(8)}"
    own = {"env": {"OWN": f"{marker}-own"}}
    yard.variables = {"TOKENISH": f"{marker}-plan", "HOME": f"/nonexistent/{marker}"}
    (yard.workspace / "server.sh").write_text(SERVER)
    with looking(marker) as onlooker:
        running = await start(yard.spec())

        async def call(number: str, op: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
            return await running.toolbox.call(number, op, {**args, **own})

        said = await call("01RUN", "execute_command", {"command": TOLD})
        await call("02JOB", "execute_command", {"command": "sleep 60", "background": True})
        served = await call("03LIST", "mcp_list", {"server": "s", "command": ["sh", "server.sh"]})
        near = {"server": "n", "url": f"http://127.0.0.1:1/{marker}", "timeout_s": 20}
        bridged = await call("04NEAR", "mcp_list", near)
    assert "cannot be reached" in str(bridged)
    assert said["stdout"] == f"{marker}-plan{marker}-own"
    assert f"{marker}-plan{marker}-own" in str(served.get("tools"))
    assert onlooker.seen == []


def test_an_onlooker_sees_what_stands_in_one() -> None:
    marker = f"tokenish-{secrets.token_hex(8)}"
    words = ["sh", "-c", "echo; read line", marker]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has no words while it becomes another program
        with looking(marker) as onlooker:
            pass  # the last look comes at its end
    assert onlooker.seen == [f"sh -c echo; read line {marker} "]
