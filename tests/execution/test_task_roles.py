"""The role of a whole task as a record: each field does what it says, end to end (C15)."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite
from patchyard.execution import (
    Gate,
    LimitSettings,
    Output,
    ProviderConfig,
    Role,
    SandboxConfig,
    Task,
    TaskAction,
    TaskExecutionRequest,
    TaskExecutionResult,
    TaskRequest,
    TaskResponse,
    execute_task,
)

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.py": "a = 1\n"})
    yield made
    await made.clear()


class Listening:
    """A provider that remembers what it was asked, writes a file where it may, and ends."""

    def __init__(self) -> None:
        self.asked: list[TaskRequest] = []

    async def execute_task(self, request: TaskRequest) -> TaskResponse:
        self.asked.append(request)
        said = {"path": "new.txt", "content": "new\n"}
        can_write = "write_file" in {tool.name for tool in request.tools}
        if request.purpose == "execute" and request.turn == 0 and can_write:
            return TaskResponse(actions=(TaskAction(name="write_file", arguments=said),))
        return TaskResponse(actions=(TaskAction(name="finish", arguments={"summary": "made"}),))

    def supports_tools(self) -> bool:
        return True

    def supports_mcp(self) -> bool:
        return True

    def get_capabilities(self) -> list[str]:
        return []

    @property
    def tools(self) -> set[str]:
        """Those that the work was offered."""
        return {tool.name for each in self.asked for tool in each.tools}


async def heard(
    site: Worksite, role: Role, **options: Any
) -> tuple[TaskExecutionResult, Listening]:
    provider = Listening()
    request = TaskExecutionRequest(
        task=Task(text="do it", repository=str(site.repository)),
        agent=role,
        sandbox=SandboxConfig(),
        provider=ProviderConfig(name="acme", model="large", provider=provider),
    )
    return await execute_task(replace(request, **options), environ=site.environ), provider


async def test_name_prompt_tools_and_questions_of_a_role_reach_the_provider(
    site: Worksite,
) -> None:
    role = Role(
        name="translator",
        prompt="Translate each word into Latin.",
        tools=("read_file", "write_file"),
        may_ask=("reviewer",),
    )
    result, provider = await heard(site, role)
    assert (result.success, result.changed) == (True, True), result.message
    assert result.data["role"]["name"] == "translator"
    assert {each.role for each in provider.asked} == {"translator"}
    assert "Translate each word into Latin." in provider.asked[0].messages[0].text
    assert {"read_file", "write_file", "ask_role"} <= provider.tools
    assert not {"execute_command", "search_replace", "delete_file"} & provider.tools
    _, silent = await heard(site, replace(role, max_asks=0))
    assert "ask_role" not in silent.tools


async def test_a_role_whose_output_is_an_answer_is_offered_nothing_that_writes(
    site: Worksite,
) -> None:
    result, provider = await heard(site, Role(name="teller", output=Output.ANSWER))
    assert (result.success, result.changed) == (True, False), result.message
    assert not {"write_file", "search_replace", "delete_file"} & provider.tools


@pytest.mark.parametrize(("name", "passes"), [("new.txt", True), ("other.txt", False)])
async def test_gates_of_a_role_prove_its_work(site: Worksite, name: str, passes: bool) -> None:
    gate = Gate(name="own", command=f"test -e {name}")
    result, _ = await heard(site, Role(name="maker", gates={"own": gate}))
    assert result.success is passes
    assert result.error == (None if passes else "validation_failed")
    assert list(result.data["gates"]) == ["own"]


async def test_limits_of_a_role_stop_its_work(site: Worksite) -> None:
    result, _ = await heard(site, Role(name="maker", limits=LimitSettings(max_steps=1)))
    assert (result.error, result.limit) == ("limit", "steps")
    over, _ = await heard(site, Role(name="maker", limits=LimitSettings(max_steps=1)), steps=5)
    assert "more than the role maker may use" in over.message
    assert "in the program" in over.hint


ROLES: list[tuple[dict[str, Any], str]] = [
    ({"name": "Two Words"}, "'Two Words' is no name of a role"),
    ({"tools": ("write_fil",)}, "unknown tool 'write_fil'"),
    ({"output": "poems"}, "unknown output 'poems'"),
    ({"environments": ("container",)}, "the role maker does not work in process"),
    ({"environments": ("moon",)}, "unknown kind of environment 'moon'"),
    ({"may_ask": ("nobody",)}, "unknown role 'nobody'"),
    ({"prompt": "x" * 7000}, "the prompt has 7,000 characters"),
    ({"max_asks": -1}, "max_asks"),
    ({"limits": LimitSettings(max_steps=-1)}, "limits.max_steps"),
    ({"gates": {"a": Gate(name="b", command="true")}}, "gates.a: is no whole gate"),
    ({"gates": {"a": Gate(name="a")}}, "gates.a: is no whole gate"),
    ({"gates": {"a": {"command": ""}}}, "gates.a"),
    ({"output": Output.ANSWER, "gates": {"a": Gate(name="a", command="true")}}, "leaves nothing"),
]


@pytest.mark.parametrize(("fields", "said"), ROLES, ids=lambda e: str(e)[:40])
async def test_a_role_that_can_be_none_is_refused_before_there_is_a_plan(
    site: Worksite, fields: Mapping[str, Any], said: str
) -> None:
    result, provider = await heard(site, Role(**{"name": "maker", **fields}))
    assert (result.error, result.plan_id) in {("usage", ""), ("unknown_name", "")}
    assert said in result.message
    assert not provider.asked
