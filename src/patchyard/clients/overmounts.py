"""Whether a mount would hide a part of the environment it is shown in, known before one starts."""

from posixpath import normpath

from patchyard.clients.walls import KEPT, RESERVED, stands_in
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import UsageError
from patchyard.toolbox import inside

_PARTS = {  # by the kind whose walls stand there; others show this machine as it is
    ExecutionEnvironment.PROCESS: "sandbox",
    ExecutionEnvironment.CONTAINER: "container",
    ExecutionEnvironment.DEVCONTAINER: "container",
    ExecutionEnvironment.VM: "virtual machine",
}


def overmounted(path: str, kind: ExecutionEnvironment) -> UsageError | None:
    """Return the refusal of a mount at the absolute `path` inside; None where it hides nothing."""
    part, target = _PARTS.get(kind), normpath(path)
    if part is None:
        return None
    is_container = part == "container"
    hides = (
        inside.stands_in_container(target)
        if is_container
        else inside.stands_in(target, kept=KEPT, held=RESERVED)
    )
    return stands_in(target, part, is_workspace=False) if hides else None


__all__ = ["overmounted"]
