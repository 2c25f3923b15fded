"""Resources: what a project may use, by type; and which of them `container` means."""

from collections.abc import Sequence
from dataclasses import dataclass

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import ContainerUnavailableError, UsageError

GIT_CHECKOUT = "git-checkout"
TYPES = ("container-instance", "directory", "git-checkout")  # that can be added in this version
CONTAINER_TYPES = ("container-instance", "devcontainer-instance")
KNOWN_TYPES = (*TYPES, *CONTAINER_TYPES, "kubernetes", "ssh-host", "vm-image")


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One thing that plans can use."""

    name: str
    type: str
    location: str = ""  # absolute path
    image: str = ""  # of a container-instance, as its engine names it
    execution_environment: ExecutionEnvironment | None = None  # None: not set (A4, A5)

    @property
    def is_container(self) -> bool:
        """Whether `container` can mean it."""
        return self.type in CONTAINER_TYPES


def require_type(name: str) -> str:
    """Return `name` when resources of this type can be added. Raises UsageError."""
    if name in TYPES:
        return name
    known = ", ".join(TYPES)
    if name in KNOWN_TYPES:
        raise UsageError(f"{name} cannot be added in this version", hint=f"there is: {known}")
    raise UsageError(f"there is no resource type {name!r}", hint=f"there is: {known}")


def container_of(linked: Sequence[Resource]) -> Resource:
    """Return the one container that is linked (A14, F2.17).

    Raises ContainerUnavailableError when there is none, UsageError when there are several.
    """
    found = [resource for resource in linked if resource.is_container]
    if not found:
        raise ContainerUnavailableError(
            "`container` was selected, and no container resource is linked to the project"
        )
    if len(found) > 1:
        names = ", ".join(sorted(resource.name for resource in found))
        raise UsageError(
            f"`container` could mean several linked resources: {names}",
            hint="name one of them in place of `container`",
        )
    return found[0]


__all__ = [
    "CONTAINER_TYPES",
    "GIT_CHECKOUT",
    "KNOWN_TYPES",
    "TYPES",
    "Resource",
    "container_of",
    "require_type",
]
