"""Hosts that cannot be reached, or should not be trusted: refused in time, with the cure."""

import builtins
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environments.yards import Yard, starting
from patchyard.clients import ssh
from patchyard.domain.address import Address
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment, Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.environments import ssh as environment
from patchyard.environments.ssh import SSHEnvironment
from services import python
from sshds import HOST, SshServer, free_port, serving_ssh

pytestmark = [pytest.mark.anyio, pytest.mark.service("sshd")]


async def refused(yard: Yard, **changes: Any) -> EnvironmentUnavailable:
    """The refusal of a start, which has left nothing."""
    spec = replace(yard.spec(), **{"address": HOST, **changes})
    with pytest.raises(EnvironmentUnavailable) as error:
        await SSHEnvironment(yard.station).start(spec)
    assert error.value.exit_code == 4
    assert error.value.hint
    assert list(yard.station.runtime.glob("0*")) == []
    return error.value


def configure(yard: Yard, *lines: str) -> None:
    """Write an OpenSSH configuration for HOST alone."""
    ssh_folder = Path(yard.station.home, ".ssh")
    ssh_folder.mkdir(mode=0o700, exist_ok=True)
    text = "\n".join([f"Host {HOST}", *lines])
    (ssh_folder / "config").write_text(f"{text}\n")


def home_of(yard: Yard) -> Path:
    return Path(yard.station.home)


def forget_hosts(yard: Yard) -> None:
    (home_of(yard) / ".ssh/known_hosts").unlink()


@pytest.fixture
def server(yard: Yard) -> SshServer:
    """One that the yard's user knows."""
    yard.adapter("ssh")
    assert yard.server is not None
    return yard.server


async def test_a_host_that_is_down(yard: Yard) -> None:
    configure(yard, "HostName 127.0.0.1", f"Port {(port := free_port())}")
    error = await refused(yard)
    assert f"{HOST} (port {port}) cannot be reached" in error.message
    assert "Errno" not in error.message
    assert f"`ssh {HOST} true`" in error.hint


