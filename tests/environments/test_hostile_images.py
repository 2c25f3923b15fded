"""Images and descriptions that would bring their files to where a container is run from."""

import base64
import json
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from environments.yards import Adapter, Start, Yard
from images import BUSYBOX, WITH_PYTHON, bare_image, built_on, image
from patchyard.clients import containers
from patchyard.clients.as_asked import require_filtered
from patchyard.clients.carried import CarriedPython
from patchyard.clients.containers import Equipped, confined, variables_of
from patchyard.clients.guests import refuse_unshown
from patchyard.clients.identity import AgentIdentity
from patchyard.domain.environment import EnvironmentSpec, Mount
from patchyard.domain.errors import EnvironmentUnavailable, UsageError
from patchyard.environments import container
from patchyard.toolbox import inside

pytestmark = [pytest.mark.anyio]

OURS = (
    *("/run/patchyard", "/run/patchyard/toolbox", "/run/patchyard/toolbox/__pycache__"),
    *("//run/patchyard/python", "/run/../run//patchyard/x/..", "/proc/1", "/dev/shm", "/sys/fs"),
    *("/", "/run", "/..", "/proc"),
)
IN_CONTAINERS = (*OURS, "/etc", "/etc/passwd", "/etc/ld.so.preload/x")
#: A library that leaves a file where it was loaded into the Python of ours.
PRELOADED = """
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
    char program[64] = {0};
    readlink("/proc/self/exe", program, sizeof program - 1);
    if (!strncmp(program, "/run/patchyard/", 15)) open("/tmp/loaded", O_CREAT | O_WRONLY, 0644);
}
"""


def of_container(target: str) -> None:
    config_of(EnvironmentSpec(plan_id="", purpose="", image="it", workspace=at(target)))


def of_machine(target: str) -> None:
    refuse_unshown(EnvironmentSpec(plan_id="", purpose="", workspace=at(target)))


def at(target: str) -> Mount:
    return Mount(source="/plans/1/root", target=target)


def config_of(
    spec: EnvironmentSpec, *variables: str, volumes: Sequence[str] = ()
) -> dict[str, object]:
    carried = CarriedPython(folder="/py", library="/lib/py", below="lib/python3", loader="ld.so")
    asked = confined(
        spec,
        AgentIdentity(uid=60900, gid=60900, is_switched=True),
        image={
            "Id": "sha256:1",
            "Config": {"Env": list(variables), "Volumes": {path: {} for path in volumes}},
        },
        environment_id="01JENV",
        equipped=Equipped(toolbox="/t/toolbox", python=carried, passing="/t/handing.sock"),
    )
    return dict(asked.config)


@pytest.mark.parametrize(
    ("refusing", "target"),
    [(of_container, each) for each in IN_CONTAINERS] + [(of_machine, each) for each in OURS],
)
def test_no_workspace_lies_at_above_or_below_a_place_of_ours(
    refusing: Callable[[str], None], target: str
) -> None:
    with pytest.raises(UsageError, match="stand in"):
        refusing(target)


@pytest.mark.parametrize("target", ["/run/patchyardier", "/etc/shop", "/tmp/x", "/home/ada/shop"])
def test_a_workspace_beside_the_places_of_ours_is_taken(target: str) -> None:
    of_container(target)


def link_of(links: dict[str, str]) -> Callable[[str], str | None]:
    return lambda path: links.get(path, None if path.startswith("/absent") else "")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/a/b", "/a/b"),
        ("/srv/x", "/run/patchyard/x"),
        ("/deep/x/y", "/run/patchyard/x/y"),
        ("/absent/srv", "/absent/srv"),
    ],
)
def test_links_on_the_way_are_followed_one_by_one(path: str, place: str) -> None:
    links = link_of({"/srv": "/run/patchyard", "/deep": "/var/lib", "/var/lib": "/srv"})
    assert inside.answered(inside.resolved(path), links) == place


def test_links_in_a_circle_end() -> None:
    with pytest.raises(RuntimeError, match="circle"):
        inside.answered(inside.resolved("/a/x"), lambda path: "/b" if path == "/a" else "/a")


