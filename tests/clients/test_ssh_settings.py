"""Each option of ssh_config(5) with what OpenSSH allows: read as that, or refused by its name."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchyard.clients import ssh
from patchyard.domain.errors import EnvironmentUnavailable, UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.service("sshd")]

ALLOWED = """
AddKeysToAgent confirm 1h
AddressFamily any | inet
BatchMode yes
BindAddress 127.0.0.1
BindInterface lo
CanonicalDomains example.org example.net
CanonicalDomains none
CanonicalizeFallbackLocal no
CanonicalizeHostname yes | no | always
CanonicalizeMaxDots 2
CanonicalizePermittedCNAMEs *.a.example:*.b.example
CanonicalizePermittedCNAMEs none
CASignatureAlgorithms -ssh-rsa
CertificateFile ~/.ssh/nowhere-cert.pub | none
CheckHostIP no
Ciphers +aes128-cbc | -*cbc* | ^aes256-ctr | aes128-gcm@openssh.com
ClearAllForwardings yes
Compression yes | no
ConnectionAttempts 3
ConnectTimeout none | 10 | 1m | 1h30m | 2d
ControlMaster auto
ControlPath ~/.ssh/%C | none
ControlPersist 10m
DynamicForward 1080
EnableEscapeCommandline yes
EnableSSHKeysign no
EscapeChar none
ExitOnForwardFailure yes
FingerprintHash sha256
ForkAfterAuthentication no
ForwardAgent yes | no | $SSH_AUTH_SOCK | ~/agent
ForwardX11 yes
ForwardX11Timeout 20m
ForwardX11Trusted yes
GatewayPorts no
GlobalKnownHostsFile /dev/null | none
GSSAPIAuthentication yes
GSSAPIDelegateCredentials yes
HashKnownHosts yes
HostbasedAcceptedAlgorithms +ssh-rsa
HostbasedAuthentication no
HostKeyAlgorithms +ssh-rsa | ^ssh-ed25519 | sk-ssh-ed25519@openssh.com,ssh-ed25519
HostKeyAlias other
IdentitiesOnly yes
IdentityAgent none | SSH_AUTH_SOCK | $SSH_AUTH_SOCK | %d/agent
IdentityFile none | ~/.ssh/nowhere | "~/.ssh/a key" | %d/.ssh/%h-%p-%r-%n-%L-%l-%u-%i-%C
IgnoreUnknown NoSuch*
Include nowhere/*
IPQoS lowdelay throughput | none
KbdInteractiveAuthentication no
KbdInteractiveDevices pam
KexAlgorithms ^curve25519-sha256 | sntrup761x25519-sha512@openssh.com,curve25519-sha256
KnownHostsCommand none
LocalCommand echo "it is"
LocalForward 8080 localhost:80
LogLevel QUIET
LogVerbose kex.c:*:1000
MACs -hmac-sha1* | umac-64@openssh.com
NoHostAuthenticationForLocalhost no
NumberOfPasswordPrompts 1
PasswordAuthentication no
PermitLocalCommand yes
PermitRemoteOpen any
PKCS11Provider none
Port 22 | ssh
PreferredAuthentications publickey,hostbased
ProxyCommand none
ProxyJump none
ProxyUseFdpass no
PubkeyAcceptedAlgorithms +ssh-rsa
PubkeyAuthentication yes | no | unbound | host-bound
RekeyLimit default | default none | 1G | 512M 1h | 0 | default 0
RemoteCommand none
RemoteForward 9000 localhost:9000
RequestTTY no | yes | force | auto
RequiredRSASize 2048
RevokedHostKeys none
SecurityKeyProvider internal
SendEnv LANG LC_* | -LC_*
ServerAliveCountMax 3
ServerAliveInterval 0 | 15 | 1m
SessionType none
SetEnv A=b C="d e"
StdinNull no
StreamLocalBindMask 0177
StreamLocalBindUnlink yes
StrictHostKeyChecking accept-new
SyslogFacility USER
TCPKeepAlive no
Tunnel no
TunnelDevice any:any
UpdateHostKeys ask
User me
UserKnownHostsFile none | ~/.ssh/known_hosts /dev/null
VerifyHostKeyDNS ask
VisualHostKey no
XAuthLocation /usr/bin/xauth
Host * !bad "b c"
Match all
Match host 127.* user me,you exec "true"
Match originalhost h localuser *
"""
"""Values of one option are parted by ` | `."""
LINES = [
    *(
        f"{row.split(maxsplit=1)[0]} {value}"
        for row in ALLOWED.strip().splitlines()
        for value in row.split(maxsplit=1)[1].split(" | ")
    ),
    *("Compression=yes", "Compression = yes  # as Bob's page has it", "\tCompression\tyes"),
]
WRONG = {
    "ConnectTimeout soon": "line 3: ConnectTimeout cannot be 'soon': write a time like 30, 1m",
    "IdentityFile ~/.ssh/%k": "line 3: IdentityFile: Invalid token expansion: k",
    "IdentityFile ${NOT_THERE}": "line 3: IdentityFile: Invalid environment expansion: NOT_THERE",
    "Compression sometimes": "line 3: Invalid Compression boolean value: sometimes",
    "Compression": "line 3: Compression has no value",
    'IdentityFile "half': "line 3: IdentityFile has a quote without an end",
    "Match version OpenSSH_9": "line 3: Invalid match condition version",
    'Match exec "test a = a"': "line 3: Match with = in a command cannot be read",
    "Port nowhere": "line 3: Port cannot be 'nowhere': write a number from 1 to 65535",
    "ServerAliveInterval -1": "line 3: ServerAliveInterval cannot be '-1': write a time",
    "User none": "line 3: User cannot be none",
    "Include config": "is included by too many files",
}


@pytest.fixture(scope="module")
def closed_port() -> Iterator[int]:
    """A port that no process listens at, and that no other test gets."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def configured(home: Path, port: int, *lines: str) -> Path:
    """The user's configuration, where `h` is at that port and then these lines count."""
    place = home / ".ssh/config"
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.write_text("\n".join(["HostName 127.0.0.1", f"Port {port}", *lines, ""]))
    return place


async def test_what_openssh_allows_is_read(tmp_path: Path, closed_port: int) -> None:
    said = {}
    for line in LINES:
        configured(tmp_path, closed_port, line)
        with pytest.raises((EnvironmentUnavailable, UsageError)) as refused:
            await ssh.connect("h", str(tmp_path))
        said[line] = refused.value.message
    odd = {line: why for line, why in said.items() if "Connect call failed" not in why}
    assert odd == {}


def test_openssh_allows_what_the_table_says(tmp_path: Path, closed_port: int) -> None:
    for line in LINES:
        place = configured(tmp_path, closed_port, line)
        command = ["ssh", "-G", "-F", str(place), "h"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", WRONG)
async def test_what_cannot_be_read_is_named_with_its_file_line_and_option(
    line: str, tmp_path: Path, closed_port: int
) -> None:
    place = configured(tmp_path, closed_port, line)
    with pytest.raises(UsageError) as refused:
        await ssh.connect("h", str(tmp_path))
    assert WRONG[line] in refused.value.message
    assert str(place) in refused.value.message
    assert refused.value.exit_code == 2
    assert refused.value.hint


async def test_a_file_that_is_included_is_read_the_same_way_and_named(
    tmp_path: Path, closed_port: int
) -> None:
    configured(tmp_path, closed_port, "Include more/*.conf ~/.ssh/other")
    more = tmp_path / ".ssh/more"
    more.mkdir()
    (more / "a.conf").write_text("ConnectTimeout none\n")
    (tmp_path / ".ssh/other").write_text("# of the other\nConnectTimeout never\n")
    with pytest.raises(UsageError) as refused:
        await ssh.connect("h", str(tmp_path))
    assert f"{tmp_path}/.ssh/other line 2: ConnectTimeout" in refused.value.message


@pytest.mark.parametrize("pattern", ["more/*", "more/**", '""', ".", "/"])
async def test_a_pattern_includes_what_it_does_for_openssh(
    pattern: str, tmp_path: Path, closed_port: int
) -> None:
    place = configured(tmp_path, closed_port, f"Include {pattern}")
    (tmp_path / ".ssh/more/deeper").mkdir(parents=True)
    for name in (".a.conf.swp", "deeper/b.conf"):
        (tmp_path / ".ssh/more" / name).write_text("ConnectTimeout never\n")
    command = ["ssh", "-G", "-F", str(place), "h"]
    done = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True)
    assert b"ConnectTimeout" not in done.stderr
    with pytest.raises(EnvironmentUnavailable, match="Connect call failed"):
        await ssh.connect("h", str(tmp_path))


async def test_a_key_of_a_user_that_there_is_not_is_passed_over(
    tmp_path: Path, closed_port: int
) -> None:
    configured(tmp_path, closed_port, "IdentityFile ~no-such-user/key")
    with pytest.raises(EnvironmentUnavailable, match="Connect call failed"):
        await ssh.connect("h", str(tmp_path))


async def test_a_file_that_nobody_may_read_is_named(tmp_path: Path, closed_port: int) -> None:
    configured(tmp_path, closed_port, "Include loop")
    (tmp_path / ".ssh/loop").symlink_to("/proc/self/mem")
    with pytest.raises(UsageError, match="/loop cannot be read: ") as refused:
        await ssh.connect("h", str(tmp_path))
    assert refused.value.hint


async def test_a_shorter_time_to_connect_counts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configured(tmp_path, silent.getsockname()[1], "ConnectTimeout 1s")
        with pytest.raises(EnvironmentUnavailable, match="did not answer within 1 s"):
            await ssh.connect("h", str(tmp_path))


async def test_a_command_of_a_proxy_may_stand_behind_an_equals_sign(
    tmp_path: Path, closed_port: int
) -> None:
    configured(tmp_path, closed_port, f"ProxyCommand = touch {tmp_path}/%h-%p")
    with pytest.raises(ssh.Cut):
        await ssh.connect("h", str(tmp_path))
    assert (tmp_path / f"127.0.0.1-{closed_port}").exists()


@pytest.mark.parametrize("name", ["folder", "x" * 300], ids=["folder", "too long"])
async def test_a_key_that_cannot_be_read_is_passed_over(
    name: str, tmp_path: Path, closed_port: int
) -> None:
    configured(tmp_path, closed_port, f"IdentityFile {tmp_path}/{name}")
    (tmp_path / "folder").mkdir()
    with pytest.raises(EnvironmentUnavailable, match="Connect call failed"):
        await ssh.connect("h", str(tmp_path))
