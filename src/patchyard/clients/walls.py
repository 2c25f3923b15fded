"""What `process` shows of the machine: an allow-list of places, as data.

Built by a pure function from a spec and facts; rendered by `bubblewrap`, and as rows for people.
"""
# ruff: noqa: S108 - these are paths inside, each a new folder in memory

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from posixpath import dirname, normpath
from types import MappingProxyType
from typing import Any

from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import Interpreter
from patchyard.clients.layouts import KEYED
from patchyard.clients.overmounts import refuse_overmounts
from patchyard.clients.toolchains import SYSTEM_PLACES, Toolchains, is_within
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount
from patchyard.toolbox import inside, surveying

TOOLBOX_PLACE = inside.PLACE
HOMES = ("/home/agent", "/home/patchyard-agent", "/tmp/patchyard-agent")
"""The first that no mount touches is the agent's home; the toolbox makes it, as the agent."""

SYSTEM_PATH = tuple(
    f"{place}/{name}" for name in ("sbin", "bin") for place in ("/usr/local", "/usr", "")
)
ETC = (
    *("alternatives", "bash.bashrc"),
    *("crypto-policies", "debian_version", "fonts", "gai.conf", "host.conf", "inputrc"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime", "magic"),
    *("maven/logging", "maven/m2.conf"),  # its settings may hold passwords
    *("magic.mime", "mime.types", "mke2fs.conf", "networks", "os-release", "perl"),
    *("pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "protocols", "rpc"),
    *("services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone"),
)
"""Shown of /etc where they exist. None holds a secret, an address of a server or a user."""

COPIED_BYTES = 256 * 1024
ETC_BEGINNINGS = ("java", "python3")

MASKED = ("/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/kcore")

READ_ONLY_VARIABLES = MappingProxyType(
    {
        "PYTHONPYCACHEPREFIX": "/tmp/pycache",
        "PYTEST_ADDOPTS": "-o cache_dir=/tmp/pytest_cache",
        "MYPY_CACHE_DIR": "/tmp/mypy_cache",
        "RUFF_CACHE_DIR": "/tmp/ruff_cache",
        "COVERAGE_FILE": "/tmp/coverage",
        "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis",
        "CARGO_TARGET_DIR": "/tmp/target",
    }
)
"""Where programs put what they would otherwise write into a workspace that is read-only."""


class Show(StrEnum):
    """How a place comes to be there."""

    READ_ONLY = surveying.READ_ONLY
    WRITABLE = "writable"
    EMPTY = "empty, in memory"
    DIRECTORY = "empty directory"
    LINK = surveying.LINK
    COPY = surveying.COPY
    MADE_UP = "made up"
    PROCESSES = "own processes"
    DEVICES = "minimal devices"
    MASKED = "hidden"


@dataclass(frozen=True, kw_only=True)
class Place:
    """One place inside."""

    target: str
    show: Show
    source: str = ""  # path on the host; text of a link; content of a made-up file
    mode: int = 0o755  # of what is made new


@dataclass(frozen=True, kw_only=True)
class View:
    """Everything an environment sees, and the variables its commands get."""

    places: tuple[Place, ...]  # in the order they are mounted
    home: str
    memory_place_bytes: int = 2 * 1024**3  # bound of each folder that lies in memory
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Facts about the host that a view is built from."""

    system: tuple[Place, ...]  # /usr, /bin, ... as they lie here
    etc: tuple[Place, ...]
    masked: tuple[str, ...]  # what nobody may read, where it exists
    shell_path: str
    toolbox: str  # host path of the toolbox's folder
    interpreter: Interpreter


WANTED: Mapping[str, object] = MappingProxyType(
    {
        "system": SYSTEM_PLACES,
        "etc": ETC,
        "beginnings": ETC_BEGINNINGS,
        "masked": MASKED,
        "installations": ("/usr", "/usr/local", "/opt/*"),
        "keyed": KEYED,
        "copied_bytes": COPIED_BYTES,
    }
)
"""What `surveying` is asked about a machine; installations keep passwords of package indexes."""


def read_machine(toolbox: str, interpreter: Interpreter) -> Machine:
    """Look at this machine."""
    return surveyed(surveying.survey(dict(WANTED)), toolbox=toolbox, interpreter=interpreter)


def surveyed(found: Mapping[str, Any], *, toolbox: str, interpreter: Interpreter) -> Machine:
    """Return what `surveying` found, as facts. Raises ValueError for what it cannot have found."""
    return Machine(
        system=tuple(map(_place, found["system"])),
        etc=tuple(map(_place, found["etc"])),
        masked=tuple(map(_word, found["masked"])),
        shell_path=_word(found["shell"]),
        toolbox=toolbox,
        interpreter=interpreter,
    )


def _place(row: Sequence[str]) -> Place:
    target, show, source = map(_word, row)
    mode = 0o644 if show == Show.COPY else 0o755
    return Place(target=target, show=Show(show), source=source, mode=mode)


def _word(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is no path")
    return value


def build_view(
    spec: EnvironmentSpec, *, identity: AgentIdentity, machine: Machine, toolchains: Toolchains
) -> View:
    """Return what `spec` shows. Pure. Raises UsageError for mounts that would stand in the way."""
    refuse_overmounts(spec, ExecutionEnvironment.PROCESS)
    mounts = (*machine.interpreter.mounts, *toolchains.mounts, spec.workspace, *spec.mounts)
    home = free_home([normpath(mount.target) for mount in mounts])
    layers = (
        machine.system,
        machine.etc,
        _own_places(identity, home, machine),
        tuple(map(_mounted, mounts)),
        tuple(Place(target=name, show=Show.MASKED) for name in toolchains.hidden),
    )
    places = {place.target: place for layer in layers for place in layer}
    return View(
        places=with_parents(places),
        home=home,
        memory_place_bytes=spec.limits.temporary_bytes,
        variables=_variables(spec, home=home, machine=machine, toolchains=toolchains),
    )


def free_home(taken: Sequence[str]) -> str:
    """Return the agent's home: the first place that touches none of those taken."""

    def is_free(home: str) -> bool:
        return not any(is_within(home, place) or is_within(place, home) for place in taken)

    return next(filter(is_free, HOMES), HOMES[-1])


def with_parents(places: Mapping[str, Place]) -> tuple[Place, ...]:
    """Return the places, outer ones first, with a traversable folder for each missing parent.

    Bubblewrap makes missing parents by itself, under the engine's umask.
    """
    binds = [p.target for p in places.values() if p.show in {Show.READ_ONLY, Show.WRITABLE}]
    complete = dict(places)
    for target in places:
        parent = dirname(target)
        while parent not in complete and not any(is_within(parent, bind) for bind in binds):
            if parent == "/":
                break
            complete[parent] = Place(target=parent, show=Show.DIRECTORY)
            parent = dirname(parent)
    return tuple(sorted(complete.values(), key=lambda place: place.target.split("/")))


def _own_places(identity: AgentIdentity, home: str, machine: Machine) -> tuple[Place, ...]:
    shared = ("/tmp", "/var/tmp", "/dev/shm", "/home")
    empty = ("/root", "/run", "/mnt", "/srv", "/media", "/var/lib", "/var/log", "/var/cache")
    made_up = {
        "passwd": (
            "root:x:0:0:root:/root:/bin/sh\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n"
            f"agent:x:{identity.uid}:{identity.gid}:agent:{home}:{machine.shell_path}\n"
        ),
        "group": f"root:x:0:\nnogroup:x:65534:\nagent:x:{identity.gid}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "hostname": "sandbox\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
        "resolv.conf": "# no network: names are resolved from /etc/hosts alone\n",
        "shells": "/bin/sh\n/bin/bash\n",
    }
    return (
        *(Place(target=name, show=Show.EMPTY, mode=0o1777) for name in shared),
        *(Place(target=name, show=Show.DIRECTORY) for name in empty),
        Place(target="/var/run", show=Show.LINK, source="../run"),
        Place(target="/proc", show=Show.PROCESSES),
        Place(target="/dev", show=Show.DEVICES),
        *(Place(target=name, show=Show.MASKED) for name in machine.masked),
        *(
            Place(target=f"/etc/{name}", show=Show.MADE_UP, source=text, mode=0o644)
            for name, text in made_up.items()
        ),
        Place(target=f"{TOOLBOX_PLACE}/toolbox", show=Show.READ_ONLY, source=machine.toolbox),
    )


def _mounted(mount: Mount) -> Place:
    show = Show.WRITABLE if mount.is_writable else Show.READ_ONLY
    return Place(target=normpath(mount.target), show=show, source=mount.source)


def _variables(
    spec: EnvironmentSpec, *, home: str, machine: Machine, toolchains: Toolchains
) -> dict[str, str]:
    path = dict.fromkeys((*spec.path, *toolchains.path, *SYSTEM_PATH))
    redirected = {} if spec.workspace.is_writable else dict(READ_ONLY_VARIABLES)
    return {
        "PATH": ":".join(path),
        "HOME": home,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": machine.shell_path,
        "LC_CTYPE": "C.UTF-8",  # not LANG: loading its other categories costs a shell 0.2 ms
        "TMPDIR": "/tmp",
        "XDG_CACHE_HOME": f"{home}/.cache",
        "npm_config_cache": f"{home}/.npm",
        **toolchains.variables,
        **redirected,
        **spec.variables,
    }


def describe(view: View) -> list[dict[str, str]]:
    """Return one row for each place: where inside, how, and what it shows of the host."""
    rows = []
    for place in view.places:
        has_source = place.show in {Show.READ_ONLY, Show.WRITABLE, Show.COPY, Show.LINK}
        source = place.source if has_source else ""
        rows.append({"path": place.target, "access": str(place.show), "source": source})
    return rows


__all__ = [
    "ETC",
    "ETC_BEGINNINGS",
    "HOMES",
    "READ_ONLY_VARIABLES",
    "SYSTEM_PATH",
    "TOOLBOX_PLACE",
    "WANTED",
    "Machine",
    "Place",
    "Show",
    "View",
    "build_view",
    "describe",
    "free_home",
    "read_machine",
    "surveyed",
    "with_parents",
]
