"""A host over SSH: what is never sent along, paths, files that come home, and its end."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from environments.far import adapter, home_of, server
from environments.yards import Running, Yard, held_still, living, starting
from patchyard.clients import ssh_talk
from patchyard.domain.errors import EnvironmentBroken
from patchyard.environments.ssh import SSHEnvironment
from sshds import HOST, SshServer, free_port, serving_ssh
from toolboxes import comes_true

__all__ = ["adapter", "server"]  # fixtures

pytestmark = [pytest.mark.anyio, pytest.mark.service("sshd")]


GREEDY = (
    "ForwardAgent yes",
    "ForwardX11 yes",
    "ForwardX11Trusted yes",
    "SendEnv *",
    "SetEnv SENT_BY_SETTING=yes",
    "PermitLocalCommand yes",
    "LocalCommand touch {folder}/ran-here",
    "Tunnel no",
    "GSSAPIDelegateCredentials yes",
    "RequestTTY force",
    "LocalForward 127.0.0.1:{local} 127.0.0.1:{port}",
    "RemoteForward 127.0.0.1:{remote} 127.0.0.1:{port}",
)


async def test_nothing_of_this_machine_is_sent_along_whatever_the_configuration_says(
    yard: Yard, server: SshServer, adapter: SSHEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = {"local": free_port(), "remote": free_port(), "port": server.port}
    lines = [line.format(folder=yard.folder, **ports) for line in GREEDY]
    server.configure(home_of(yard), *lines)
    monkeypatch.setenv("SECRET_OF_MINE", "sk-very-secret")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(yard.folder / "agent.sock"))
    monkeypatch.setenv("DISPLAY", ":0")
    with agent_at(yard.folder / "agent.sock"):
        shown = await asyncio.to_thread(by_openssh, yard, "env")
        # The control: by these lines OpenSSH does send them.
        assert {"SENT_BY_SETTING=yes", "SECRET_OF_MINE=sk-very-secret"} <= set(shown.split())
        assert "SSH_AUTH_SOCK=" in shown
        assert (yard.folder / "ran-here").exists()
        (yard.folder / "ran-here").unlink()
        async with starting(adapter) as start:
            running = await start(yard.spec())
            command = "env; tr '\\0' '\\n' < /proc/$PPID/environ; ls /tmp/ssh-*; who; tty"
            seen = await running.run(command)
            opened = [is_open(ports[name]) for name in ("local", "remote")]
            sent = b"".join(environ(each.pid) for each in server.sessions())
    for word in ("SENT_BY_SETTING", "SECRET_OF_MINE", "sk-very-secret", "DISPLAY", "SSH_AUTH_SOCK"):
        assert word not in seen
        assert word.encode() not in sent
    assert not (yard.folder / "ran-here").exists()
    assert opened == [False, False]


@contextlib.contextmanager
def agent_at(path: Path) -> Iterator[None]:
    """A real SSH agent, without a key."""
    null = subprocess.DEVNULL
    words = ["ssh-agent", "-D", "-a", str(path)]
    with subprocess.Popen(words, stdin=null, stdout=null, stderr=null) as agent:
        while not path.exists():
            time.sleep(0.005)
        try:
            yield
        finally:
            agent.terminate()


def by_openssh(yard: Yard, command: str) -> str:
    """What OpenSSH's own client says."""
    config = home_of(yard) / ".ssh/config"
    known = home_of(yard) / ".ssh/known_hosts"
    words = ["ssh", "-T", "-F", str(config), "-o", f"UserKnownHostsFile={known}", HOST, command]
    done = subprocess.run(words, capture_output=True, check=False, text=True, timeout=60)
    return done.stdout


def environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_code_that_was_changed_on_the_host_is_laid_down_anew(
    yard: Yard, server: SshServer, adapter: SSHEnvironment
) -> None:
    await adapter.end(await adapter.start(yard.spec()))
    place = server.base / f"toolbox-{ssh_talk.code()[0]}"
    (place / "toolbox/server.py").write_text("import sys; sys.exit('evil')\n")
    await adapter.end(await adapter.start(yard.spec()))
    assert "evil" not in (place / "toolbox/server.py").read_text()
    inode = place.stat().st_ino
    await adapter.end(await adapter.start(yard.spec()))
    assert place.stat().st_ino == inode  # laid down once
    left = [each.name for each in server.base.iterdir() if each.name.startswith("laying-")]
    assert len(left) <= 1


async def test_ending_leaves_no_process_and_no_folder(
    yard: Yard, server: SshServer, adapter: SSHEnvironment
) -> None:
    handle = await adapter.start(yard.spec())
    toolbox = await adapter.attach(handle)
    deep = "/".join(["d"] * 300)
    hard = f"mkdir -p {deep}; mkdir closed; touch closed/x; chmod 000 closed; (setsid sleep 300 &)"
    await toolbox.call("1", "execute_command", {"command": hard})
    before = living(yard)
    await toolbox.close()
    await adapter.end(handle)
    assert before
    assert [each for each in before if each.is_alive] == []
    assert server.environments() == []


async def test_a_home_with_a_long_name_has_its_socket_elsewhere(yard: Yard) -> None:
    def prepared(folder: Path) -> str:
        long = folder / ("home-" + "x" * 120)
        long.mkdir(mode=0o755)
        text = (folder / "passwd").read_text()
        (folder / "passwd").write_text(text.replace(f"{folder}/home-root", str(long)))
        return ""

    with serving_ssh(prepared=prepared) as server:
        yard.use(server)
        adapter = SSHEnvironment(yard.station)
        async with starting(adapter) as start:
            running = await start(yard.spec())
            place = Path(running.handle.details["socket"]).parent
            assert place.parent == Path("/tmp")
            assert place.stat().st_mode & 0o777 == 0o700
            assert await running.run("echo hello") == "hello"
        assert not place.exists()


async def test_a_root_user_whose_home_is_closed_has_its_agent_elsewhere(yard: Yard) -> None:
    def prepared(folder: Path) -> str:
        (folder / "home-root").chmod(0o700)
        return "mount -t tmpfs none /var/cache"

    with serving_ssh(prepared=prepared) as server:
        yard.use(server)
        async with starting(SSHEnvironment(yard.station)) as start:
            running = await start(yard.spec())
            assert running.handle.workspace_path.startswith("/var/cache/patchyard/")
            said = await running.run("id -u; touch mine; stat -c %U:%a . ~")
            assert said.splitlines()[0] == "60900"
        assert (yard.workspace / "mine").exists()


async def test_a_pinned_replica_comes_home_when_it_is_held_still_and_at_the_end(
    yard: Yard, adapter: SSHEnvironment
) -> None:
    handle = await adapter.start(yard.spec())
    toolbox = await adapter.attach(handle)
    command = "for i in 1 2 3; do read x <&3; echo $x >> log; done"
    job = {"command": f"touch log; mkfifo -m 666 gate; exec 3<>gate; {command}", "background": True}
    await toolbox.call("job", "execute_command", job)
    there, home = yard.inside(handle), yard.workspace / "log"

    async def say(word: str) -> None:
        await comes_true((there / "gate").exists)
        await asyncio.to_thread((there / "gate").write_text, f"{word}\n")
        await comes_true(lambda: word in (there / "log").read_text())

    await say("one")
    async with held_still(Running(adapter, handle, toolbox)):
        assert home.read_text() == "one\n"
    await say("two")
    await toolbox.call("poll", "job_output", {"job_id": "job"})
    assert home.read_text() == "one\ntwo\n"
    (yard.workspace / "other").write_text("from another kind\n")
    await toolbox.call("read", "read_file", {"path": "other"})
    assert (there / "other").read_text() == "from another kind\n"
    (there / "late").write_text("by a job\n")
    await toolbox.close()
    await adapter.end(handle)
    assert (yard.workspace / "late").read_text() == "by a job\n"


