"""What the processes of a sandbox are started with, as root sees it from outside."""

import pytest

from environments.yards import Adapter, Start, Yard
from patchyard.clients.berths import MARK
from patchyard.clients.process import all_processes, marked
from patchyard.toolbox.ending import started_with

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
def adapter(yard: Yard) -> Adapter:
    return yard.adapter("process")


@pytest.mark.service("root")  # a toolbox shows its variables to root alone
async def test_no_process_of_it_is_started_with_a_variable_of_the_engine(
    start: Start, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    running = await start(yard.spec())
    found = marked(f"{MARK}={running.handle.environment_id}", all_processes())
    assert found  # as seen from outside; a command inside reads no other's variables
    variables = {variable for each in found for variable in started_with(each.pid)}
    assert b"OPENAI_API_KEY=sk-very-secret" not in variables
