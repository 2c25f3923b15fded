"""By what each limit of an environment is held, here and elsewhere. Pure but for the group."""

from collections.abc import Mapping, Sequence

from patchyard.clients.cgroups import is_bounding, is_bounding_cpus
from patchyard.domain.environment import ExecutionEnvironment, Limits
from patchyard.domain.environment_limits import MEASURES, NAMES

GROUP = "control group"
EACH = "each process by itself"
NOTHING = "nothing"
WATCH = "looking, while commands run"
SIZE = "the size of each folder"
HOME = "what is written here of it: what there is no room for stays there"
USER = "the count of its user"
LATER = f"{EACH}; the time of a whole command once it is over"
NO_WAY = "there is no network"
GATEWAYS = "the gateways outside; there is no other way out"
CHECKED = Limits(cpus=1.0)
"""What `check` starts with: only where a bound is asked for does it show whether it holds."""


def unheld(
    limits: Limits,
    group: tuple[str, ...],
    *,
    has_gateways: bool = True,
    nowhere: Sequence[str] = (),
) -> Sequence[str]:
    """Return the limits that were asked for and that nothing here holds.

    `nowhere` are the limits that nothing holds in places of that kind, whatever the machine; of
    these counts as asked for what is not as usual.
    """
    usual = Limits()
    fields = {name: MEASURES[name].field for name in nowhere}
    is_held = {
        **{n: getattr(limits, field) == getattr(usual, field) for n, field in fields.items()},
        "connections": limits.connections is None or has_gateways,
        "cpus": limits.cpus is None or is_bounding_cpus(group),
        "network": limits.network_bytes is None or has_gateways,
    }
    return [name for name, holds in is_held.items() if not holds]


def held_by(
    group: tuple[str, ...], *, in_memory: str, network: str, engine: bool = False
) -> list[dict[str, str]]:
    """Return a row (limit, held_by) for each limit.

    `in_memory` and `network` say by what those two are; `engine`: a container engine bounds.
    """
    rows: Mapping[str, str] = {
        "connections": network,
        "cpu_time": f"{EACH}; all together by {WATCH}",
        "cpus": GROUP if engine or is_bounding_cpus(group) else NOTHING,
        "disk": WATCH,
        "file_size": EACH,
        "memory": GROUP
        if engine or is_bounding(group, "memory")
        else f"{EACH}; all together by {WATCH}",
        "network": network,
        "open_files": EACH,
        "output": "cut in the middle",
        "processes": GROUP if engine or is_bounding(group, "pids") else USER,
        "temporary": in_memory,
        "wall": "time-out",
    }
    return [{"limit": name, "held_by": rows[name]} for name in NAMES]


def unheld_there(limits: Limits, carries: ExecutionEnvironment | None) -> Sequence[str]:
    """Return what was asked for on another host and nothing there holds."""
    if carries is None:
        return unheld(limits, (), has_gateways=False, nowhere=("processes", "temporary"))
    found = unheld(limits, ())
    return [each for each in found if carries != ExecutionEnvironment.CONTAINER or each != "cpus"]


def held_there(carries: ExecutionEnvironment | None) -> list[dict[str, str]]:
    """Return a row (limit, held_by) for each limit on another host, by what it carries."""
    is_contained = carries == ExecutionEnvironment.CONTAINER
    processes = f"{GROUP} where root logs in and the host has such; else {USER}"
    if carries is None:
        processes = NOTHING
    return _rows(
        network=NO_WAY if carries else NOTHING,
        cpus=GROUP if is_contained else NOTHING,
        memory=GROUP if is_contained else EACH,
        processes=GROUP if is_contained else processes,
        temporary=SIZE if carries else NOTHING,
    )


def held_in_machine() -> list[dict[str, str]]:
    """Return a row (limit, held_by) for each limit in a virtual machine."""
    return _rows(
        network=GATEWAYS,
        cpus=NOTHING,
        memory="the machine's own, and a control group around it where there is one",
        processes=USER,
        temporary=NOTHING,
    )


def _rows(
    *, network: str, cpus: str, memory: str, processes: str, temporary: str
) -> list[dict[str, str]]:
    """Return the rows of a place whose processes are not this machine's."""
    rows = {
        "connections": network,
        "cpu_time": LATER,
        "cpus": cpus,
        "disk": HOME,
        "file_size": EACH,
        "memory": memory,
        "network": network,
        "open_files": EACH,
        "output": "cut in the middle",
        "processes": processes,
        "temporary": temporary,
        "wall": "time-out",
    }
    return [{"limit": name, "held_by": rows[name]} for name in NAMES]


__all__ = [
    "CHECKED",
    "EACH",
    "GATEWAYS",
    "GROUP",
    "HOME",
    "LATER",
    "NOTHING",
    "NO_WAY",
    "SIZE",
    "USER",
    "WATCH",
    "held_by",
    "held_in_machine",
    "held_there",
    "unheld",
    "unheld_there",
]
