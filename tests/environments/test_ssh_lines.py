"""Connections that break, and hosts that allow little: no call is lost, and none runs twice."""

import asyncio
import signal
import socket
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from environments.far import a_call_at_the_gate, adapter, home_of, server, toolbox_of
from environments.yards import Yard, starting
from patchyard.clients import reattaching
from patchyard.clients.process import kill, wait_ended
from patchyard.clients.replicas import Replica
from patchyard.clients.ssh_talk import Conversation
from patchyard.clients.toolbox import NOWHERE, Dial, ToolboxClient
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.environments.ssh import TRIES, SSHEnvironment
from sshds import SshServer, serving_ssh

__all__ = ["adapter", "server"]  # fixtures

pytestmark = [pytest.mark.anyio, pytest.mark.service("sshd")]


async def test_a_call_whose_connection_is_cut_goes_on_and_ran_once(
    yard: Yard, server: SshServer, adapter: SSHEnvironment
) -> None:
    async with starting(adapter) as start:
        running = await start(yard.spec())
        task, gate, heard = await a_call_at_the_gate(running, yard)
        for _ in range(3):
            server.cut()
            await asyncio.sleep(0)
        await asyncio.to_thread(gate.write_text, "word\n")
        assert await task == "begun\ngot word\n"
        # Nothing twice; what was said while nobody listened is in the result.
        assert "begun\ngot word\n".startswith("".join(heard))
        assert (yard.workspace / "runs").read_text() == "ran\n"
        assert await running.run("echo alive") == "alive"


async def test_a_host_that_comes_back_after_a_while_lost_nothing(
    yard: Yard, server: SshServer, adapter: SSHEnvironment
) -> None:
    async with starting(adapter) as start:
        running = await start(yard.spec())
        task, gate, _ = await a_call_at_the_gate(running, yard)
        server.stop()
        await asyncio.to_thread(gate.write_text, "word\n")
        server.start()
        assert await task == "begun\ngot word\n"
        assert (yard.workspace / "runs").read_text() == "ran\n"


async def test_a_host_that_stays_away_breaks_the_environment_in_time(
    yard: Yard, server: SshServer, adapter: SSHEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reattaching, "AGAIN_S", 0.3)
    async with starting(adapter) as start:
        running = await start(yard.spec())
        task, _, _ = await a_call_at_the_gate(running, yard)
        server.stop()
        with pytest.raises(EnvironmentBroken, match="nor does it come back"):
            await task
        server.start()


async def test_a_toolbox_that_is_killed_breaks_the_environment_at_once(
    yard: Yard, adapter: SSHEnvironment
) -> None:
    async with starting(adapter) as start:
        running = await start(yard.spec())
        task, _, _ = await a_call_at_the_gate(running, yard)
        kill(toolbox_of(running.handle), signal.SIGKILL)
        async with asyncio.timeout(120):
            with pytest.raises(EnvironmentBroken, match="no toolbox answers"):
                await task


async def test_a_cancelled_call_has_its_files_at_home_with_the_next_one(
    yard: Yard, adapter: SSHEnvironment
) -> None:
    async with starting(adapter) as start:
        running = await start(yard.spec())
        task, _, _ = await a_call_at_the_gate(running, yard)
        task.cancel()
        await asyncio.wait([task])
        await running.toolbox.cancel("01GATE")
        await running.toolbox.call("01READ", "read_file", {"path": "runs"})
        assert (yard.workspace / "runs").read_text() == "ran\n"


@pytest.mark.parametrize("setting", ["AllowStreamLocalForwarding no", "DisableForwarding yes"])
async def test_a_host_that_forbids_every_forwarding_is_reached_by_a_relay(
    yard: Yard, setting: str
) -> None:
    with serving_ssh("root", setting) as strict:
        yard.use(strict)
        async with starting(SSHEnvironment(yard.station)) as start:
            running = await start(yard.spec())
            assert await running.run("echo hello > file; cat file") == "hello"
            assert (yard.workspace / "file").read_text() == "hello\n"
            task, gate, _ = await a_call_at_the_gate(running, yard)
            strict.cut()
            await asyncio.to_thread(gate.write_text, "word\n")
            assert await task == "begun\ngot word\n"
            kill(toolbox_of(running.handle), signal.SIGKILL)
            async with asyncio.timeout(120):
                with pytest.raises(EnvironmentBroken, match="no toolbox answers"):
                    await running.run("true")


async def test_a_login_that_talks_is_not_taken_for_an_answer(yard: Yard) -> None:
    noise = 'ForceCommand echo "welcome {}"; eval "$SSH_ORIGINAL_COMMAND"'
    with serving_ssh("root", noise, "DisableForwarding yes") as talkative:
        yard.use(talkative)
        async with starting(SSHEnvironment(yard.station)) as start:
            assert await (await start(yard.spec())).run("echo hello") == "hello"


async def test_one_connection_serves_all_environments_of_a_host(
    yard: Yard, server: SshServer, adapter: SSHEnvironment
) -> None:
    async with starting(adapter) as start:
        one, two = await start(yard.spec()), await start(yard.spec())
        await asyncio.gather(one.run("true"), two.run("true"))
        log = (server.folder / "log").read_text()
    assert log.count("Accepted publickey") == 1


async def test_it_ends_itself_when_its_engine_and_connection_are_gone(
    yard: Yard, server: SshServer, adapter: SSHEnvironment
) -> None:
    handle = await adapter.start(yard.spec(grace_s=0.2))
    server.cut()
    assert await asyncio.to_thread(wait_ended, toolbox_of(handle), timeout_s=60)
    await adapter.end(handle)


