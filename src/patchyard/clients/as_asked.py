"""Whether a container is what was asked for: by what its engine says, then by what the kernel says.

The engine's word is looked at before anything runs, in Docker's dialect and in Podman's. The
kernel's is the truth, and shows when the first process is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from patchyard.clients.container_making import made
from patchyard.clients.containers import Confined
from patchyard.clients.docker import ContainerEngine
from patchyard.domain.errors import EnvironmentUnavailable, UsageError
from patchyard.toolbox import inside
from patchyard.toolbox.walled import (
    NAMESPACES,
    NO_RIGHTS,
    filter_missing,
    missing,
    namespace,
    status,
)

SAME = (
    *("Memory", "MemorySwap", "NanoCpus", "NetworkMode", "PidsLimit", "ReadonlyRootfs"),
    "ShmSize",
)
CLOSED = (
    *("CapAdd", "Devices", "DeviceRequests", "DeviceCgroupRules", "GroupAdd", "Links"),
    *("PortBindings", "Privileged", "UsernsMode", "VolumesFrom"),
)
OWN = ("IpcMode", "PidMode", "UTSMode")
OWN_WORDS = {"", "private", "shareable"}  # the last is Podman's for its own
DEFAULT_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""What engines give where nothing is said; Podman lists these where all are dropped."""
MOST_KNOWN = 10_000
LEAST_FILTERS = 2  # the engine's own and the toolbox's
SENTRY = "runsc-sandbox"  # what gVisor calls the process that a whole container runs in
SENTRYS_NAMESPACES = ("ipc", "mnt", "net", "user", "uts")
PROFILE = "seccomp="
FILTERED = "2"  # the mode of seccomp with a filter


def require_as_asked(made: Mapping[str, Any] | None, asked: Confined) -> None:
    """Raise EnvironmentUnavailable where the engine says that a container is weaker than asked."""
    found: Mapping[str, Any] = made or {}
    host = found.get("HostConfig") or {}
    weaker = [name for name in SAME if host.get(name) != asked.host[name]]
    weaker += [name for name in CLOSED if host.get(name)]
    weaker += [name for name in OWN if str(host.get(name) or "") not in OWN_WORDS]
    weaker += _unlike(found, host, asked)
    if "Runtime" in asked.host and host.get("Runtime") != asked.host["Runtime"]:
        weaker.append("Runtime")
    if found.get("Config", {}).get("User") != asked.config["User"]:
        weaker.append("User")
    set_there = [each for each in found.get("Config", {}).get("Env") or () if each[-1:] != "="]
    weaker += inside.loader_variables(set_there)
    _refuse(weaker)


class KnownLinks:
    """Where paths of images lead: what an image holds never changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str | None] = {}

    async def misplaced(
        self, engine: ContainerEngine, name: str, asked: Confined, berth: Path
    ) -> Sequence[str]:
        """Return what of `asked` a link of its image moves, as `inside.misplaced`.

        What is not known yet is asked of a container `name` of the image alone, which is made for
        it, never started, and taken away: one with mounts may tell of what is mounted.
        """
        image = str(asked.config["Image"])
        shown = [str(mount["Target"]) for mount in asked.host["Mounts"]]
        asking = inside.misplaced(shown, asked.host["Tmpfs"])
        is_made = False
        try:
            path = next(asking)
            while True:
                if (image, path) not in self._known:
                    if not is_made:
                        await made(engine, name, inside.bare(image), berth)
                        is_made = True
                    if len(self._known) >= MOST_KNOWN:
                        self._known.clear()
                    self._known[image, path] = await engine.link(name, path)
                path = asking.send(self._known[image, path])
        except StopIteration as done:
            found: Sequence[str] = done.value
            return found
        finally:
            if is_made:
                await engine.remove(name)


async def require_unmoved(
    engine: ContainerEngine, name: str, asked: Confined, known: KnownLinks, berth: Path
) -> None:
    """Raise UsageError where links of the image lead a mount to a place of the container's own.

    So it is for a folder in memory that they lead over something that is shown.

    Asked before the container `name` is made, whose folder is `berth`. Raises
    EnvironmentUnavailable where the engine does not tell.
    """
    try:
        moved = await known.misplaced(engine, name, asked, berth)
    except RuntimeError as error:
        moved = [str(error)]
    if moved:
        raise UsageError(
            f"links of the image would put files in place of the container's own: {moved[0]}",
            hint="take another image, or another folder for the workspace",
        )


def _unlike(found: Mapping[str, Any], host: Mapping[str, Any], asked: Confined) -> Iterator[str]:
    dropped = {str(name).upper().removeprefix("CAP_") for name in host.get("CapDrop") or ()}
    if "ALL" not in dropped and not dropped >= DEFAULT_CAPABILITIES:
        yield "CapDrop"
    options = [str(option) for option in host.get("SecurityOpt") or ()]
    if not any(option.startswith("no-new-privileges") for option in options):
        yield "SecurityOpt"
    if any("unconfined" in option or "false" in option for option in options):
        yield "SecurityOpt"
    if not {each for each in asked.host["SecurityOpt"] if each.startswith(PROFILE)} <= {*options}:
        yield "SecurityOpt"
    if not _ulimits(host) >= _ulimits(asked.host):
        yield "Ulimits"
    shown = found.get("Mounts") or ()
    mounts = [(m.get("Source"), m.get("Destination"), not m.get("RW")) for m in shown]
    wanted = [(m["Source"], m["Target"], m["ReadOnly"]) for m in asked.host["Mounts"]]
    if sorted(map(str, mounts)) != sorted(map(str, wanted)):
        yield "Mounts"
    if not _has_memory_places(host.get("Tmpfs") or {}, asked.host["Tmpfs"]):
        yield "Tmpfs"


def _ulimits(host: Mapping[str, Any]) -> set[tuple[str, int, int]]:
    """Return the limits of each process; Podman writes their names otherwise, and adds its own."""
    rows = host.get("Ulimits") or ()
    name = "RLIMIT_"
    return {(str(r["Name"]).upper().removeprefix(name), r["Soft"], r["Hard"]) for r in rows}


def _has_memory_places(found: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether all that were asked for are there; Podman adds options and a `/run` of its own."""
    options = {place: set(str(text).split(",")) for place, text in found.items()}
    return all(set(text.split(",")) <= options.get(place, set()) for place, text in asked.items())


