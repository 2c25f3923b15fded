"""What a container engine answers where it does not do what it is asked, with the cure."""

from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.machine import ENGINE_ROOM, is_full_disk


def refused(said: str) -> EnvironmentUnavailable:
    """Return the error for an engine that said no, in its own words."""
    return EnvironmentUnavailable(
        f"the container engine refused: {said}",
        hint=ENGINE_ROOM if is_full_disk(said) else "`agents doctor` shows more",
    )


def silence(socket: str, said: str) -> str:
    """Return the words for an engine that does not answer."""
    return f"the container engine at {socket} does not answer: {said}"


__all__ = ["refused", "silence"]