def test_a_volume_of_an_image_is_refused_by_its_name_where_nothing_lies_over_it() -> None:
    """The engine's configuration was blamed, as for a container that is weaker than asked."""
    spec = EnvironmentSpec(plan_id="", purpose="", image="it", workspace=at("/shop"))
    config_of(spec, volumes=["/shop/", "/tmp", "/var/tmp", "/home/agent"])
    with pytest.raises(EnvironmentUnavailable, match="the image declares the volume /data,"):
        config_of(spec, volumes=["/data"])
    config_of(replace(spec, mounts=(Mount(source="/x", target="/data"),)), volumes=["/data"])


@pytest.mark.service("docker")
async def test_a_volume_of_an_image_is_named_before_a_container_is_made(
    yard: Yard, adapter: Adapter, tmp_path: Path
) -> None:
    yard.image = built_on(bare_image(BUSYBOX), "VOLUME /data")
    with pytest.raises(EnvironmentUnavailable, match=r"volume /data,.*on this machine's disk"):
        await adapter.start(yard.spec())
    own = Mount(source=str(tmp_path), target="/data")
    await adapter.end(await adapter.start(yard.spec(own)))


def test_variables_that_a_loader_obeys_reach_commands_and_not_the_toolbox() -> None:
    spec = EnvironmentSpec(plan_id="", purpose="", image="it", workspace=at("/shop"))
    config = config_of(spec, "LD_PRELOAD=/evil.so", "LD_LIBRARY_PATH=/cuda", "GOROOT=/go")
    assert config["Env"] == ["LD_LIBRARY_PATH=", "LD_PRELOAD="]
    own = {"Config": {"Env": ["LD_LIBRARY_PATH=/cuda"]}}
    assert variables_of(spec, own, home="/home/agent")["LD_LIBRARY_PATH"] == "/cuda"


@pytest.fixture
def adapter(yard: Yard) -> Adapter:
    return yard.adapter("container")


@pytest.mark.service("docker")
@pytest.mark.parametrize(
    ("links", "target"),
    [
        (["ln -s /run/patchyard/toolbox /x"], "/x/__pycache__"),
        (["ln -s /run/patchyard /x"], "/x/toolbox/__pycache__"),
        (["ln -s b/c /x", "mkdir /b", "ln -s ../run /b/c"], "/x/patchyard"),
        (["ln -s /etc /x"], "/x"),
        (["rm -rf /run", "ln -s /home /run"], "/home/ada/shop"),
    ],
)
async def test_links_of_an_image_lead_no_mount_to_a_place_of_ours(
    yard: Yard, adapter: Adapter, links: list[str], target: str
) -> None:
    yard.image = built_on(image(WITH_PYTHON), f"RUN {' && '.join(links)}")
    with pytest.raises(UsageError, match="links of the image"):
        await adapter.start(yard.spec(target=target))


#: Where a link leads a folder in memory: over what is ours, or over what an agent works on.
ELSEWHERE = [
    ("home/agent", "../etc"),
    ("home/agent", "../run/patchyard"),
    ("home/agent", "../srv/shop/there"),
    ("var/tmp", "../srv/shop"),
    ("var/tmp", "../srv"),
]


@pytest.mark.parametrize(("link", "where"), ELSEWHERE)
def test_links_move_no_folder_in_memory_over_what_is_shown(link: str, where: str) -> None:
    links = link_of({f"/{link}": inside.normal(f"/{link}/../{where}")})
    moved = inside.misplaced(["/srv/shop", "/etc/passwd"], ["/tmp", "/var/tmp", "/home/agent"])
    assert inside.answered(moved, links)[0].startswith(f"/{link} is /")


@pytest.mark.parametrize("where", ["/tmp", "/var/spool", "/dev", "/srv"])
def test_links_may_move_a_folder_in_memory_where_nothing_else_lies(where: str) -> None:
    moved = inside.misplaced(["/srv/ada/shop", "/tmp/ada/shop"], ["/tmp", "/var/tmp"])
    found = inside.answered(moved, link_of({"/var/tmp": where}))
    assert bool(found) is (where == "/dev")


@pytest.mark.service("docker")
async def test_links_of_an_image_take_no_file_of_ours_out_of_sight(
    yard: Yard, adapter: Adapter
) -> None:
    """The empty `/etc/ld.so.preload` was hidden, and the agent could write another one."""
    yard.image = bare_image({**BUSYBOX, "home/agent": "../etc"})
    with pytest.raises(UsageError, match=r"links of the image.*/home/agent is /etc"):
        await adapter.start(yard.spec())


