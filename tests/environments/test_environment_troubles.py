"""Environments that do not start or end as they should, and who the agent is in them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from environments.yards import KINDS, LOCAL, Yard, living, marks_of, starting
from patchyard.clients import bubblewrap, toolbox, toolbox_options
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import Interpreter
from patchyard.domain.environment import Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, StartBroken
from patchyard.environments import host, process, ssh
from patchyard.environments.host import HostEnvironment
from patchyard.environments.process import ProcessEnvironment

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


async def test_a_machine_too_slow_for_the_check_says_so(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CHECK_TIMEOUT_S", 0.0)
    readiness = await ProcessEnvironment(yard.station).check()
    assert (readiness.is_ready, "in time" in readiness.cause) == (False, True)
    assert living(yard) == []


async def test_a_host_whose_toolbox_does_not_start_says_what_it_said(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = ["/bin/sh", "-c", "echo no such interpreter >&2"]
    monkeypatch.setattr(HostEnvironment, "_toolbox_command", lambda *_: fails)
    adapter = HostEnvironment(yard.station)
    with pytest.raises(EnvironmentUnavailable, match="no such interpreter"):
        await adapter.start(yard.spec())
    readiness = await adapter.check()
    assert not readiness.is_ready
    assert "no such interpreter" in readiness.cause
    assert readiness.cure


ANSWERING = [
    pytest.param(kind, marks=marks_of(kind))
    for kind in ("container", "host", "process", "ssh", "ssh-process")
]
BREAKS = """
def begin():
    raise OSError(28, 'the disk went away')
begin()
"""


@pytest.mark.parametrize("kind", ANSWERING)
async def test_a_toolbox_that_breaks_before_it_answers_is_told_by_its_exception(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(toolbox_options, "BOOTSTRAP", BREAKS)
    monkeypatch.setattr(ssh, "BOOTSTRAP", BREAKS)
    with pytest.raises(StartBroken, match=r"\[Errno 28\] the disk went away") as broken:
        async with starting(yard.adapter(kind)) as start:
            await start(yard.spec())
    assert "Traceback" not in broken.value.message
    assert "\n" not in broken.value.message
    assert living(yard) == []


@pytest.mark.parametrize("kind", LOCAL)
async def test_a_toolbox_that_comes_up_slowly_is_waited_for_as_long_as_a_start_may_take(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(toolbox, "CONNECT_TIMEOUT_S", 0.0)  # of one that is known to be up
    adapter = yard.adapter(kind)
    await adapter.end(await adapter.start(yard.spec()))


@pytest.mark.parametrize("place", ["", ".ssh/python"])
async def test_a_python_among_what_no_agent_may_see_is_refused(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    prefix = str(Path(yard.station.home) / place)
    own = Interpreter(path="/usr/bin/python3", mounts=(Mount(source=prefix, target=prefix),))
    monkeypatch.setattr(process, "toolbox_interpreter", lambda: own)
    with pytest.raises(EnvironmentUnavailable, match="cannot be shown") as refused:
        await ProcessEnvironment(yard.station).start(yard.spec())
    assert "/usr/bin/python3" in refused.value.hint


@pytest.mark.parametrize("kind", LOCAL)
async def test_one_that_does_not_end_is_said_to_be_broken(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    handle = await adapter.start(yard.spec())
    with pytest.MonkeyPatch.context() as stays:
        stays.setattr(host, "kill_tree", lambda *_args, **_options: False)
        stays.setattr(process, "wait_ended", lambda *_args, **_options: False)
        with pytest.raises(EnvironmentBroken, match="did not end"):
            await adapter.end(handle)
    await adapter.end(handle)
    assert living(yard) == []


@pytest.mark.service("root")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_agent_has_the_group_that_the_workspace_says(kind: str, yard: Yard) -> None:
    async with starting(yard.adapter(kind)) as start:
        spec = replace(yard.spec(), agent_uid=61_999, agent_gid=61_998)
        os.chown(yard.workspace, 61_999, 61_998)
        running = await start(spec)
        assert await running.run("id -u; id -g") == "61999\n61998"


@pytest.mark.service("root")
async def test_a_host_refuses_a_place_the_agent_cannot_pass_through(yard: Yard) -> None:
    adapter = HostEnvironment(yard.station)
    closed = yard.folder / "closed"
    (closed / "workspace").mkdir(parents=True)
    closed.chmod(0o700)
    for workspace in (closed / "workspace", yard.folder / "none"):
        spec = replace(yard.spec(), workspace=Mount(source=str(workspace), target=str(workspace)))
        with pytest.raises(EnvironmentUnavailable, match="cannot pass through") as refused:
            await adapter.start(spec)
        assert "PATCHYARD_HOME" in refused.value.hint


def test_an_ordinary_engine_takes_a_namespace_of_users() -> None:
    assert "--unshare-user" in bubblewrap._identity_options(is_root=False)
    assert "--unshare-user" not in bubblewrap._identity_options(is_root=True)


def test_an_ordinary_agent_keeps_the_users_home_and_passes_where_the_engine_does(
    yard: Yard,
) -> None:
    itself = AgentIdentity(uid=1000, gid=1000, is_switched=False)
    assert HostEnvironment(yard.station)._make_home("01E", itself) is None
    assert host._closed_folder("/root", itself) is None
    host._remove_home(None)
