"""Where the container engine of this machine listens."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from patchyard.domain.errors import EnvironmentUnavailable

PLACES = ("/var/run/docker.sock", "{own}/docker.sock")
"""Where an engine's socket lies; `{own}` is the user's folder of run-time files."""
START_ENGINE = "start it (`systemctl start docker`), or name its socket in DOCKER_HOST"


def engine_socket(environ: Mapping[str, str]) -> str:
    """Return the path of the container engine's socket. Raises EnvironmentUnavailable."""
    named = environ.get("DOCKER_HOST", "")
    if named:
        scheme, _, path = named.partition("://")
        if scheme != "unix":
            raise EnvironmentUnavailable(
                f"DOCKER_HOST names {named}, and only an engine of this machine can be used",
                hint="set it to unix:// and the path of a socket, or unset it",
            )
        return path
    own = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    places = (each.format(own=own) for each in PLACES)
    found = next((place for place in places if _is_socket(place)), None)
    if found is None:
        raise EnvironmentUnavailable("no container engine runs here", hint=START_ENGINE)
    return found


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return False


__all__ = ["PLACES", "START_ENGINE", "engine_socket"]
