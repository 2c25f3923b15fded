"""A host over SSH that carries walls: what is not seen of it, and what is refused there."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environments.yards import CARRIED, Adapter, Start, Yard, living, marks_of
from images import WITH_PYTHON, bare_image, image
from patchyard.clients import far_claims, far_containers, far_walls
from patchyard.clients.as_asked import require_as_asked
from patchyard.clients.containers import LABEL, Confined, confined
from patchyard.clients.docker import connected, engine_socket
from patchyard.clients.process import ProcessRef, wait_ended
from patchyard.domain.address import Address
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.environments import ssh
from patchyard.environments.ssh import SSHEnvironment
from sshds import SshServer, serving_ssh, with_engine
from timing import promised

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap"), pytest.mark.service("sshd")]

YONDER = Address.parse("me@yonder:2222")
USERS = [pytest.param(kind, marks=marks_of(kind)) for kind in CARRIED]


@pytest.fixture(params=USERS)
def adapter(request: pytest.FixtureRequest, yard: Yard) -> Adapter:
    return yard.adapter(request.param)


async def test_nothing_of_the_host_is_seen(start: Start, yard: Yard) -> None:
    assert yard.server is not None
    secret = yard.server.home_there / "secret"
    secret.write_text("of the host\n")
    secret.chmod(0o644)
    running = await start(yard.spec())
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0patchyard-{os.getpid()}")
        abstract.listen()
        connect = f"""
import socket
for family, where in ((socket.AF_INET, ("127.0.0.1", {yard.server.port})),
                      (socket.AF_UNIX, "\\0patchyard-{os.getpid()}")):
    try:
        socket.socket(family, socket.SOCK_STREAM).connect(where)
        print("through")
    except OSError as error:
        print(type(error).__name__)
