"""What a kind is known not to stop, by the attack's name. A kind that is not here stops all."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from patchyard.domain.environment import ExecutionEnvironment, is_gvisor
from patchyard.domain.gvisor import CURE, SAFE


class Only(StrEnum):
    """Where an attack that is known succeeds."""

    ALWAYS = "always"
    ORDINARY = "where the engine is not root"  # else the agent is another user than the engine
    OPEN = "where the machine leaves that open to its users"


@dataclass(frozen=True, kw_only=True)
class Known:
    """Why an attack is not stopped."""

    why: str
    only: Only = Only.ALWAYS


FILES = "no walls: every file that its user may use"
PROCESSES = "no walls: the processes of the same user, other plans' among them"
SOCKETS = "no walls: every socket that its user may use"
NETWORK = "no walls: the machine's own network"
KERNEL = "no filter: all that the kernel grants a user"
PLANNING = "the workspace is not read-only; the engine lets no command run there while planning"
GROUPS = "no control group holds all of it together, unless this machine lets one be made"
SAME_USER = "the agent is the engine's own user"


def _all(names: str, why: str, only: Only = Only.ALWAYS) -> dict[str, Known]:
    return {name: Known(why=why, only=only) for name in names.split()}


NO_WALLS: Mapping[str, Known] = {
    **_all(
        "file-by-path file-by-parent file-by-symlink file-by-hard-link file-overwritten"
        " file-deleted file-added file-by-proc-root file-by-proc-fd files-left inodes"
        " memory-folders other-plan",
        FILES,
    ),
    **_all("device-opened", FILES, Only.OPEN),
    **_all(
        "process-killed process-traced memory-by-call memory-by-file descriptor-taken"
        " limits-changed shared-memory message-queue shared-file variables-of-others"
        " arguments-of-others",
        PROCESSES,
    ),
    **_all("unmarked-daemon fork-bomb", GROUPS, Only.OPEN),
    **_all(
        "socket-by-path socket-abstract socket-abstract-datagram docker-socket ssh-agent-socket"
        " d-bus-socket tmux-socket database-socket terminal-written terminal-typed"
        " terminal-typed-wide",
        SOCKETS,
    ),
    **_all(
        "tcp-loopback tcp-loopback-ipv6 tcp-loopback-mapped udp-loopback dns proxy-unset"
        " metadata-route other-networks-route hypervisor-socket",
        NETWORK,
    ),
    **_all(
        "user-namespace user-namespace-clone user-namespace-clone3 keyring-written keyring-read"
        " io-uring userfaultfd perf",
        KERNEL,
    ),
    **_all("bpf kernel-log other-numbering", KERNEL, Only.OPEN),
    **_all(
        "planning-write planning-create planning-delete planning-rename planning-link"
        " planning-mode planning-times planning-truncate planning-descriptor planning-mmap",
        PLANNING,
    ),
    **_all(
        "toolbox-memory toolbox-variables toolbox-code engine-state journal toolbox-spoken-to",
        SAME_USER,
        Only.ORDINARY,
    ),
}
"""Of places without walls. `mock` is `host`; `ssh` has the same where it leads to."""

IN_GVISOR: Mapping[str, Known] = _all(
    "toolbox-variables",
    f"gVisor before {SAFE} shows what the toolbox has open to agent code; {CURE}",
)
"""Of containers in an old gVisor; a newer one stops that too."""

KNOWN: Mapping[ExecutionEnvironment, Mapping[str, Known]] = {
    ExecutionEnvironment.HOST: NO_WALLS,
    ExecutionEnvironment.MOCK: NO_WALLS,
    ExecutionEnvironment.SSH: NO_WALLS,
}


def known_of(
    kind: ExecutionEnvironment, runtime: str = ""
) -> Mapping[ExecutionEnvironment, Mapping[str, Known]]:
    """Return what is known of a kind whose containers have that runtime."""
    return {**KNOWN, kind: IN_GVISOR} if is_gvisor(runtime) else KNOWN


__all__ = ["IN_GVISOR", "KNOWN", "NO_WALLS", "Known", "Only", "known_of"]
