"""Real SSH servers on loopback, with users, keys and homes made up for them alone.

Each runs in a mount namespace of its own, where other users are known than on this machine.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.process import ProcessRef, all_processes, descendants, identify, kill
from services import REAL_ENVIRONMENT, SBIN

__all__ = ["HOST", "SshServer", "free_port", "keys", "serving_ssh", "with_engine"]

HOST = "yonder"  # as the user's OpenSSH configuration names it
START = """
set -e
for place in $(cut -d " " -f 5 /proc/self/mountinfo | grep "^/tmp/"); do
  umount --lazy "$place" 2>/dev/null || :  # disks of other tests, which would be held here for good
done
mount --bind "$1/passwd" /etc/passwd
mount -t tmpfs none /run
mkdir -m 0755 /run/sshd
. "$1/prepare.sh"
exec "$2" -D -e -f "$1/sshd_config"
"""
CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/authorized
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin yes
MaxStartups 100
MaxSessions 100
UseDNS no
AcceptEnv *
PermitUserEnvironment no
"""
ACCOUNTS = """root:x:0:0::{folder}/home-root:/bin/sh
nobody:x:65534:65534::{folder}/home-nobody:/bin/sh
sshd:x:100:65534::/run/sshd:/usr/sbin/nologin
"""
STARTING_S = 60.0
BELOW_EPHEMERAL = (20_000, 32_000)
WITH_US = ("setpriv", "--pdeathsig", "KILL")  # so that a killed run leaves no server


@dataclass(kw_only=True)
class SshServer:
    """A running server, and the home of a user who knows it."""

    folder: Path
    port: int
    user: str
    process: "subprocess.Popen[bytes]"

    @property
    def home_there(self) -> Path:
        """The home of the user who logs in."""
        return self.folder / f"home-{self.user}"

    @property
    def base(self) -> Path:
        """What we keep there."""
        return self.home_there / ".cache/patchyard"

    def environments(self) -> Sequence[str]:
        """The environments that lie there."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(each.name for each in (self.base / "environments").iterdir())
        return []

    def configure(self, home: Path, *more: str, key: str = "host_key.pub") -> None:
        """Write the OpenSSH configuration of a user who knows this server under HOST."""
        ssh = home / ".ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        lines = (
            f"Host {HOST}",
            "  HostName 127.0.0.1",
            f"  Port {self.port}",
            f"  User {self.user}",
            f"  IdentityFile {self.folder}/client_key",
            "  IdentitiesOnly yes",
            *(f"  {line}" for line in more),
        )
        (ssh / "config").write_text("\n".join(lines) + "\n")
        known = (self.folder / key).read_text()
        (ssh / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {known}")

    def sessions(self) -> list[ProcessRef]:
        """The server's processes for connections, without itself."""
        return descendants(self.process.pid, all_processes())

    def cut(self) -> None:
        """Break every connection: who serves it is killed, what runs for it is not."""
        sessions = [each for each in all_processes() if each.parent == self.process.pid]
        for stat in sessions:
            for each in (*descendants(stat.pid, all_processes()), identify(stat.pid)):
                if each is not None and _name(each.pid) == "sshd":
                    kill(each)

    def stop(self) -> None:
        """End the server; nobody can connect any more."""
        self.process.send_signal(signal.SIGSTOP)  # whoever comes back at once is served no more
        self.cut()
        self.process.kill()
        self.process.wait()

    def start(self, *config: str) -> None:
        """Start it again at the same port, with further lines of configuration."""
        with (self.folder / "sshd_config").open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in config)
        self.process = _started(self.folder, self.port)


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def with_engine(_folder: Path) -> str:
    """Have the tests' own container engine where a host has one, if they have one."""
    where = REAL_ENVIRONMENT.get("DOCKER_HOST", "").removeprefix("unix://")
    return f"ln -s {where} /run/docker.sock\n" if where else ""


def free_port() -> int:
    """Choose one that no connection on this machine gets by chance while nobody listens there."""
    while True:
        port = secrets.randbelow(BELOW_EPHEMERAL[1] - BELOW_EPHEMERAL[0]) + BELOW_EPHEMERAL[0]
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def keys(folder: Path, *names: str) -> None:
    """Make key pairs."""
    for name in names:
        place = str(folder / name)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", place]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def _started(folder: Path, port: int) -> "subprocess.Popen[bytes]":
    sshd = shutil.which("sshd", path=SBIN)
    assert sshd is not None
    told = folder / "log"
    with told.open("ab") as log:
        before = log.tell()
        process = subprocess.Popen(
            [*WITH_US, "unshare", "--mount", "sh", "-c", START, "sh", str(folder), sshd],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={"PATH": f"/usr/bin:/bin:{SBIN}"},
        )
    deadline = time.monotonic() + STARTING_S
    # Its own word: a child that an ended server left behind may hold the port a moment longer.
    while f"on 127.0.0.1 port {port}" not in (said := told.read_bytes()[before:].decode()):
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.01)
    return process


@contextlib.contextmanager
def serving_ssh(
    user: str = "root", *config: str, prepared: Callable[[Path], str] | None = None
) -> Iterator[SshServer]:
    """Run a server for one user; each line of `config` goes into its own.

    `prepared` returns what the shell does in its mount namespace first, by the server's folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="sshd-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        keys(folder, "host_key", "other_host_key", "client_key")
        shutil.copyfile(folder / "client_key.pub", folder / "authorized")
        for name, uid in (("root", 0), ("nobody", 65_534)):
            (folder / f"home-{name}").mkdir(mode=0o755)
            os.chown(folder / f"home-{name}", uid, uid)
        (folder / "passwd").write_text(ACCOUNTS.format(folder=folder))
        (folder / "prepare.sh").write_text(prepared(folder) if prepared else "")
        port = free_port()
        lines = CONFIG.format(folder=folder, port=port) + "\n".join(config) + "\n"
        (folder / "sshd_config").write_text(lines)
        server = SshServer(folder=folder, port=port, user=user, process=_started(folder, port))
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
