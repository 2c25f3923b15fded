"""What is the container kind's own: its walls, its images, an engine that is not there."""

import asyncio
import copy
import os
import shutil
import socket
import stat
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environments.kernels import STATUS, proc_of
from environments.yards import Adapter, Start, Yard, living
from images import BUSYBOX, WITHOUT_PYTHON, bare_image, image
from patchyard.clients import docker
from patchyard.clients.as_asked import DEFAULT_CAPABILITIES, require_as_asked, require_walled
from patchyard.clients.carried import CarriedPython
from patchyard.clients.containers import Confined, Equipped, confined
from patchyard.clients.docker import connected, engine_socket
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.process import wait_ended
from patchyard.domain.environment import EnvironmentSpec, Limits, Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.environments.container import ContainerEnvironment
from patchyard.toolbox import walled
from timing import promised

pytestmark = [pytest.mark.anyio]
needs_engine = pytest.mark.service("docker")
IDENTITY = AgentIdentity(uid=60900, gid=60900, is_switched=True)
EQUIPPED = Equipped(
    toolbox="/t/toolbox",
    python=CarriedPython(folder="/t/py", library="/lib/py", below="lib/python3", loader="ld-x.so"),
    passing="/t/handing.sock",
    etc={"passwd": "/t/passwd"},
)
SPEC = EnvironmentSpec(
    plan_id="01JPLAN",
    purpose="execute",
    image="it",
    workspace=Mount(source="/plans/1/root", target="/home/ada/shop", is_writable=True),
)


@pytest.fixture
def adapter(yard: Yard) -> Adapter:
    return yard.adapter("container")


def asked(spec: EnvironmentSpec = SPEC, **of_image: Any) -> Confined:
    return confined(
        spec,
        IDENTITY,
        image={"Id": "sha256:1", "Config": of_image},
        environment_id="01JENV",
        equipped=EQUIPPED,
    )


LIMITED = replace(
    SPEC, runtime="runsc", limits=Limits(cpus=0.5, open_files=64, temporary_bytes=1 << 20)
)


def made(config: Confined) -> dict[str, Any]:
    """What an engine shows of a container that it made as asked."""
    shown = [
        {"Source": m["Source"], "Destination": m["Target"], "RW": not m["ReadOnly"]}
        for m in config.host["Mounts"]
    ]
    host = copy.deepcopy(dict(config.host))
    return {"Config": {"User": config.config["User"]}, "HostConfig": host, "Mounts": shown}


def test_a_container_as_asked_is_taken() -> None:
    require_as_asked(made(asked()), asked())


WEAKER: dict[str, tuple[str, Any]] = {
    "all rights": ("Privileged", True),
    "a capability": ("CapAdd", ["SYS_ADMIN"]),
    "some dropped": ("CapDrop", ["NET_RAW"]),
    "a device": ("Devices", [{"PathOnHost": "/dev/kvm"}]),
    "the host's network": ("NetworkMode", "host"),
    "the host's processes": ("PidMode", "host"),
    "the host's memory": ("IpcMode", "host"),
    "the host's users": ("UsernsMode", "host"),
    "a root that can be written": ("ReadonlyRootfs", False),
    "new privileges": ("SecurityOpt", []),
    "no filter": ("SecurityOpt", ["no-new-privileges:true", "seccomp=unconfined"]),
    "no bound of memory": ("Memory", 0),
    "no bound of processes": ("PidsLimit", None),
    "no folder in memory": ("Tmpfs", {"/tmp": "rw"}),
    "no bound of processors": ("NanoCpus", 0),
    "swap beside memory": ("MemorySwap", -1),
    "no bound of open files": ("Ulimits", None),
    "larger places in memory": ("ShmSize", 1 << 40),
    "a group": ("GroupAdd", ["docker"]),
    "another runtime": ("Runtime", "runc"),
}


@pytest.mark.parametrize("name", sorted(WEAKER))
def test_a_weaker_container_is_refused_by_name(name: str) -> None:
    field, value = WEAKER[name]
    found = made(asked(LIMITED))
    found["HostConfig"][field] = value
    with pytest.raises(EnvironmentUnavailable, match=field):
        require_as_asked(found, asked(LIMITED))


