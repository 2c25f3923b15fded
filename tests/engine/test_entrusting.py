"""Where servers that hold a credential are started, and where they are not."""

from typing import Any, cast

import pytest

from patchyard.contracts.environment import Environment, OnOutput, Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Mount,
)
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.mcp import MCP_ANSWER, McpServer
from patchyard.domain.plan import PlanSpec
from patchyard.domain.resource import Resource
from patchyard.engine.entrusting import apart, entrusted, unfit

SERVER = McpServer(name="h", command="x", env={"T": "${T}"})


def spec(environment: str, **more: object) -> PlanSpec:
    made = PlanSpec(task="t", repository="/r", environment=environment, mcp_servers=(SERVER,))
    return made.__class__(**{**vars(made), **more})


def test_nothing_of_the_workspace_and_nothing_that_is_written_comes_along() -> None:
    mounts = [
        *(Mount(source="/s", target="/r/.git"), Mount(source="/data", target="/data")),
        Mount(source="/out", target="/out", is_writable=True),
        Mount(source="/shared", target="/shared"),  # read-only in this phase alone
        Mount(source="/", target="/all"),
    ]
    whole = EnvironmentSpec(
        plan_id="p",
        purpose="strategize",
        workspace=Mount(source="/w", target="/r", is_writable=True),
        written="/upper",
        mounts=tuple(mounts),
        commands=("make serve",),
        path=("/r/.venv/bin",),
    )
    said = ("/data:ro", "/out:rw", "/shared:rw")
    own = apart(whole, "/vacant", server="h", mounts=said)
    assert own.workspace == Mount(source="/vacant", target="/r")
    assert [each.source for each in own.mounts] == ["/data"]
    assert (own.server, own.written, own.commands, own.path) == ("h", "", (), ())


def test_a_place_without_walls_or_that_the_repository_made_gets_no_credential() -> None:
    known = {"T": "x"}.get
    assert unfit(spec("process"), SERVER, known) == ""
    assert "what runs on host" in unfit(spec("host"), SERVER, known)
    apart_from_it = spec("host", tool_environments={"mcp__h": "process"})
    assert "what runs on host" in unfit(apart_from_it, SERVER, known)
    dev = Resource(name="dev", type="devcontainer-instance")
    inside = spec("dev", resources=(dev,))
    assert "mcp__h: {execution_environment: process}" in unfit(inside, SERVER, known)
    assert unfit(spec("host"), McpServer(name="h", command="x"), known) == ""
    assert "T is not set" in unfit(spec("process"), SERVER, lambda _: None)


class Talking:
    """A toolbox whose server gives its credential away wherever it can."""

    async def call(
        self, _id: str, _op: str, _args: object, *, on_output: OnOutput | None = None
    ) -> dict[str, Any]:
        if on_output is not None:
            on_output("stderr", "the token is s3cr")
            on_output("stderr", "et-value")
        return {"text": "the token is s3cret-value"}

    async def attach(self, _id: str, *, on_output: OnOutput | None = None) -> dict[str, Any] | None:
        if on_output is not None:
            on_output("stderr", "s3cret-value")
        raise EnvironmentBroken(
            "ended by s3cret-value", hint="not s3cret-value", details={"said": ["s3cret-value"]}
        )


@pytest.mark.anyio
async def test_what_a_server_says_in_any_way_is_without_its_credential() -> None:
    handle = EnvironmentHandle(
        kind=ExecutionEnvironment.MOCK, environment_id="e", workspace_path="/w", server="h"
    )
    toolbox = entrusted(
        cast("Environment", object()),
        handle,
        cast("Toolbox", Talking()),
        spec=spec("process"),
        lookup={"T": "s3cret-value"}.get,
    )
    live: list[str] = []
    said = await toolbox.call("c", MCP_ANSWER, {}, on_output=lambda _, text: live.append(text))
    assert said["text"] == "the token is [hidden]"
    with pytest.raises(EnvironmentBroken) as caught:
        await toolbox.attach("c", on_output=lambda _, text: live.append(text))
    error = caught.value
    assert (str(error), error.hint) == ("ended by [hidden]", "not [hidden]")
    assert error.details == {"said": ["[hidden]"]}
    assert live == []