async def test_a_port_that_the_address_says_is_in_the_cure(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(EnvironmentUnavailable, match=rf"127\.0\.0\.1 \(port {port}\)") as refused:
        await ssh.connect(f"me@127.0.0.1:{port}", str(tmp_path))
    assert f"`ssh -p {port} me@127.0.0.1 true`" in refused.value.hint


async def test_a_host_that_accepts_and_never_speaks(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "CONNECT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(yard, "HostName 127.0.0.1", f"Port {silent.getsockname()[1]}")
        error = await refused(yard)
    assert "0.3 s" in error.message or "timeout" in error.message.lower()


async def test_a_host_whose_key_nobody_knows(yard: Yard, server: SshServer) -> None:
    forget_hosts(yard)
    error = await refused(yard)
    assert error.message == f"the host key of {HOST} (port {server.port}) is not known"
    assert "compare the fingerprint" in error.hint
    assert server.environments() == []


@pytest.mark.parametrize(
    "lenient",
    ["StrictHostKeyChecking no", "UserKnownHostsFile none", "UserKnownHostsFile /dev/null"],
)
async def test_a_configuration_that_knows_every_host_is_not_followed(
    yard: Yard, server: SshServer, lenient: str
) -> None:
    server.configure(home_of(yard), lenient)
    forget_hosts(yard)
    assert "is not known" in (await refused(yard)).message


async def test_a_host_whose_key_has_changed(yard: Yard, server: SshServer) -> None:
    server.configure(home_of(yard), key="other_host_key.pub")
    error = await refused(yard)
    assert f"the host key of {HOST} (port {server.port}) has changed" in error.message
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in error.hint


@pytest.mark.usefixtures("server")
async def test_a_line_of_known_hosts_that_is_no_entry_counts_for_nothing(yard: Yard) -> None:
    """OpenSSH passes over all of these."""
    lines = (
        *(b"\xff\xfe.example ssh-ed25519 AAAA", b"lonely", b"@unknown a.example ssh-rsa AAAA"),
        *(b"|9|x|y z", b"a.example ssh-ed25519 AAAA\x85b"),
    )
    known = home_of(yard) / ".ssh/known_hosts"
    entry = known.read_bytes()
    known.write_bytes(b"\n".join([*lines, entry]))
    adapter = SSHEnvironment(yard.station)
    await adapter.end(await adapter.start(yard.spec()))
    await ssh.pool().drop(HOST, yard.station.home)
    known.write_bytes(b"\n".join([*lines, b""]))
    assert "is not known" in (await refused(yard)).message


async def test_known_hosts_where_the_configuration_says(yard: Yard, server: SshServer) -> None:
    home = home_of(yard)
    server.configure(home, "UserKnownHostsFile ~/elsewhere")
    (home / ".ssh/known_hosts").rename(home / "elsewhere")
    adapter = SSHEnvironment(yard.station)
    await adapter.end(await adapter.start(yard.spec()))


async def test_a_host_that_lets_nobody_in(yard: Yard, server: SshServer) -> None:
    (server.folder / "authorized").rename(server.folder / "kept")
    try:
        error = await refused(yard)
    finally:
        (server.folder / "kept").rename(server.folder / "authorized")
    assert f"{HOST} (port {server.port}) refused every way in" in error.message
    assert "key" in error.hint


async def test_a_configuration_that_cannot_be_read_is_named_with_its_line(yard: Yard) -> None:
    configure(yard, "Port many")
    with pytest.raises(UsageError, match=r"config line 2"):
        await SSHEnvironment(yard.station).start(replace(yard.spec(), address=HOST))


def python_there(folder: Path, text: str) -> str:
    """A server's setting by which `python3` there is this program."""
    (folder / "bin").mkdir()
    (folder / "bin/python3").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "bin/python3").chmod(0o755)
    return f"SetEnv PATH={folder}/bin:/usr/bin:/bin"


@pytest.fixture
def public(yard: Yard) -> Path:
    folder = yard.folder / "public"
    folder.mkdir()
    folder.chmod(0o755)
    return folder


async def test_a_host_without_python(yard: Yard) -> None:
    with serving_ssh("root", "SetEnv PATH=/nonexistent") as bare:
        yard.use(bare)
        error = await refused(yard)
    assert f"python3 does not run on {HOST}" in error.message
    assert "install Python 3.8 or newer there" in error.hint


async def test_a_host_whose_python_is_too_old(yard: Yard, public: Path) -> None:
    # The guard's own words, with a bound that no Python reaches yet.
    newer = 'for word; do shift; set -- "$@" "$(printf %s "$word" | sed s/3,8/99,0/)"; done'
    setting = python_there(public, f'{newer}\nexec /usr/bin/python3 "$@"')
    with serving_ssh("root", setting) as old:
        yard.use(old)
        error = await refused(yard)
    assert error.message == f"python3 on {HOST} is older than 3.8"


def of_interpreter(program: str) -> Path:
    """The folder that holds all of a Python."""
    return Path(os.path.realpath(program)).parents[1]


@pytest.mark.service("python3.8")
async def test_the_oldest_python_that_will_do_does(yard: Yard) -> None:
    oldest = python("3.8")
    assert oldest is not None
    prefix = of_interpreter(oldest)

    def prepared(folder: Path) -> str:
        """It may lie in a home that is closed to others."""
        (folder / "python").mkdir()
        return f"mount --bind {prefix} {folder}/python"

    with serving_ssh("root", prepared=prepared) as server:
        yard.use(server)
        (server.folder / "bin").mkdir()
        program = server.folder / "bin/python3"
        place = f"{server.folder}/python"  # its library too is looked for in the home else
        words = f'LD_LIBRARY_PATH={place}/lib exec {place}/bin/python3.8 "$@"'
        program.write_text(f"#!/bin/sh\n{words}\n")
        program.chmod(0o755)
        server.stop()
        server.start(f"SetEnv PATH={server.folder}/bin:/bin")
        async with starting(SSHEnvironment(yard.station)) as start:
            running = await start(yard.spec())
            said = await running.run("python3 --version; echo written > file; ls -a")
            assert said.splitlines()[0].startswith("Python 3.8")
        assert (yard.workspace / "file").read_text() == "written\n"


async def test_a_host_that_runs_no_commands(yard: Yard) -> None:
    with serving_ssh("root", "ForceCommand echo no >&2; exit 3") as closed:
        yard.use(closed)
        error = await refused(yard)
    assert f"commands do not run on {HOST}: no" in error.message


async def test_a_folder_of_somebody_elses_is_not_used(yard: Yard) -> None:
    with serving_ssh("root") as server:
        yard.use(server)
        server.base.mkdir(parents=True)
        os.chown(server.base, 61_000, 61_000)
        error = await refused(yard)
    assert "belongs to another user" in error.message


async def test_a_toolbox_that_does_not_start_says_why(
    yard: Yard, server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "import sys; sys.exit('no such thing: ' + sys.argv[1][:1])"
    monkeypatch.setattr(environment, "BOOTSTRAP", broken)
    error = await refused(yard)
    assert "the toolbox did not start: no such thing: /" in error.message
    assert server.environments() == []


async def test_no_host_is_named(yard: Yard) -> None:
    error = await refused(yard, address="")
    assert "needs a host" in error.message
    assert "agents resource add ssh-host" in error.hint


async def test_check_says_what_is_needed(yard: Yard) -> None:
    readiness = await SSHEnvironment(yard.station).check()
    assert (readiness.is_ready, readiness.cause) == (False, "it needs a host to reach")
    assert "agents resource add ssh-host" in readiness.cure
    assert "Python 3.8" in readiness.cure


async def test_without_its_library_the_extra_is_named(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def lacking(name: str, *args: Any, **options: Any) -> Any:
        if name == "asyncssh":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", lacking)
    monkeypatch.delitem(sys.modules, "asyncssh", raising=False)
    readiness = await SSHEnvironment(yard.station).check()
    assert readiness.cure == "in Patchyard's clone: pip install '.[ssh]'"
    assert "not installed" in (await refused(yard)).message


async def test_places_of_this_machine_cannot_be_shown_there(yard: Yard, server: SshServer) -> None:
    adapter = SSHEnvironment(replace(yard.station, private=(str(yard.folder / "home"),)))
    own = Mount(source=f"{yard.folder}/home/objects", target=f"{yard.folder}/home/objects")
    await adapter.end(await adapter.start(yard.spec(own)))
    with pytest.raises(EnvironmentUnavailable, match="cannot show /etc") as error:
        await adapter.start(yard.spec(own, Mount(source="/etc", target="/etc")))
    assert "--in process" in error.value.hint
    assert server.environments() == []


async def test_ending_on_a_host_that_is_away_is_for_later(yard: Yard) -> None:
    adapter = SSHEnvironment(yard.station)
    with serving_ssh("root") as server:
        yard.use(server)
        handle = await adapter.start(yard.spec())
        server.stop()
        with pytest.raises(EnvironmentBroken, match="cannot be ended") as broken:
            await adapter.end(handle)
        assert broken.value.hint
        assert (yard.station.runtime / handle.environment_id).is_dir()
        with pytest.raises(EnvironmentUnavailable):
            await adapter.attach(handle)
        server.start()
        await adapter.end(handle)
        assert server.environments() == []


async def test_what_was_noted_before_any_host_was_asked_only_goes(yard: Yard) -> None:
    name = yard.station.new_id()
    handle = EnvironmentHandle(
        environment_id=name, kind=ExecutionEnvironment.SSH, workspace_path="", details={}
    )
    yard.station.prepare()
    (yard.station.runtime / name).mkdir()
    await SSHEnvironment(yard.station).end(handle)
    assert list(yard.station.runtime.glob("0*")) == []


@pytest.mark.parametrize(
    ("text", "host", "user", "port"),
    [
        ("build", "build", "", 0),
        ("me@build:2222", "build", "me", 2222),
        ("me@[::1]:22", "::1", "me", 22),
        (" 10.0.0.1 ", "10.0.0.1", "", 0),
    ],
)
def test_an_address_says_host_user_and_port(text: str, host: str, user: str, port: int) -> None:
    assert Address.parse(text) == Address(host=host, user=user, port=port)


@pytest.mark.parametrize(
    "text", ["", "-oProxyCommand=evil", "a b", "host:99999", "host:", "a/b", "me@", "me@-x", "[x"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["host:0", "me@host:000", "host:٣", "host:99999"])
def test_a_port_that_is_typed_is_one(text: str) -> None:
    with pytest.raises(UsageError, match="no address") as refused:
        Address.typed(text)
    assert "from 1 to 65535" in refused.value.hint
    assert (Address.typed("me@host:22").port, Address.typed("[::1]").port) == (22, 0)
