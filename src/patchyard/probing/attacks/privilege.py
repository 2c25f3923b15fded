"""More rights."""

from patchyard.probing.attack import Attack, Control, Evidence, Group
from patchyard.probing.evidence import root_owned_setuid, said


def _of(
    name: str,
    title: str,
    script: str,
    control: Control = Control.PLAIN,
    evidence: Evidence = said,
) -> Attack:
    return Attack(
        name=name,
        group=Group.PRIVILEGE,
        title=title,
        script=script,
        evidence=evidence,
        control=control,
        needs_root=control is Control.AGENT,
    )


ATTACKS = (
    _of("setuid-program", "run a set-user-ID program of root", "setuid_program", Control.AGENT),
    _of(
        "setuid-left",
        "leave a set-user-ID program of root behind",
        "leave_setuid",
        evidence=root_owned_setuid,
    ),
    _of("file-to-root", "give a file to root", "own_by_root", evidence=root_owned_setuid),
    _of("root", "become root", "become_root", Control.NAMESPACES),
    _of("capabilities", "hold a capability", "hold_capabilities", Control.NAMESPACES),
    _of("privileges-by-exec", "gain rights by running a program", "gain_by_exec"),
    _of("user-namespace", "make a user namespace (unshare)", "user_namespace"),
    _of("user-namespace-clone", "make a user namespace (clone)", "user_namespace_by_clone"),
    _of("user-namespace-clone3", "make a user namespace (clone3)", "user_namespace_by_clone3"),
    _of("other-namespaces", "make other namespaces", "other_namespaces", Control.NAMESPACES),
    _of("keyring-written", "put a key into the user's keyring", "keyring"),
    _of("keyring-read", "reach the user's keyring", "read_keyring"),
    _of("mount", "mount a file system", "mount", Control.NAMESPACES),
    _of("mount-new-calls", "mount by the newer calls", "mount_anew", Control.NAMESPACES),
    _of("chroot", "change the root", "change_root", Control.NAMESPACES),
    _of("io-uring", "make requests by a ring (io_uring)", "io_uring"),
    _of("bpf", "put maps and programs into the kernel (bpf)", "bpf"),
    _of("userfaultfd", "take over page faults (userfaultfd)", "userfaultfd"),
    _of("perf", "watch the machine's counters (perf)", "perf_event"),
    _of("kernel-module", "load a module into the kernel", "kernel_module"),
    _of("kernel-log", "read the kernel's messages", "kernel_log"),
    _of("swap", "swap into a file", "swap"),
    _of("other-numbering", "call by the numbers of other programs (x32)", "other_numbering"),
)

__all__ = ["ATTACKS"]