@pytest.mark.service("docker")
@pytest.mark.service("sshd")
async def test_links_of_an_image_lead_nowhere_of_ours_on_a_host_either(yard: Yard) -> None:
    adapter = yard.adapter("ssh-container")
    yard.image = bare_image({**BUSYBOX, "x": "run/patchyard"})
    with pytest.raises(EnvironmentUnavailable, match="links of the image"):
        await adapter.start(yard.spec(target="/x"))
    yard.image = bare_image({**BUSYBOX, "home/agent": "../etc"})
    with pytest.raises(EnvironmentUnavailable, match=r"links of the image.*/home/agent is /etc"):
        await adapter.start(yard.spec())


@pytest.mark.service("docker")
async def test_a_link_to_another_place_is_followed(yard: Yard, start: Start) -> None:
    yard.image = built_on(
        image(WITH_PYTHON), "RUN mkdir -p /srv/there && ln -s /srv/there /projects"
    )
    (yard.workspace / "here").touch()
    place = await start(yard.spec(target="/projects"))
    assert await place.run("ls /projects/ /srv/there") == "/projects/:\nhere\n\n/srv/there:\nhere"


@pytest.mark.service("docker")
@pytest.mark.service("c-compiler")
async def test_no_library_of_an_image_is_loaded_into_the_toolbox(
    yard: Yard, start: Start, tmp_path: Path
) -> None:
    library = base64.b64encode(compiled(tmp_path, PRELOADED)).decode("ascii")
    yard.image = built_on(
        image(WITH_PYTHON),
        f"RUN echo {library} | base64 -d > /evil.so && echo /evil.so > /etc/ld.so.preload",
        "ENV LD_PRELOAD=/evil.so",
    )
    place = await start(yard.spec())
    seen = await place.run("env | grep ^LD_PRELOAD; test -e /tmp/loaded && echo loaded")
    assert seen == "LD_PRELOAD=/evil.so"


def compiled(folder: Path, code: str) -> bytes:
    source, made = folder / "evil.c", folder / "evil.so"
    source.write_text(code, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-Os", "-s", "-o", made, source], check=True)
    return made.read_bytes()


#: What nothing but a filter refuses: number of the call, an error where it is not refused.
CALLS = """
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
def refused(number, *words):
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, words))
    return result < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
calls = {"io_uring_setup": (425, 1, 0), "pidfd_getfd": (438, -1, 0, 0), "clone3": (435, 0, 0)}
calls["openat2"] = (437, -1, 0, 0, 0)
for name, words in calls.items():
    if not refused(*words):
        print("not refused:", name)
if libc.copy_file_range(-1, None, -1, None, 1, 0) != -1 or ctypes.get_errno() != errno.ENOSYS:
    print("not refused: copy_file_range")
for family in (socket.AF_VSOCK, socket.AF_ALG, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_STREAM if family == socket.AF_VSOCK else socket.SOCK_RAW)
        print("not refused:", family)
    except OSError:
        pass
"""
ALL_ALLOWED = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)  # BPF_RET, SECCOMP_RET_ALLOW


@pytest.mark.service("docker")
async def test_the_engine_filters_before_anything_of_an_image_can_run(
    yard: Yard, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a library of the image had put another filter in the toolbox's place."""
    monkeypatch.setattr(containers, "filter_program", lambda: ALL_ALLOWED)
    running = await start(yard.spec())
    assert await running.python(CALLS) == ""


@pytest.mark.service("docker")
async def test_a_filter_that_refuses_nothing_is_no_filter_however_many_there_are(
    yard: Yard, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine without our profile, and another filter in the toolbox's place."""
    monkeypatch.setattr(containers, "filter_program", lambda: ALL_ALLOWED)
    refused = {"names": ["acct"], "action": "SCMP_ACT_ERRNO"}
    lets_all = json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]})
    monkeypatch.setattr(container, "engine_profile", lambda: lets_all)
    with pytest.raises(EnvironmentUnavailable, match="Seccomp: io_uring_setup is not refused"):
        await adapter.start(yard.spec())


@pytest.mark.parametrize(
    ("told", "named"),
    [({}, "which nothing tells of"), ({"unrefused": ["clone3"]}, "clone3 is not refused")],
)
def test_a_toolbox_whose_filter_is_not_shown_to_hold_is_refused(
    told: dict[str, object], named: str
) -> None:
    require_filtered({"unrefused": []})
    with pytest.raises(EnvironmentUnavailable, match=f"Seccomp.*{named}"):
        require_filtered(told)
