"""Whether a workspace or a mount would hide a part of its environment: known before one starts."""
# ruff: noqa: S108 - these are paths inside, each a new folder in memory

from posixpath import normpath

from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment
from patchyard.domain.errors import UsageError
from patchyard.toolbox import inside

RESERVED = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev", "/sys", "/run"),
    *("/home", "/tmp", "/var/tmp"),
)
"""Neither a workspace nor a mount may stand in for one of these, or hold one."""
KEPT = ("/proc", "/sys", "/dev", inside.PLACE)
"""Nor may one lie below one of these."""
PARTS = {  # by the kind whose walls stand there; others show this machine as it is
    ExecutionEnvironment.PROCESS: "sandbox",
    ExecutionEnvironment.CONTAINER: "container",
    ExecutionEnvironment.DEVCONTAINER: "container",
    ExecutionEnvironment.VM: "virtual machine",
}


def overmounted(
    path: str, kind: ExecutionEnvironment, *, is_workspace: bool = False
) -> UsageError | None:
    """Return the refusal of what is shown at the absolute `path` inside; None: it hides nothing."""
    target, part = normpath(path), PARTS.get(kind)
    if part is None:
        return None
    is_hiding = (
        inside.stands_in_container(target)
        if part == PARTS[ExecutionEnvironment.CONTAINER]
        else inside.stands_in(target, kept=KEPT, held=RESERVED)
    )
    if not is_hiding:
        return None
    hint = f"show a folder below it (`--mount {target.rstrip('/')}/NAME`), or take another kind"
    if is_workspace:
        hint = "move the checkout to a folder of its own, or take another kind"
    return UsageError(f"{target} would stand in for a part of the {part}", hint=hint)


def refuse_overmounts(spec: EnvironmentSpec, kind: ExecutionEnvironment) -> None:
    """Raise UsageError where the workspace or a mount would hide a part of that kind's place."""
    for mount in (spec.workspace, *spec.mounts):
        refusal = overmounted(mount.target, kind, is_workspace=mount is spec.workspace)
        if refusal is not None:
            raise refusal


__all__ = ["KEPT", "PARTS", "RESERVED", "overmounted", "refuse_overmounts"]