async def test_a_host_that_falls_silent_while_it_starts_one_leaves_nothing(
    yard: Yard, server: SshServer, adapter: SSHEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Conversation.ask

    async def cut_before(self: Conversation, do: str, **fields: object) -> Mapping[str, object]:
        if do == "start":
            server.cut()
        return await real(self, do, **fields)

    monkeypatch.setattr(Conversation, "ask", cut_before)
    with pytest.raises(EnvironmentUnavailable, match="could not start an environment") as error:
        await adapter.start(yard.spec())
    assert error.value.hint
    assert server.environments() == []


@pytest.mark.parametrize("do", ["prepare", "start"])
@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_line_that_breaks_while_one_starts_is_made_anew_and_leaves_one_alone(
    yard: Yard,
    server: SshServer,
    adapter: SSHEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    do: str,
    *,
    is_answered: bool,
) -> None:
    real = Conversation.ask
    cuts: list[str] = []

    async def ask(self: Conversation, now: str, **fields: object) -> Mapping[str, object]:
        if now != do or len(cuts) == 2:
            return await real(self, now, **fields)
        cuts.append(now)
        if is_answered:
            await real(self, now, **fields)
        server.cut()
        return await real(self, "prepare")

    monkeypatch.setattr(Conversation, "ask", ask)
    async with starting(adapter) as start:
        running = await start(yard.spec())
        assert server.environments() == [running.handle.environment_id]
        assert await running.run("echo hello") == "hello"
    assert cuts == [do, do]


async def test_a_line_that_breaks_while_it_is_made_is_made_anew(
    yard: Yard, server: SshServer, adapter: SSHEnvironment
) -> None:
    came: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, line: asyncio.StreamWriter) -> None:
        came.append(line)
        linger = struct.pack("ii", 1, 0)  # so that the end of it is a reset
        line.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        line.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as gate:
        port = gate.sockets[0].getsockname()[1]
        config = home_of(yard) / ".ssh/config"
        known = config.read_text()
        config.write_text(known.replace(f"Port {server.port}", f"Port {port}"))
        with pytest.raises(
            EnvironmentUnavailable, match=rf"yonder \(port {port}\) cannot be reached"
        ):
            await adapter.start(yard.spec())
    assert len(came) == 2 * TRIES


async def test_an_exchange_that_fails_leaves_no_connection(
    yard: Yard, adapter: SSHEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await adapter.start(yard.spec())

    async def fails(*_: object, **__: object) -> bool:
        raise EnvironmentBroken("a lie")

    with monkeypatch.context() as patched:
        patched.setattr(Replica, "recover", fails)
        with pytest.raises(EnvironmentBroken, match="a lie"):
            await adapter.attach(handle)
    toolbox = await adapter.attach(replace(handle, details={**handle.details, "file_bytes": None}))
    await toolbox.close()
    await adapter.end(handle)


async def test_an_environment_that_does_not_end_is_said_to_be_broken(
    yard: Yard, adapter: SSHEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await adapter.start(yard.spec())
    real = Conversation.ask

    async def in_vain(self: Conversation, do: str, **fields: object) -> Mapping[str, object]:
        return {"has_ended": False} if do == "end" else await real(self, do, **fields)

    with monkeypatch.context() as patched:
        patched.setattr(Conversation, "ask", in_vain)
        with pytest.raises(EnvironmentBroken, match="did not end in time"):
            await adapter.end(handle)
    await adapter.end(handle)
    with pytest.raises(EnvironmentBroken, match="has ended"):
        await adapter.attach(handle)


@pytest.mark.parametrize("stage", ["prepare", "state", "dial"])
async def test_a_line_that_breaks_while_a_later_engine_attaches_loses_nothing(
    yard: Yard,
    server: SshServer,
    adapter: SSHEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
) -> None:
    asked, dialled = Conversation.ask, ToolboxClient.over
    cuts: list[str] = []

    def cut_once(now: str) -> None:
        if now == stage and not cuts:
            cuts.append(now)
            server.cut()

    async def ask(self: Conversation, do: str, **fields: object) -> Mapping[str, object]:
        cut_once(do)
        return await asked(self, do, **fields)

    async def over(dial: Dial, path: Path = NOWHERE) -> ToolboxClient:
        cut_once("dial")
        return await dialled(dial, path)

    async with starting(adapter) as start:
        running = await start(yard.spec())
        task, gate, _ = await a_call_at_the_gate(running, yard)
        task.cancel()
        monkeypatch.setattr(Conversation, "ask", ask)
        monkeypatch.setattr(ToolboxClient, "over", over)
        again = await adapter.attach(running.handle)
        await asyncio.to_thread(gate.write_text, "word\n")
        result = await again.attach("01GATE")
        await again.close()
    assert cuts == [stage]
    assert result is not None
    assert result["stdout"] == "begun\ngot word\n"


async def test_a_host_whose_lines_all_break_is_away_and_its_environment_not_lost(
    yard: Yard, server: SshServer, adapter: SSHEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Conversation.ask

    async def ask(self: Conversation, do: str, **fields: object) -> Mapping[str, object]:
        if do == "state":
            server.cut()
        return await asked(self, do, **fields)

    async with starting(adapter) as start:
        running = await start(yard.spec())
        with monkeypatch.context() as patched:
            patched.setattr(Conversation, "ask", ask)
            with pytest.raises(EnvironmentUnavailable, match="connections to yonder break") as away:
                await adapter.attach(running.handle)
        assert "ssh yonder true" in away.value.hint
        assert await running.run("echo here") == "here"
