"""How a toolbox on a host that is reached over SSH is put into a container there.

The host's engine is spoken to by our program on that host; what it is asked for, and whether it
made that, is said here, by the same code as for the engine of this machine.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchyard.clients.carried import CarriedPython, carried_at
from patchyard.clients.containers import Confined, Equipped, confined, etc_files, home_of
from patchyard.clients.docker import PLACES, START_ENGINE
from patchyard.clients.engine_groups import require_groups
from patchyard.clients.far_walls import hearing, identity_of
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.local_images import as_reference, no_image, require_runnable
from patchyard.clients.seccomp_profiles import engine_profile
from patchyard.clients.ssh import one_line
from patchyard.domain.address import Address
from patchyard.domain.environment import EnvironmentSpec
from patchyard.domain.errors import EnvironmentUnavailable, StartBroken
from patchyard.toolbox.containing import UNANSWERED
from patchyard.toolbox.last_words import last_words
from patchyard.toolbox.settings import PASSED


@dataclass(frozen=True, kw_only=True)
class FarEngine:
    """A host's container engine, and what lies there for a container."""

    where: Address  # of the host, as its resource names it
    socket: str  # paths there
    image: Mapping[str, Any]
    is_podman: bool
    identity: AgentIdentity  # of the agent there
    folder: str  # of the environment
    toolbox: str
    python: CarriedPython
    processors: int


def looked_for(spec: EnvironmentSpec) -> Mapping[str, Any]:
    """Return what a host is asked for an engine and an image. Raises EnvironmentUnavailable."""
    return {"places": PLACES, "image": as_reference(spec.image)}


def far_engine(where: Address, said: Mapping[str, Any], reference: str) -> FarEngine:
    """Return what the host at `where` said, as far as the image `reference` can be run there.

    Raises EnvironmentUnavailable.
    """
    with hearing(where):
        try:
            return _read(where, said, reference)
        except EnvironmentUnavailable as error:
            raise EnvironmentUnavailable(
                f"{where.host} cannot carry `container`: {error.message}",
                hint=f"on that host: {error.hint}",
            ) from error


def _read(where: Address, said: Mapping[str, Any], reference: str) -> FarEngine:
    if said["machine"] != platform.machine():  # the filter's numbers are this machine's
        raise EnvironmentUnavailable(
            f"it is {one_line(said['machine'])}, and the filter of system calls is made for"
            f" {platform.machine()} here",
            hint="take a host with a processor like this machine's",
        )
    if not said["engine"]:
        raise EnvironmentUnavailable(
            "no container engine runs there that its user may speak to",
            hint=f"{START_ENGINE.partition(',')[0]}, and put the user into its group",
        )
    require_groups(said["info"])
    image = said["image"]
    if image is None:
        raise no_image(reference)
    require_runnable(reference, image)
    parts = said["version"].get("Components") or ()
    return FarEngine(
        where=where,
        socket=str(said["engine"]),
        image=image,
        is_podman=any("podman" in str(part.get("Name", "")).lower() for part in parts),
        identity=identity_of(said),
        folder=str(said["folder"]),
        toolbox=f"{said['code']}/toolbox",
        python=carried_at(str(said["python"]["folder"]), said["python"]["facts"]),
        processors=int(said["processors"]),
    )


def etc_on(host: FarEngine, spec: EnvironmentSpec) -> Mapping[str, str]:
    """Return the files of /etc that the container sees in place of its image's."""
    return etc_files(host.identity, home_of(replace(spec, mounts=())), user=spec.user)


def container_on(host: FarEngine, spec: EnvironmentSpec, environment_id: str) -> Confined:
    """Return how the container of `spec` is made there."""
    own = f"{host.folder}/run"
    workspace = replace(spec.workspace, source=f"{host.folder}/workspace")
    return confined(
        replace(spec, workspace=workspace, mounts=()),
        host.identity,
        image=host.image,
        environment_id=environment_id,
        equipped=Equipped(
            toolbox=host.toolbox,
            python=host.python,
            passing=f"{own}/handing.sock",
            is_podman=host.is_podman,
            profile="" if host.is_podman else engine_profile(),  # there it would be a file's name
            etc={name: f"{own}/{name}" for name in etc_on(host, spec)},
            processors=host.processors,
            replica="" if spec.workspace.is_writable else PASSED,
        ),
    )


def refuse_unstarted(host: FarEngine, made: Mapping[str, Any]) -> None:
    """Raise EnvironmentUnavailable where the host says that it failed."""
    if "failed" not in made:
        return
    if made["failed"] == "shell":
        raise EnvironmentUnavailable(
            "the image has no shell, and commands need one", hint="take an image that has /bin/sh"
        )
    said = f": {one_line(last_words(str(made['said'])))}" if made.get("said") else ""
    kind = StartBroken if made["failed"] in UNANSWERED else EnvironmentUnavailable
    raise kind(
        f"{host.where.host} cannot carry `container`,"
        f" it came up with {one_line(made['failed'])} missing{said}",
        hint=f"look at the container engine there: `{host.where.command}`",
    )


__all__ = [
    "PLACES",
    "FarEngine",
    "container_on",
    "etc_on",
    "far_engine",
    "looked_for",
    "refuse_unstarted",
]
