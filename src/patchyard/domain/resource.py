"""Resources: what a project may use, by type; and which of them a named environment means. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from patchyard.domain.environment import (
    HERE,
    ExecutionEnvironment,
    Site,
    kind_of_word,
    no_such_kind,
)
from patchyard.domain.environment_limits import EnvironmentLimits
from patchyard.domain.errors import (
    ContainerUnavailableError,
    EnvironmentUnavailable,
    PatchyardError,
    UnknownName,
    UsageError,
    listing,
)

GIT_CHECKOUT = "git-checkout"
CONTAINER_INSTANCE = "container-instance"
DEVCONTAINER_INSTANCE = "devcontainer-instance"
SSH_HOST = "ssh-host"
LOCALHOST = "localhost"  # this machine itself, unless a resource asks for SSH (F2.20)
VM_IMAGE = "vm-image"
TYPES = (
    CONTAINER_INSTANCE,
    DEVCONTAINER_INSTANCE,
    "directory",
    GIT_CHECKOUT,
    SSH_HOST,
    VM_IMAGE,
)  # that can be added in this version
KINDS: Mapping[str, ExecutionEnvironment] = {
    CONTAINER_INSTANCE: ExecutionEnvironment.CONTAINER,
    DEVCONTAINER_INSTANCE: ExecutionEnvironment.DEVCONTAINER,
    "kubernetes": ExecutionEnvironment.POD,
    SSH_HOST: ExecutionEnvironment.SSH,
    VM_IMAGE: ExecutionEnvironment.VM,
}
"""What runs in a resource of a type; nothing runs in one of another type."""
CARRIED = (ExecutionEnvironment.PROCESS, ExecutionEnvironment.CONTAINER)
"""What an SSH host can carry (F2.6)."""
KNOWN_TYPES = (*TYPES, *KINDS)
CONTAINER_TYPES = (CONTAINER_INSTANCE, DEVCONTAINER_INSTANCE)
MEANT: Mapping[ExecutionEnvironment, Sequence[str]] = {
    ExecutionEnvironment.CONTAINER: CONTAINER_TYPES,
    ExecutionEnvironment.DEVCONTAINER: (DEVCONTAINER_INSTANCE,),
    ExecutionEnvironment.POD: ("kubernetes",),
    ExecutionEnvironment.SSH: (SSH_HOST,),
    ExecutionEnvironment.VM: (VM_IMAGE,),
}
"""Of which types the linked resource is that a kind's word means (F2.1, F2.17)."""
HOW: Mapping[str, str] = {
    CONTAINER_INSTANCE: "container-instance NAME --image IMAGE",
    DEVCONTAINER_INSTANCE: "devcontainer-instance NAME --path .",
    "kubernetes": "kubernetes NAME",
    SSH_HOST: "ssh-host NAME --host HOST",
    VM_IMAGE: "vm-image NAME",
}


class Standing(StrEnum):
    """How a devcontainer stands (A+): found, and then as it was last seen."""

    DISCOVERED = "discovered"
    BUILDING = "building"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One thing that plans can use."""

    name: str
    type: str
    location: str = ""  # absolute path
    image: str = ""  # as a container's engine names it, on its host too; of a vm-image, a folder
    runtime: str = ""  # of a container-instance, as its engine names it; empty: the default
    config: str = ""  # of a devcontainer-instance: its file, relative to the location
    parent: str = ""  # name of the checkout it was discovered in; empty: somebody added it
    address: str = ""  # of an ssh-host: [user@]host[:port], as OpenSSH's configuration names it
    transport: str = ""  # of an ssh-host: `ssh` means SSH even for `localhost` (F2.20)
    carries: ExecutionEnvironment | None = None  # of an ssh-host: what calls run in there (F2.6)
    execution_environment: str | None = None  # a kind or a resource; None: not set (A4, A5)
    limits: EnvironmentLimits = field(default_factory=EnvironmentLimits)  # of what runs in it

    @property
    def site(self) -> Site | None:
        """The place that calls can be routed to; None where nothing runs in it."""
        kind = KINDS.get(self.type)
        return None if kind is None else Site(kind, self.name)


def require_type(name: str) -> str:
    """Return `name` when resources of this type can be added. Raises UsageError."""
    if name in TYPES:
        return name
    known = ", ".join(TYPES)
    if name in KNOWN_TYPES:
        raise UsageError(f"{name} cannot be added in this version", hint=f"known: {known}")
    raise UnknownName.among("resource type", name, TYPES)


def require_free_word(name: str) -> None:
    """Raise UsageError for a resource's name that is the word for a kind of environment."""
    if kind_of_word(name) is not None:
        raise UsageError(
            f"{name!r} is the word for a kind of environment", hint="choose another name"
        )