def test_a_container_is_asked_for_with_its_limits() -> None:
    host = asked(LIMITED).host
    assert (host["NanoCpus"], host["ShmSize"]) == (500_000_000, 1 << 20)
    assert {"Name": "nofile", "Soft": 64, "Hard": 64} in host["Ulimits"]
    assert all("size=1048576" in options for options in host["Tmpfs"].values())
    more_than_there_are = replace(SPEC, limits=Limits(cpus=1024))
    assert asked(more_than_there_are).host["NanoCpus"] == (os.cpu_count() or 1) * 1_000_000_000


def test_podmans_words_for_the_same_are_taken() -> None:
    found = made(asked())
    host = found["HostConfig"]
    host |= {"IpcMode": "shareable", "PidMode": "private", "UTSMode": "private"}
    host |= {"CapDrop": sorted(DEFAULT_CAPABILITIES), "SecurityOpt": ["no-new-privileges"]}
    host["Tmpfs"] = {p: f"{text},rprivate,tmpcopyup" for p, text in host["Tmpfs"].items()}
    host["Tmpfs"]["/run"] = "rw,rprivate,nosuid,nodev,tmpcopyup"
    require_as_asked(found, asked())


@pytest.mark.parametrize(
    "mounts",
    [[], [{"Source": "/", "Destination": "/host", "RW": True}], "writable"],
)
def test_other_mounts_than_asked_are_refused(mounts: Any) -> None:
    found = made(asked())
    if mounts == "writable":
        mounts = [{**mount, "RW": True} for mount in found["Mounts"]]
    with pytest.raises(EnvironmentUnavailable, match="Mounts"):
        require_as_asked({**found, "Mounts": mounts}, asked())


@pytest.mark.parametrize(
    ("changed", "shared", "named"),
    [
        ({"CapBnd": "00000000a80425fb"}, "", "CapBnd"),
        ({"NoNewPrivs": "0"}, "", "NoNewPrivs"),
        ({"Seccomp_filters": "1"}, "", "Seccomp_filters"),
        ({"Seccomp": "0"}, "", "Seccomp_filters"),
        ({"Uid": "0\t0\t0\t0"}, "", "Uid"),
        ({}, "net", "net namespace"),
        ({}, "pid", "pid namespace"),
        (None, "", "CapAmb, CapBnd"),
    ],
)
def test_what_the_kernel_says_is_weaker_is_refused(
    tmp_path: Path, changed: dict[str, str] | None, shared: str, named: str
) -> None:
    require_walled(7, proc=proc_of(tmp_path / "good", STATUS))
    status = {} if changed is None else STATUS | changed
    with pytest.raises(EnvironmentUnavailable, match=named):
        require_walled(7, proc=proc_of(tmp_path / "bad", status, shared=shared))


def test_what_an_ordinary_user_is_not_shown_is_told_or_missing(tmp_path: Path) -> None:
    """As of another's process: its namespaces have no names, and what they hold can be read."""
    uncounted = {name: value for name, value in STATUS.items() if name != "Seccomp_filters"}
    proc = proc_of(tmp_path, {**uncounted, "NSpid": "7 1"})
    shutil.rmtree(proc / "7" / "ns")
    (proc / "self" / "mountinfo").write_text("1 0 0:1 / /\n2 1 0:2 / /proc\n")
    (proc / "7" / "mountinfo").write_text("3 0 0:1 / /\n")
    told = {"Seccomp": "2", **dict.fromkeys(("cgroup", "ipc", "net", "uts"), "7")}
    require_walled(7, told=told, proc=proc)
    for name in told:
        less = {each: value for each, value in told.items() if each != name}
        with pytest.raises(EnvironmentUnavailable, match=f"{name}(_filters| namespace, which no)"):
            require_walled(7, told=less, proc=proc)
    for lie in ({"ipc": ["7"]}, {"ipc": "x"}, {"ipc": "self"}):
        with pytest.raises(EnvironmentUnavailable, match="ipc namespace, which nothing tells of"):
            require_walled(7, told={**told, **lie}, proc=proc)
    (proc / "7" / "mountinfo").write_text("3 0 0:1 / /\n2 1 0:2 / /proc\n")
    with pytest.raises(EnvironmentUnavailable, match=r"asked: mnt namespace$"):
        require_walled(7, told={**told, "mnt": "7"}, proc=proc)


