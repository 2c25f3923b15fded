"""Every attack of the battery, by group."""

from collections.abc import Callable

from patchyard.probing.attack import Attack, Group
from patchyard.probing.attacks import (
    answers,
    files,
    git,
    network,
    paths,
    planning,
    privilege,
    processes,
    resources,
    secrets,
    sockets,
    terminal,
)


def all_attacks(show: Callable[[str], str]) -> tuple[Attack, ...]:
    """Return every attack; `show` is how the command line shows text of others."""
    first = (files, processes, sockets, network, privilege, resources, terminal, secrets)
    modules = (*first, planning, git, paths, answers)
    found = [attack for module in modules for attack in module.ATTACKS]
    found.append(terminal.escapes(show))
    order = list(Group)
    return tuple(sorted(found, key=lambda attack: order.index(attack.group)))


__all__ = ["all_attacks"]