def require_walled(
    pid: int,
    *,
    told: Mapping[str, object] = MappingProxyType({}),
    is_podman: bool = False,
    proc: Path = Path("/proc"),
) -> None:
    """Raise EnvironmentUnavailable where the kernel says that a process has less walls than asked.

    `pid` is the container's first process, whose toolbox serves by now; as seen from out here.
    `told` is what that saw itself before anything else ran there, for what the kernel does not show
    to an ordinary user.
    Podman before 5 passes over the wish for a namespace of control groups: names of groups can be
    read there, and nothing else.
    """
    wanted = [name for name in NAMESPACES if not (is_podman and name == "cgroup")]
    _refuse(missing(pid, filters=LEAST_FILTERS, namespaces=wanted, told=told, proc=str(proc)))


def require_filtered(told: Mapping[str, object]) -> None:
    """Raise EnvironmentUnavailable where a toolbox made a call that its filter has to refuse.

    `told` is what it tells: it tried before it served, so before anything of the image ran.
    """
    _refuse(filter_missing(told))


def require_sentry(
    pid: int, rights: Mapping[str, Any], *, uid: int, proc: Path = Path("/proc")
) -> None:
    """Raise EnvironmentUnavailable where a container is not gVisor's, or has less walls than asked.

    `pid` is the process that its engine names: of gVisor that is its kernel, the sentry, and what
    runs inside is no process of this machine's. So this machine's kernel is asked about the sentry;
    what rights it has in a namespace of users of its own is not counted. What the toolbox has left
    is what the sentry says of it: `rights`, told before anything of the image ran.
    """
    facts = status(str(proc / str(pid) / "status"))
    weaker = [] if _program(proc / str(pid) / "cmdline") == SENTRY else ["Runtime"]
    if facts.get("NoNewPrivs") != "1":
        weaker.append("NoNewPrivs")
    if facts.get("Seccomp") != FILTERED:
        weaker.append("Seccomp")
    for name in SENTRYS_NAMESPACES:
        found = namespace(str(proc), str(pid), name)
        if found and found == namespace(str(proc), "self", name):
            weaker.append(f"{name} namespace")
    _refuse([*weaker, *(f"{name} inside" for name in _rights_left(rights, uid))])


def _program(path: Path) -> str:
    try:
        return path.read_bytes().partition(b"\0")[0].decode("utf-8", "replace").rpartition("/")[2]
    except OSError:
        return ""


def _rights_left(rights: Mapping[str, Any], uid: int) -> Iterator[str]:
    """Name what somebody inside has who should have nothing; an older gVisor leaves out CapAmb."""
    for name in NO_RIGHTS:
        if str(rights.get(name, "0" if name == "CapAmb" else "f")).strip("0"):
            yield name
    if rights.get("NoNewPrivs") != "1":
        yield "NoNewPrivs"
    if rights.get("Seccomp") != FILTERED:
        yield "Seccomp"
    if set(str(rights.get("Uid", "0")).split()) != {str(uid)}:
        yield "Uid"


def _refuse(weaker: Sequence[str]) -> None:
    if weaker:
        raise EnvironmentUnavailable(
            f"the container engine made a weaker container than asked: {', '.join(weaker)}",
            hint="look at the engine's configuration; no call was sent there",
        )


__all__ = [
    "CLOSED",
    "DEFAULT_CAPABILITIES",
    "FILTERED",
    "LEAST_FILTERS",
    "OWN",
    "OWN_WORDS",
    "SAME",
    "SENTRY",
    "SENTRYS_NAMESPACES",
    "KnownLinks",
    "require_as_asked",
    "require_filtered",
    "require_sentry",
    "require_unmoved",
    "require_walled",
]
