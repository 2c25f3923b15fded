"""By what each limit of a local environment is held on this machine. Pure but for the group."""

from collections.abc import Mapping, Sequence

from patchyard.clients.cgroups import is_bounding, is_bounding_cpus
from patchyard.domain.environment import Limits
from patchyard.domain.environment_limits import MEASURES, NAMES

GROUP = "control group"
EACH = "each process by itself"
NOTHING = "nothing"
WATCH = "looking, while commands run"
SIZE = "the size of each folder"
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
        "processes": GROUP if engine or is_bounding(group, "pids") else "the count of its user",
        "temporary": in_memory,
        "wall": "time-out",
    }
    return [{"limit": name, "held_by": rows[name]} for name in NAMES]


__all__ = [
    "CHECKED",
    "EACH",
    "GATEWAYS",
    "GROUP",
    "NOTHING",
    "SIZE",
    "WATCH",
    "held_by",
    "unheld",
]