@pytest.mark.service("bubblewrap")
def test_what_this_kernel_shows_to_everybody_tells_of_namespaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it names none of another's, as to an ordinary user: no word of its own counts then."""
    monkeypatch.setattr(walled, "namespace", _of_ours_alone)
    inside = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--as-pid-1"]
    lies = dict.fromkeys(("mnt", "net", "pid"), "7")
    for words, missed in ((inside, []), ([], ["mnt", "net", "pid"])):
        with subprocess.Popen([*words, "cat"], stdin=subprocess.PIPE) as started:
            pid = _last_of(started.pid, len(words))
            found = walled.missing(pid, filters=0, namespaces=list(lies), told=lies)
        assert [each for each in found if "namespace" in each] == [
            f"{name} namespace" for name in missed
        ]


def _of_ours_alone(proc: str, pid: str, name: str) -> str:
    return str(Path(f"{proc}/self/ns/{name}").readlink()) if pid == "self" else ""


def _last_of(pid: int, is_inside: int) -> int:
    """Return the child of bubblewrap's, once it is there; without one the process itself."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    deadline = time.monotonic() + 60
    while is_inside and time.monotonic() < deadline:
        for found in children.read_text().split():
            if Path(f"/proc/{found}/comm").read_text() == "cat\n":
                return int(found)
    return pid


def test_another_user_and_a_missing_container_are_refused() -> None:
    found = made(asked())
    found["Config"]["User"] = ""
    for each in (found, None):
        with pytest.raises(EnvironmentUnavailable, match="User"):
            require_as_asked(each, asked())


@pytest.mark.parametrize("target", ["/", "/proc", "/dev", "/sys", "/tmp", "/run/patchyard", "/run"])
def test_no_mount_stands_in_for_a_part_of_the_container(target: str) -> None:
    with pytest.raises(UsageError, match="stand in"):
        asked(replace(SPEC, mounts=(Mount(source="/data", target=target),)))


def test_the_images_own_path_and_variables_stay() -> None:
    own = asked(Env=["PATH=/opt/go/bin:/usr/bin", "GOROOT=/opt/go"]).variables
    assert (own["GOROOT"], own["PATH"]) == ("/opt/go", "/opt/go/bin:/usr/bin")


def test_the_home_is_where_no_mount_is() -> None:
    spec = replace(SPEC, workspace=Mount(source="/p", target="/home/agent/shop"))
    assert "/home/patchyard-agent" in asked(spec).host["Tmpfs"]


def test_only_a_socket_of_this_machine_is_an_engine(tmp_path: Path) -> None:
    assert engine_socket({"DOCKER_HOST": f"unix://{tmp_path}/s"}) == f"{tmp_path}/s"
    with pytest.raises(EnvironmentUnavailable, match="tcp://"):
        engine_socket({"DOCKER_HOST": "tcp://engine.example:2375"})


async def test_an_engine_that_does_not_answer_is_named(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{yard.folder}/none.sock")
    readiness = await ContainerEnvironment(yard.station).check()
    assert not readiness.is_ready
    assert "none.sock does not answer" in readiness.cause
    assert "DOCKER_HOST" in readiness.cure


@needs_engine
async def test_inside_there_is_no_right_and_no_way_to_one(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    status = await running.run("cat /proc/self/status")
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {facts[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {"0" * 16}
    assert facts["NoNewPrivs"] == "1"
    assert int(facts["Seccomp_filters"]) >= 2  # the engine's own and ours
    assert facts["Uid"].split()[0] != "0"
    assert "Read-only file system" in await running.run("echo x > /usr/bin/new")
    assert "not permitted" in await running.run("unshare --user true")
    mount = "import ctypes; c = ctypes.CDLL(None, use_errno=True)"
    mount += "; print(c.mount(b'none', b'/tmp', b'tmpfs', 0, None), ctypes.get_errno())"
    assert await running.python(mount) == "-1 1"


@needs_engine
async def test_the_agent_has_a_name_and_a_home_of_its_own(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    assert await running.run("whoami") == "agent"
    assert await running.run("cd && pwd && touch x && stat -c %a .") == "/home/agent\n700"


@needs_engine
async def test_no_socket_and_no_folder_of_the_engines_is_inside(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    seen = await running.run("cat /proc/self/mountinfo; ls -la /run/patchyard /run/patchyard/*")
    assert "docker.sock" not in seen
    assert not [line for line in seen.splitlines() if "toolbox.sock" in line]
    handing = "import socket; socket.socket(socket.AF_UNIX).connect('/run/patchyard/handing.sock')"
    assert "FileNotFoundError" in await running.python(handing)


@needs_engine
async def test_what_was_written_belongs_to_the_agent_and_is_in_the_workspace(
    start: Start, yard: Yard
) -> None:
    running = await start(yard.spec(target="/srv/elsewhere"))
    await running.run("mkdir d && echo x > d/f && chmod 4755 d/f")
    facts = (yard.workspace / "d" / "f").stat()
    assert facts.st_uid == yard.workspace.stat().st_uid
    assert stat.S_IMODE(facts.st_mode) & 0o777 == 0o755


@needs_engine
async def test_a_missing_image_is_named_with_the_cure(adapter: Adapter, yard: Yard) -> None:
    with pytest.raises(EnvironmentUnavailable, match="no image 'none/such:1'") as refused:
        await adapter.start(replace(yard.spec(), image="none/such:1"))
    assert "pull" in refused.value.hint


@needs_engine
async def test_an_image_without_python_does_all_that_others_do(start: Start, yard: Yard) -> None:
    running = await start(replace(yard.spec(), image=image(WITHOUT_PYTHON)))
    assert "not found" in await running.run("python3 --version")
    assert await running.run("cd /tmp && pwd") == "/tmp"
    wrote = await running.toolbox.call("w1", "write_file", {"path": "a.txt", "content": "x\n"})
    assert wrote["success"]
    grep = await running.toolbox.call("g1", "grep_search", {"pattern": "x"})
    assert grep["match_count"] == 1
    job = {"command": "echo from the job", "background": True}
    assert (await running.toolbox.call("j1", "execute_command", job))["success"]


@needs_engine
@pytest.mark.service("busybox")
async def test_an_image_without_any_library_runs_what_it_has(start: Start, yard: Yard) -> None:
    running = await start(replace(yard.spec(), image=bare_image(BUSYBOX)))
    assert await running.run("busybox echo $0; ls -A /lib") == "/bin/sh"


@needs_engine
async def test_an_image_without_a_shell_is_named_with_the_cure(
    adapter: Adapter, yard: Yard
) -> None:
    with pytest.raises(EnvironmentUnavailable, match="no shell") as refused:
        await adapter.start(replace(yard.spec(), image=bare_image({})))
    assert "/bin/sh" in refused.value.hint
    assert not list(yard.station.runtime.glob("*/handle.json"))


@needs_engine
async def test_an_image_of_another_architecture_is_refused_before_anything_is_made(
    adapter: Adapter, yard: Yard
) -> None:
    foreign = bare_image({}, architecture="s390x")
    with pytest.raises(EnvironmentUnavailable, match="is for linux/s390x") as refused:
        await adapter.start(replace(yard.spec(), image=foreign))
    assert "linux/amd64" in refused.value.hint


@needs_engine
async def test_a_lost_container_is_broken_and_leaves_nothing(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    waiting = asyncio.create_task(running.result("sleep 60"))
    await running.run("true")
    async with connected(engine_socket(os.environ)) as engine:
        await engine.remove(str(running.handle.details["container"]))
    with pytest.raises(EnvironmentBroken):
        await waiting
    with pytest.raises(EnvironmentBroken):
        await adapter.attach(running.handle)
    await adapter.end(running.handle)


@needs_engine
async def test_an_output_and_its_limits_are_those_of_the_spec(start: Start, yard: Yard) -> None:
    spec = yard.spec()
    tight = replace(spec.limits, processes=40, memory_bytes=256 * 1024**2)
    running = await start(replace(spec, limits=tight))
    many = "import subprocess as s\nmade = []\n"
    many += "try:\n    while len(made) < 60: made += [s.Popen(['sleep', '60'])]\n"
    many += "finally: [each.kill() for each in made]"
    assert "Resource temporarily unavailable" in await running.python(many)
    hungry = await running.result("python3 -c 'x = bytearray(1 << 30); print(len(x))'")
    assert hungry["exit_code"] != 0


@needs_engine
async def test_what_runs_ends_also_while_its_engine_hangs(
    start: Start, adapter: Adapter, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await start(yard.spec())
    await running.run("(setsid sleep 300 &)")
    tree = living(yard)
    assert tree
    mute = str(yard.folder / "mute.sock")
    monkeypatch.setattr(docker, "ANSWER_S", 0.5)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(mute)
        listener.listen(5)
        details = {**running.handle.details, "engine": mute}
        with pytest.raises(EnvironmentBroken, match="does not answer: nothing within"):
            await adapter.end(replace(running.handle, details=details))
    for process in tree:
        assert await asyncio.to_thread(wait_ended, process, timeout_s=promised(3))
