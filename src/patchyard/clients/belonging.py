"""Whose an environment is: this home's, or that of the home which this one is a copy of.

A copy has every note and every process number of the original. What no copy shares is which folder
it is: its device and inode.
"""

from patchyard.clients.berths import FOLDER, Station, berth_directory, identify_folder
from patchyard.clients.vitals import answers
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.errors import EnvironmentBroken


def is_own(station: Station, handle: EnvironmentHandle) -> bool:
    """Whether an environment was started in the very folder that this home has of it.

    Only then its processes, control groups, containers and far folders may be touched. A note of
    an older version does not say which folder that was: there its socket has to answer.
    """
    directory = berth_directory(station, handle.environment_id)
    noted = handle.details.get(FOLDER)
    try:
        if noted is None:
            return any(answers(path) for path in directory.iterdir() if path.is_socket())
        found = identify_folder(directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    has_restarted = noted["boot"] != found["boot"]  # a device may have another number by then
    is_device = has_restarted or noted["device"] == found["device"]
    return is_device and bool(noted["inode"] == found["inode"])


def require_own(station: Station, handle: EnvironmentHandle) -> None:
    """Raise EnvironmentBroken for one of another home, and for one whose folder is gone."""
    if is_own(station, handle):
        return
    directory = berth_directory(station, handle.environment_id)
    if handle.details.get(FOLDER) is None or not directory.exists():
        raise EnvironmentBroken(f"the {handle.kind} environment has ended")
    raise EnvironmentBroken(
        f"environment {handle.environment_id} is another home's: {directory} is a copy",
        hint="`agents gc` takes the copied folder away; what runs there goes on",
    )


__all__ = ["is_own", "require_own"]