def site_named(name: str, linked: Sequence[Resource], *, project: str = "") -> Site:
    """Return where `name`, a kind's or a linked resource's, is; `project` is whose links they are.

    Raises ContainerUnavailableError or EnvironmentUnavailable when a kind's word means a resource
    and none is linked (A14), UsageError when several are (F2.17) or nothing runs in the one that
    is named, UnknownName (A15).
    """
    kind = kind_of_word(name)
    if kind is not None:
        return _only(name, kind, linked, project) if kind in MEANT else Site(kind)
    found = next((resource for resource in linked if resource.name == name), None)
    if found is None:
        raise no_such_kind(name, linked=names_of(linked))
    if found.site is None:
        raise nothing_runs(found, linked)
    return found.site


def nothing_runs(found: Resource, linked: Sequence[Resource]) -> UsageError:
    """Return the refusal of a resource as a place, a folder for one; `linked` are those there."""
    return UsageError(
        f"{found.name} is a {found.type}, in which nothing runs",
        hint=f"name a kind, or one of: {listing(names_of(linked)) or 'none is linked'}",
    )


def not_linked(found: Resource, linked: Sequence[Resource], *, project: str = "") -> UnknownName:
    """Return the refusal of a resource that there is, to a project (or none) without its link."""
    return UnknownName(
        f"{found.name} is a {found.type} that is not linked to"
        f" {f'the project {project}' if project else 'a project of this checkout'}",
        hint=f"link it: {_linking(project, found.name)}",
        details={"name": found.name, "known": names_of(linked)},
    )


def names_of(linked: Iterable[Resource]) -> Sequence[str]:
    """Return the names of those that calls can be routed to, sorted."""
    return sorted(resource.name for resource in linked if resource.site is not None)


def _only(name: str, kind: ExecutionEnvironment, linked: Sequence[Resource], project: str) -> Site:
    found = [resource for resource in linked if resource.type in MEANT[kind]]
    if not found:
        raise _nothing_linked(name, kind, project)
    if len(found) > 1:
        names = listing(names_of(found))
        raise UsageError(
            f"`{kind}` could mean several linked resources: {names}",
            hint=f"name one of them in place of `{kind}`",
        )
    return Site(KINDS[found[0].type], found[0].name)


def _linking(project: str, name: str) -> str:
    """Return the commands that link a resource to a project; empty: there may be none yet."""
    link = f"`agents project link-resource {project or 'PROJECT'} {name}`"
    return (
        link if project else f"`agents project create PROJECT` where there is none yet, then {link}"
    )


def _nothing_linked(name: str, kind: ExecutionEnvironment, project: str) -> PatchyardError:
    if kind not in HERE:
        return no_such_kind(name)
    ways = [f"`agents resource add {HOW[wanted]}`" for wanted in MEANT[kind]]
    hint = f"link one: {' or '.join(ways)}, then {_linking(project, 'NAME')}"
    if kind in {ExecutionEnvironment.CONTAINER, ExecutionEnvironment.DEVCONTAINER}:
        what = "container" if kind == ExecutionEnvironment.CONTAINER else DEVCONTAINER_INSTANCE
        return ContainerUnavailableError(
            f"`{kind}` was selected, and no {what} resource is linked to the project", hint=hint
        )
    return EnvironmentUnavailable(
        f"`{kind}` was selected, and no {MEANT[kind][0]} is linked to the project", hint=hint
    )


__all__ = [
    "CARRIED",
    "CONTAINER_INSTANCE",
    "CONTAINER_TYPES",
    "DEVCONTAINER_INSTANCE",
    "GIT_CHECKOUT",
    "HOW",
    "KINDS",
    "KNOWN_TYPES",
    "LOCALHOST",
    "MEANT",
    "SSH_HOST",
    "TYPES",
    "VM_IMAGE",
    "Resource",
    "Standing",
    "names_of",
    "not_linked",
    "nothing_runs",
    "require_free_word",
    "require_type",
    "site_named",
]