"""
        assert await running.python(connect) == "ConnectionRefusedError\nConnectionRefusedError"
    assert "No such file" in await running.run(f"cat {secret}")
    assert await running.run(f"ls {yard.server.folder}; ls -A /root /var/cache /run") != ""
    assert "home-" not in await running.run("ls -A /tmp /home /root; cat /proc/mounts")
    seen = (await running.run("ls -d /proc/[0-9]*")).split()
    assert seen[0] == "/proc/1"
    assert len(seen) < 6
    assert await running.run("cat /sys/class/net/*/address; hostname") != ""
    assert await running.run("cat < /dev/tcp/1.1.1.1/80") != ""
    names = "CapInh CapPrm CapEff CapBnd CapAmb"
    status = await running.run("cat /proc/self/status")
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {facts[name] for name in names.split()} == {"0" * 16}
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    assert facts["Uid"].split()[0] != "0"


async def test_other_users_of_the_host_read_nothing_of_it(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    place = yard.inside(running.handle)
    words = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "ls", str(place)]
    looked = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
    assert (looked.returncode, "Permission denied" in looked.stderr) == (2, True)


async def test_planning_reads_what_the_engine_changes_and_writes_nowhere(
    start: Start, yard: Yard
) -> None:
    (yard.workspace / "file").write_text("one\n")
    running = await start(yard.spec(is_writable=False))
    assert await running.run("cat file") == "one"
    assert "Read-only file system" in await running.run("echo two > file")
    assert "Read-only file system" in await running.run("touch new; chmod 700 .")
    (yard.workspace / "file").write_text("changed at home\n")
    assert await running.run("cat file") == "changed at home"
    tries = (
        f"ls {far_walls.REPLICA}",
        f"chmod 777 {far_walls.CLOSED}",
        f"cd {far_walls.CLOSED}/..; ls closed",
        "ls /proc/1/fd /proc/1/root",
        "for n in $(seq 3 20); do ls /proc/self/fd/$n/; done; false",
    )
    for command in tries:
        result = await running.result(command)
        assert result["exit_code"] != 0, command
        assert "changed at home" not in result["stdout"]
    assert "file" not in (await running.result(tries[0]))["stdout"]
    assert (yard.workspace / "file").read_text() == "changed at home\n"
    assert yard.inside(running.handle).joinpath("new").exists() is False


async def test_what_an_engine_left_that_never_knew_its_process_is_ended(
    adapter: Adapter, yard: Yard
) -> None:
    handle = await adapter.start(yard.spec())
    toolbox = await adapter.attach(handle)
    await toolbox.call("1", "execute_command", {"command": "(setsid sleep 300 &)"})
    await toolbox.close()
    before = living(yard)
    left = {name: value for name, value in handle.details.items() if name not in {"root", "socket"}}
    await adapter.end(replace(handle, details=left))
    assert before
    assert [each for each in before if each.is_alive] == []


async def test_a_sandbox_outlives_its_connections(
    start: Start, yard: Yard, adapter: Adapter
) -> None:
    running = await start(yard.spec())
    assert yard.server is not None
    yard.server.cut()
    assert await running.run("echo still; ls -d /proc/1") == "still\n/proc/1"
    details = running.handle.details["root"]
    await adapter.end(running.handle)
    assert wait_ended(
        ProcessRef(pid=details["pid"], started=details["started"]), timeout_s=promised(3)
    )


def in_place_of_bubblewrap(script: str) -> Callable[[Path], str]:
    """Have another program lie where that host has bubblewrap; the real one is called `real`."""

    def prepared(folder: Path) -> str:
        shutil.copy("/usr/bin/bwrap", folder / "real")
        fake = folder / "fake"
        fake.write_text(f"#!/bin/sh\n{script.format(real=folder / 'real')}\n")
        fake.chmod(0o755 if script else 0o644)
        return f"mount --bind {fake} /usr/bin/bwrap\n"

    return prepared


@contextmanager
def host_with(yard: Yard, script: str, user: str = "root") -> Iterator[SshServer]:
    with ExitStack() as stack:
        made = stack.enter_context(serving_ssh(user, prepared=in_place_of_bubblewrap(script)))
        yard.use(made)
        yard.carries = ExecutionEnvironment.PROCESS
        yield made


NO_RIGHT = """
case "$1" in --version) exec {real} --version;; esac
echo "bwrap: No permissions to create new namespace" >&2
exit 1
"""
OPEN_NET = """
case "$1" in --version) exec {real} --version;; esac
for word; do shift; [ "$word" = --unshare-net ] || set -- "$@" "$word"; done
exec {real} "$@"
"""


@pytest.mark.parametrize(
    ("script", "cause", "cure"),
    [
        ("", "bubblewrap is not installed", "apt install bubblewrap"),
        ("echo bubblewrap 0.4.1", "bubblewrap 0.4 at /usr/bin/bwrap is too old", "0.5 or newer"),
        (
            NO_RIGHT,
            "No permissions to create new namespace",
            "on that host",
        ),
        (OPEN_NET, "less walls than asked: net namespace", "what keeps bubblewrap"),
    ],
)
async def test_a_host_that_cannot_wall_is_refused_and_nothing_runs_bare(
    yard: Yard, script: str, cause: str, cure: str
) -> None:
    with host_with(yard, script) as server:
        with pytest.raises(EnvironmentUnavailable) as refused:
            await SSHEnvironment(yard.station).start(yard.spec())
        assert cause in refused.value.message
        assert cure in refused.value.hint
        assert server.environments() == []
        assert living(yard) == []


async def test_localhost_carries_nothing(yard: Yard) -> None:
    spec = replace(yard.spec(), address="localhost", carries=ExecutionEnvironment.PROCESS)
    with pytest.raises(UsageError, match="carries nothing"):
        await SSHEnvironment(yard.station).start(spec)


FACTS: Mapping[str, object] = {
    "machine": os.uname().machine,
    "bubblewrap": ["/usr/bin/bwrap", "bubblewrap 0.8.0"],
    "python": ["/usr/bin/python3.11", "/usr/bin/python3", "/usr"],
    "ids": [1000, 1000],
    "agent": None,
    "texts": {},
    "present": [],
    "code": "/base/toolbox-1",
    "folder": "/base/environments/1",
    "survey": {"system": [], "etc": [], "masked": [], "shell": "/bin/sh"},
}


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({"machine": "pdp11"}, "it is pdp11"),
        ({"python": ["", "/home/me/py/bin/python3", "/home/me/py"]}, "/home/me/py, which is not"),
        ({"survey": {"system": [["/usr", "writable?", "/usr"]]}}, "what cannot be"),
        ({"survey": {"system": [["/usr", "read-only", 7]]}}, "what cannot be"),
        ({"ids": None}, "what cannot be"),
        ({"ids": [float("inf"), 0]}, "what cannot be"),
        ({"texts": None}, "what cannot be"),
    ],
)
def test_what_a_host_says_of_itself_is_a_claim(said: Mapping[str, object], cause: str) -> None:
    assert far_walls.far_host(YONDER, FACTS).identity.uid == 1000
    with pytest.raises(EnvironmentUnavailable, match=cause) as refused:
        far_walls.far_host(YONDER, {**FACTS, **said})
    if cause == "what cannot be":
        assert refused.value.hint == "look there: `ssh -p 2222 me@yonder`"
    assert refused.value.hint


STARTED: Mapping[str, Any] = {
    "boot": "1-2",
    "root": {"pid": 7, "started": 8, "more": "x" * 70_000},
    "socket": "/base/run/toolbox.sock",
    "workspace": "/base/workspace",
}


@pytest.mark.parametrize(
    "lie",
    [
        {"boot": None},
        {"root": {"pid": "7", "started": 8}},
        {"root": [7, 8]},
        {"socket": "/" + "x" * 70_000},
        {"workspace": "/base/../etc"},
        {"workspace": "base"},
        {"workspace": "/"},
    ],
    ids=["boot", "root", "root's shape", "length", "climbing", "relative", "all"],
)
def test_where_a_toolbox_is_said_to_be_is_a_claim(lie: Mapping[str, Any]) -> None:
    kept = {name: STARTED["root"][name] for name in ("pid", "started")}
    assert far_claims.checked_start(STARTED) == {**STARTED, "root": kept}
    with pytest.raises(EnvironmentBroken, match="claims what cannot be"):
        far_claims.checked_start({**STARTED, **lie})


@pytest.mark.parametrize("made", [{**STARTED, "root": None}, None], ids=["a lie", "a shape"])
async def test_an_answer_that_cannot_be_ends_the_start_and_nothing_is_left(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    async def answered(*_: object) -> Any:
        return made

    monkeypatch.setattr(ssh, "_made", answered)
    with serving_ssh() as server:
        yard.use(server)
        with pytest.raises(EnvironmentUnavailable, match="what cannot be"):
            await SSHEnvironment(yard.station).start(yard.spec())
    assert list(yard.station.runtime.iterdir()) == []


@pytest.mark.service("docker")
@pytest.mark.parametrize(
    ("prepared", "named", "cause", "cure"),
    [
        (None, "", "no container engine runs there", "systemctl start docker"),
        (with_engine, "no-such-image:1", "there is no image 'no-such-image:1'", "docker pull no-"),
    ],
)
async def test_a_host_that_cannot_contain_is_refused_and_nothing_runs_bare(
    yard: Yard, prepared: Callable[[Path], str] | None, named: str, cause: str, cure: str
) -> None:
    with serving_ssh(prepared=prepared) as server:
        yard.use(server)
        spec = replace(yard.spec(), carries=ExecutionEnvironment.CONTAINER, image=named or "x")
        with pytest.raises(EnvironmentUnavailable) as refused:
            await SSHEnvironment(yard.station).start(spec)
        assert cause in refused.value.message
        assert cure in refused.value.hint
        assert server.environments() == []


@pytest.mark.service("docker")
async def test_a_container_that_is_weaker_than_asked_is_taken_away_before_it_runs(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:

    def weak(*words: Any, **more: Any) -> Confined:
        asked = confined(*words, **more)
        weaker = {**asked.host, "ReadonlyRootfs": False}
        sent.append(asked)
        return replace(asked, config={**asked.config, "HostConfig": weaker})

    sent: list[Confined] = []
    monkeypatch.setattr(far_containers, "confined", weak)
    monkeypatch.setattr(ssh, "require_as_asked", lambda made, _: require_as_asked(made, sent[0]))
    adapter = yard.adapter("ssh-container")
    with pytest.raises(EnvironmentUnavailable, match="weaker container than asked: Readonly"):
        await adapter.start(yard.spec())
    async with connected(engine_socket(os.environ)) as engine:
        assert await engine.inspect(f"patchyard-{sent[0].config['Labels'][LABEL]}") is None


@pytest.mark.service("docker")
async def test_a_container_without_a_shell_is_refused(yard: Yard) -> None:
    adapter = yard.adapter("ssh-container")
    yard.image = bare_image({})
    with pytest.raises(EnvironmentUnavailable, match="no shell"):
        await adapter.start(yard.spec())


@pytest.mark.service("docker")
async def test_a_container_whose_engine_is_away_is_ended_later(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_ssh(prepared=with_engine) as server:
        yard.use(server)
        yard.carries, yard.image = ExecutionEnvironment.CONTAINER, image(WITH_PYTHON)
        adapter = SSHEnvironment(yard.station)
        handle = await adapter.start(yard.spec())
        places = vars(ssh)["PLACES"]  # as it came there
        monkeypatch.setattr(ssh, "PLACES", ("/no/such/engine",))
        with pytest.raises(EnvironmentBroken, match="no container engine"):
            await adapter.end(handle)
        monkeypatch.setattr(ssh, "PLACES", places)
        await adapter.end(handle)
        assert server.environments() == []


ENGINE: Mapping[str, object] = {
    **{name: FACTS[name] for name in ("machine", "ids", "agent", "code", "folder")},
    "engine": "/run/docker.sock",
    "version": {"Components": [{"Name": "Podman Engine"}]},
    "info": {"CgroupDriver": "systemd"},
    "image": {"Id": "sha256:1"},
    "python": {
        "folder": "/base/python-1",
        "facts": {"library": "/usr/lib/python3", "below": "lib/python3", "loader": "ld-1"},
    },
    "processors": 2,
}


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({"machine": "pdp11"}, "it is pdp11"),
        ({"image": {"Architecture": "pdp11"}}, "is for linux/pdp11"),
        ({"info": {"CgroupDriver": "none"}}, "Cgroup Driver: none"),
        ({"info": "nonsense"}, "what cannot be"),
        ({"python": {}}, "what cannot be"),
        ({"processors": "many"}, "what cannot be"),
    ],
)
def test_what_an_engine_says_of_itself_is_a_claim(said: Mapping[str, object], cause: str) -> None:
    assert far_containers.far_engine(YONDER, ENGINE, "i").is_podman
    with pytest.raises(EnvironmentUnavailable, match=cause) as refused:
        far_containers.far_engine(YONDER, {**ENGINE, **said}, "i")
    assert refused.value.hint


def test_what_failed_in_a_container_is_named() -> None:
    host = far_containers.far_engine(YONDER, ENGINE, "i")
    made = {"failed": "an answer", "said": "no such program"}
    with pytest.raises(
        EnvironmentUnavailable, match="an answer missing: no such program"
    ) as refused:
        far_containers.refuse_unstarted(host, made)
    assert refused.value.hint.endswith("engine there: `ssh -p 2222 me@yonder`")
