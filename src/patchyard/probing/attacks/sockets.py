"""Sockets of the machine, and the services behind them."""

from collections.abc import Sequence

from patchyard.probing.attack import Attack, Group
from patchyard.probing.evidence import reached, reached_or_said

DOCKER = ("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock")
D_BUS = ("/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/stdout")
DATABASES = ("/run/postgresql/.s.PGSQL.5432", "/run/mysqld/mysqld.sock", "/run/redis/redis.sock")


def _service(name: str, title: str, places: Sequence[str]) -> Attack:
    return Attack(
        name=f"{name}-socket",
        group=Group.SOCKETS,
        title=title,
        script="known_service",
        evidence=reached_or_said,
        control_script="service",
        options={"service": name, "places": list(places)},
    )


ATTACKS = (
    Attack(
        name="socket-by-path",
        group=Group.SOCKETS,
        title="connect to a socket by its path",
        script="by_path",
        evidence=reached,
    ),
    Attack(
        name="socket-abstract",
        group=Group.SOCKETS,
        title="connect to a socket by its abstract name",
        script="abstract",
        evidence=reached,
    ),
    Attack(
        name="socket-abstract-datagram",
        group=Group.SOCKETS,
        title="send a message to an abstract socket",
        script="datagram",
        evidence=reached,
    ),
    _service("docker", "speak to a container engine", DOCKER),
    _service("ssh-agent", "use the user's SSH agent", ()),
    _service("d-bus", "speak to the session or the system over D-Bus", D_BUS),
    _service("tmux", "type into the user's tmux", ()),
    _service("database", "speak to a local database", DATABASES),
)

__all__ = ["ATTACKS", "DATABASES", "DOCKER", "D_BUS"]
