"""Records in a request for a whole task: each field does what it says, end to end (C15)."""

import shlex
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call, done
from environments.yards import marks_of
from execution.backends import backed
from models.servers import ChatServer
from network.hosts import hosting
from patchyard.domain.environment_limits import EnvironmentLimits
from patchyard.domain.network import NetworkGrant
from patchyard.execution import (
    Limits,
    Mount,
    NetworkSettings,
    ProviderConfig,
    Role,
    SandboxConfig,
    Task,
    TaskExecutionRequest,
    TaskExecutionResult,
    execute_task,
)
from patchyard.execution.requests import asked_of
from patchyard.intake import spec_of
from patchyard.models.scripted import ScriptedReply

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

GET = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            print(answer.status, answer.read().decode())
    except OSError as error:
        print("failed:", error)
"""


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.py": "a = 1\n", "get.py": GET})
    yield made
    await made.clear()


def script(site: Worksite, *commands: str) -> str:
    calls = [call("execute_command", command=each, timeout_s=120) for each in commands]
    return site.script([*calls, done("made it")])


async def ran(
    site: Worksite, model: str, sandbox: SandboxConfig, **variables: str
) -> TaskExecutionResult:
    request = TaskExecutionRequest(
        task=Task(text="do it", repository=str(site.repository), apply_to="worktree"),
        sandbox=sandbox,
        model=model,
    )
    return await execute_task(request, environ={**site.environ, **variables})


def told(site: Worksite, name: str) -> str:
    return (site.repository / name).read_text().strip()


@pytest.mark.parametrize(
    "kind",
    [pytest.param(each, marks=marks_of(each)) for each in ("process", "container", "ssh", "vm")],
)
async def test_kind_image_address_limits_and_variables_of_a_sandbox_hold(
    site: Worksite, kind: str
) -> None:
    commands = (
        "head -c 2000000 /dev/zero > big; wc -c < big > size.txt; rm big",
        "echo $MINE > mine.txt",
    )
    with backed(kind) as named:
        sandbox = SandboxConfig(
            **named, variables={"MINE": "yes"}, limits=EnvironmentLimits(file_size=65_536)
        )
        result = await ran(site, script(site, *commands), sandbox)
    assert result.success, (result.message, result.hint)
    assert result.data["reach"]["kind"] == kind
    assert (told(site, "size.txt"), told(site, "mine.txt")) == ("65536", "yes")


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=marks_of(each)) for each in ("process", "container")]
)
async def test_mounts_of_a_sandbox_are_shown_and_written_to_as_they_say(
    site: Worksite, kind: str
) -> None:
    places = [site.folder / name for name in ("read", "write")]
    for place in places:
        place.mkdir()
        place.chmod(0o777)
        (place / "told").write_text("shown")
    names = [shlex.quote(str(place)) for place in places]
    commands = (
        f"cat {names[0]}/told > told.txt",
        f"echo x > {names[0]}/made 2>/dev/null; test -e {names[0]}/made; echo $? > closed.txt",
        f"echo x > {names[1]}/made",
    )
    mounts = (
        Mount(source=str(places[0]), target=str(places[0])),
        Mount(source=str(places[1]), target=str(places[1]), is_writable=True),
    )
    with backed(kind) as named:
        sandbox = SandboxConfig(**named, mounts=mounts)
        result = await ran(site, script(site, *commands), sandbox)
    assert result.success, (result.message, result.hint)
    assert (told(site, "told.txt"), told(site, "closed.txt")) == ("shown", "1")
    assert (places[1] / "made").exists()
    assert not (places[0] / "made").exists()


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=marks_of(each)) for each in ("process", "container")]
)
async def test_network_and_secrets_of_a_sandbox_reach_their_host_alone(
    site: Worksite, kind: str
) -> None:
    with hosting() as free, hosting() as guarded, backed(kind) as named:
        for host in (free, guarded):
            host.say("/data", b"from the host")
        sandbox = SandboxConfig(
            **named,
            network=NetworkSettings(allow_hosts=(f"http://{free.place}",)),
            secrets=(f"HOUSE_TOKEN@http://{guarded.place}",),
        )
        urls = [f"http://{place}/data" for place in (free.place, guarded.place, "other.invalid")]
        fetch = f"python3 get.py {' '.join(urls)} > got.txt"
        result = await ran(site, script(site, fetch), sandbox, HOUSE_TOKEN="s3cret-0123456789")
        plain, secret = (host.seen[0].headers.get("authorization") for host in (free, guarded))
    assert result.success, (result.message, result.hint)
    said = "200 from the host\n200 from the host\nfailed: HTTP Error 403"
    assert told(site, "got.txt").startswith(said)
    assert (plain, secret) == (None, "Bearer s3cret-0123456789")


@pytest.mark.parametrize("kind", [pytest.param("container", marks=marks_of("container"))])
async def test_an_image_that_is_not_there_is_named(site: Worksite, kind: str) -> None:
    sandbox = SandboxConfig(kind=kind, image="no-such-image:1")
    result = await ran(site, script(site, "true"), sandbox)
    assert result.error == "environment_unavailable"
    assert "no-such-image:1" in result.message


def planned(site: Worksite, sandbox: SandboxConfig) -> Any:
    request = TaskExecutionRequest(
        task=Task(text="do it", repository=str(site.repository)), sandbox=sandbox
    )
    return spec_of(asked_of(request, "", site.environ), site.environ)


async def test_all_that_a_sandbox_says_of_network_and_limits_is_in_the_plan(site: Worksite) -> None:
    network = NetworkSettings(
        allow_hosts=("api.example.org",),
        planning=True,
        max_connections=3,
        max_call_bytes=4096,
        max_plan_bytes=8192,
    )
    limits = Limits(cpus=1.5, memory_bytes=2**28, wall_s=90, disk_bytes=2**30, processes=99)
    spec = planned(site, SandboxConfig(network=network, limits=limits))
    assert spec.network == NetworkGrant(
        hosts=("api.example.org:443",),
        planning=True,
        max_connections=3,
        max_call_bytes=4096,
        max_plan_bytes=8192,
    )
    assert spec.environment_limits == EnvironmentLimits(
        cpus=1.5, memory=2**28, wall=90, disk=2**30, processes=99
    )


SANDBOXES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "proces"}, "unknown execution environment 'proces'"),
    ({"image": "a:1"}, "process takes no image"),
    ({"address": "a"}, "process takes no address"),
    ({"kind": "devcontainer", "image": "a:1"}, "has the image that its file names"),
    ({"kind": "container"}, "no container resource is linked"),
    ({"workspace": "/tmp"}, "SandboxConfig.workspace is for a sandbox alone"),
    ({"is_writable": False}, "SandboxConfig.is_writable is for a sandbox alone"),
    ({"limits": Limits(memory_bytes=None)}, "memory_bytes is None"),
    ({"limits": EnvironmentLimits(memory=5)}, "limits.memory: must be 32 MiB or more"),
    ({"mounts": ("/none/there",)}, "/none/there is refused"),
    ({"mounts": (Mount(source="/usr", target="/other"),)}, "/usr is to appear at /other"),
    ({"network": NetworkSettings(allow_hosts=("a b",))}, "'a b' is not HOST[:PORT]"),
    ({"network": NetworkSettings(max_connections=0)}, "network.max_connections"),
    ({"kind": "host", "network": NetworkSettings(allow_hosts=("a",))}, "no gateway stands before"),
    ({"secrets": ("A B",)}, "--secret"),
    ({"secrets": ("NOT_SET_HERE@a.example",)}, "NOT_SET_HERE"),
    ({"variables": {"API_KEY": "sk-abcdefghijklmnopqrstuvwxyz"}}, "looks like a credential"),
]


@pytest.mark.parametrize(("fields", "said"), SANDBOXES, ids=lambda each: str(each)[:40])
async def test_a_sandbox_that_cannot_be_is_refused_before_there_is_a_plan(
    site: Worksite, fields: Mapping[str, Any], said: str
) -> None:
    result = await ran(site, script(site, "true"), SandboxConfig(**fields))
    assert (result.success, result.plan_id) == (False, "")
    assert said in result.message
    assert result.hint


async def test_each_field_of_a_task_counts(site: Worksite) -> None:
    (site.repository / "a.py").write_text("a = 2\n")
    task = Task(
        text="do it",
        repository=str(site.repository),
        ref="head",
        setup=("echo ready > ready.txt",),
        validate=("test -e new.txt", "grep -q 'a = 1' a.py", "grep -q ready ready.txt"),
        apply_to="branch",
        allow_paths=(".github/**",),
        requires_changes=True,
    )
    make = call("write_file", path=".github/workflows/ci.yml", content="on: push\n")
    request = TaskExecutionRequest(
        task=task, sandbox=SandboxConfig(), model=site.script([ADD, make, done("made it")])
    )
    result = await execute_task(request, environ=site.environ)
    assert result.success, result.message
    assert [each["command"] for each in result.data["validation"]] == list(task.validate)
    assert (result.data["phase"], result.data["state"]) == ("apply", "applied")
    assert not (site.repository / "new.txt").exists()
    for is_required in (True, False):
        plain = Task(text="do it", repository=task.repository, requires_changes=is_required)
        idle = replace(request, task=plain, model=site.script([done("nothing")] * 3))
        unchanged = await execute_task(idle, environ=site.environ)
        assert (unchanged.success, unchanged.changed) == (not is_required, False), unchanged
        assert unchanged.error == ("failed" if is_required else None)


async def test_settings_of_a_provider_in_the_request_are_its_endpoint(site: Worksite) -> None:
    server = ChatServer(
        answering=lambda _: ScriptedReply(calls=(("finish", {"summary": "by house"}),)),
        key="k-12345",
    )
    async with server.running() as url:
        config = ProviderConfig(
            name="house",
            model="tiny",
            settings={"base_url": url, "api_key_env": "HOUSE_KEY", "context_tokens": 9000},
        )
        request = TaskExecutionRequest(
            task=Task(text="do it", repository=str(site.repository)),
            sandbox=SandboxConfig(),
            provider=config,
        )
        result = await execute_task(request, environ={**site.environ, "HOUSE_KEY": "k-12345"})
    assert (result.success, result.summary) == (True, "by house"), result.message
    assert {each["model"] for each in server.requests} == {"tiny"}


TWICE: list[dict[str, Any]] = [
    {"task": Task(text="do it", repository="/x"), "repository": "/y"},
    {"task": Task(text="do it", validate=("true",)), "validate": ("false",)},
    {"agent": Role(name="maker"), "role": "developer"},
    {"sandbox": SandboxConfig(), "environment": "process"},
    {"sandbox": SandboxConfig(), "variables": {"A": "b"}},
    {"sandbox": SandboxConfig(), "allow_hosts": ("a",)},
]


@pytest.mark.parametrize("fields", TWICE, ids="-".join)
async def test_what_a_record_and_a_word_say_both_is_refused(
    site: Worksite, fields: Mapping[str, Any]
) -> None:
    request = TaskExecutionRequest(**{"task": "do it", **fields})
    result = await execute_task(request, environ=site.environ)
    assert (result.error, result.plan_id) == ("usage", "")
    assert "is said twice" in result.message


@pytest.mark.parametrize("name", ["task", "agent", "sandbox", "provider"])
async def test_what_is_no_record_is_named(site: Worksite, name: str) -> None:
    fields: dict[str, Any] = {"task": "do it", name: 5}
    request = TaskExecutionRequest(**fields)
    result = await execute_task(request, environ=site.environ)
    assert (result.error, result.plan_id) == ("usage", "")
    assert result.message == f"TaskExecutionRequest.{name} is a int"
    assert result.hint


async def test_words_beside_a_task_fill_what_it_leaves_empty(site: Worksite) -> None:
    request = TaskExecutionRequest(
        task=Task(text="do it"),
        repository=str(site.repository),
        validate=("test -e new.txt",),
        environment="process",
        model=site.script([ADD, done("made it")]),
    )
    result = await execute_task(request, environ=site.environ)
    assert result.success, result.message
    assert result.data["validation"][0]["command"] == "test -e new.txt"