async def test_planning_changes_nothing_at_home(yard: Yard, adapter: SSHEnvironment) -> None:
    (yard.workspace / "file").write_text("as it was\n")
    async with starting(adapter) as start:
        running = await start(yard.spec(is_writable=False))
        refused = await running.toolbox.call("1", "write_file", {"path": "new", "content": "x"})
        assert refused["error"] == "READ_ONLY"
        await running.run("echo changed > file; touch new")  # which an engine refuses to send
        read = await running.toolbox.call("2", "read_file", {"path": "file"})
        async with adapter.frozen(running.handle, running.toolbox) as is_still:
            assert is_still
    assert read["success"]
    assert [each.name for each in yard.workspace.iterdir()] == ["file"]
    assert (yard.workspace / "file").read_text() == "as it was\n"


async def test_paths_are_the_plans_own_in_both_directions(
    yard: Yard, adapter: SSHEnvironment
) -> None:
    (yard.workspace / "sub").mkdir()
    (yard.workspace / "sub/file").write_text("text\n")
    (yard.workspace / "link").symlink_to("/src/shop/sub/file")
    shutil.chown(yard.workspace / "sub", 60_900)
    async with starting(adapter) as start:
        spec = replace(yard.spec(target="/src/shop"), path=("/src/shop/bin",))
        running = await start(spec)
        read = await running.toolbox.call("1", "read_file", {"path": "/src/shop/sub/file"})
        assert read["content"] == "text\n"
        assert await running.run("cat link; cd /src/shop/sub; pwd") == "text\n/src/shop/sub"
        assert (await running.run("echo $PATH")).startswith("/src/shop/bin:")
        await running.run("ln -s $PWD/sub made; ln -s /src/shop2 far")
        args = {"path": "/src/shop/../shop/sub/file"}
        assert (await running.toolbox.call("2", "read_file", args))["success"] is False
        where = await running.toolbox.call(
            "3", "execute_command", {"command": "pwd", "cwd": "/src/shop/sub"}
        )
        assert where["stdout"] == "/src/shop/sub\n"
    assert str((yard.workspace / "made").readlink()) == "/src/shop/sub"
    assert str((yard.workspace / "far").readlink()) == "/src/shop2"
    assert str((yard.workspace / "link").readlink()) == "/src/shop/sub/file"


async def test_localhost_is_this_machine_itself_unless_ssh_is_asked_for(
    yard: Yard, server: SshServer, adapter: SSHEnvironment
) -> None:
    (yard.workspace / "file").write_text("text\n")
    spec = replace(yard.spec(target="/src/shop"), address="localhost")
    async with starting(adapter) as start:
        running = await start(spec)
        assert running.handle.workspace_path == str(yard.workspace)
        assert str(running.handle.kind) == "ssh"
        assert await running.run("cat /src/shop/file; pwd") == "text\n/src/shop"
        seen: list[str] = []
        await running.toolbox.call(
            "1", "execute_command", {"command": "pwd"}, on_output=lambda _, text: seen.append(text)
        )
        assert "".join(seen) == "/src/shop\n"
        async with adapter.frozen(running.handle, running.toolbox) as is_still:
            assert is_still
        again = await adapter.attach(running.handle)
        assert (await again.attach("1") or {})["stdout"] == "/src/shop\n"
        await again.forget(("1",))
        await again.cancel("1")
        await again.close()
        assert server.environments() == []
    text = (home_of(yard) / ".ssh/config").read_text()
    (home_of(yard) / ".ssh/config").write_text(text.replace(f"Host {HOST}", "Host localhost"))
    async with starting(adapter) as start:
        await start(replace(spec, transport="ssh"))
        assert len(server.environments()) == 1


async def test_a_workspace_that_is_gone_breaks_the_environment(
    yard: Yard, adapter: SSHEnvironment
) -> None:
    handle = await adapter.start(yard.spec())
    details = {**handle.details, "source": "/no/such/place"}
    with pytest.raises(EnvironmentBroken, match="the workspace is gone"):
        await adapter.attach(replace(handle, details=details))
    await adapter.end(handle)
