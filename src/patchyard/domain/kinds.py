"""What each kind of environment needs and what its walls are, in words for people. Pure."""

from collections.abc import Mapping

from patchyard.domain.environment import ExecutionEnvironment, is_gvisor

UNCONFINED = "none: commands are as free as their user"
IMAGE = "Docker's or Podman's socket, an image with a shell"
NEEDS: Mapping[ExecutionEnvironment, str] = {
    ExecutionEnvironment.HOST: "nothing",
    ExecutionEnvironment.MOCK: "nothing",
    ExecutionEnvironment.PROCESS: "bubblewrap 0.5 or newer, libseccomp",
    ExecutionEnvironment.CONTAINER: IMAGE,
    ExecutionEnvironment.DEVCONTAINER: f"{IMAGE}, a devcontainer.json",
    ExecutionEnvironment.VM: "x86-64, QEMU, bubblewrap, a kernel with its modules",
    ExecutionEnvironment.SSH: (
        "a host with a known key, a way in without a question, Python 3.8 or newer there"
    ),
}
CONTAINED = "a container: no right, no network, a read-only image; the kernel is shared"
WALLS: Mapping[ExecutionEnvironment, str] = {
    ExecutionEnvironment.HOST: f"{UNCONFINED} on this machine",
    ExecutionEnvironment.MOCK: f"{UNCONFINED} on this machine",
    ExecutionEnvironment.PROCESS: (
        "a sandbox: an allow-list of places, no right, no network; the kernel is shared"
    ),
    ExecutionEnvironment.CONTAINER: CONTAINED,
    ExecutionEnvironment.DEVCONTAINER: CONTAINED,
    ExecutionEnvironment.VM: "a machine of its own: another kernel, no network, no shared folder",
    ExecutionEnvironment.SSH: f"{UNCONFINED} on that host; of this machine nothing is there",
}


def needs_of(kind: ExecutionEnvironment, *, is_local: bool = False) -> str:
    """Return what a place of a kind needs; `is_local`: an SSH host that is this machine itself."""
    return NEEDS.get(ExecutionEnvironment.HOST if is_local else kind, "")


def walls_said(
    kind: ExecutionEnvironment,
    *,
    runtime: str = "",
    carries: ExecutionEnvironment | None = None,
    is_local: bool = False,
) -> str:
    """Return what keeps the work in a place apart from the rest; see domain.resource.Resource."""
    if is_local:
        return f"{WALLS[ExecutionEnvironment.HOST]}, which `localhost` is"
    if carries is not None:
        return f"on that host {WALLS[carries]}"
    if kind == ExecutionEnvironment.CONTAINER and is_gvisor(runtime):
        return "a container in gVisor: no right, no network, a kernel of its own in user space"
    return WALLS.get(kind, "")


__all__ = ["NEEDS", "WALLS", "needs_of", "walls_said"]
