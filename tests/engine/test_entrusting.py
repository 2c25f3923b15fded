"""Where servers that hold a credential are started, and where they are not."""

from patchyard.domain.environment import EnvironmentSpec, Mount
from patchyard.domain.mcp import McpServer
from patchyard.domain.plan import PlanSpec
from patchyard.domain.resource import Resource
from patchyard.engine.entrusting import apart, unfit

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
