"""QEMU's command line, and the walls that it runs behind itself.

It sees the system's programs, the files of its machine and nothing else; it has no network, may
start nothing, and is nobody's user but the agent's.
"""

import functools
import os
import platform
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.bubblewrap import Launch, find_bubblewrap, launch
from patchyard.clients.deaths import FREE_MEMORY
from patchyard.clients.identity import AgentIdentity, becoming
from patchyard.clients.walls import Place, Show, View
from patchyard.domain.errors import EnvironmentUnavailable, StartBroken
from patchyard.toolbox.guest import CHANNEL

PROGRAMS: Mapping[str, str] = {"x86_64": "qemu-system-x86_64"}
KVM, TCG = "kvm", "tcg"
KVM_DEVICE = "/dev/kvm"
CPUS: Mapping[str, str] = {KVM: "host", TCG: "max"}
TRANSLATED_MIB = 256  # of translated code that TCG keeps
MACHINE = "pc,usb=off,vmport=off"
KERNEL_LINE = "console=ttyS0 quiet panic=-1 audit=0"
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
FILES = "/run/machine"  # where its files are, inside
TRUNK_FD, QMP_FD, STATE_FD = 50, 51, 52
"""Its ends of the channel and of its monitor; and the state that it begins with."""


@dataclass(frozen=True, kw_only=True)
class Qemu:
    """The program."""

    path: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One virtual machine, before it runs."""

    kernel: Path
    initramfs: Path
    disk: Path
    accelerator: str  # KVM or TCG
    memory_mib: int
    cpus: int

    @property
    def facts(self) -> Sequence[str]:
        """What a saved state of it depends on, but for its files."""
        return (self.accelerator, str(self.memory_mib), str(self.cpus), MACHINE, KERNEL_LINE)


@functools.cache
def find_qemu() -> Qemu:
    """Return the QEMU of this machine. Raises EnvironmentUnavailable."""
    machine = platform.machine()
    name = PROGRAMS.get(machine)
    if name is None:
        raise EnvironmentUnavailable(
            f"virtual machines are not made on {machine}", hint="take another kind"
        )
    path = shutil.which(name, path="/usr/bin:/usr/local/bin")
    if path is None:
        raise EnvironmentUnavailable(
            "QEMU is not installed", hint="apt install qemu-system-x86 (or qemu-kvm)"
        )
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, check=True, timeout=10
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise StartBroken(
            f"{path} does not run: {error}",
            hint=f"`{path} --version` shows why; where the kernel ended it, {FREE_MEMORY}",
        ) from error
    found = re.search(r"version (\S+(?: \([^)]*\))?)", said)
    return Qemu(path=path, version=found[1] if found else said.strip())


def has_kvm() -> bool:
    """Whether this user may use the kernel's own virtualisation; not whether it works."""
    return os.access(KVM_DEVICE, os.R_OK | os.W_OK)


def command(machine: Machine, *, qemu: Qemu, is_restored: bool) -> list[str]:
    """Return the command line of a machine, its files where the walls show them."""
    accelerator = machine.accelerator
    if accelerator == TCG:
        accelerator += f",thread=multi,tb-size={TRANSLATED_MIB}"
    return [
        *(qemu.path, "-name", "patchyard", "-no-user-config", "-nodefaults", "-no-reboot"),
        *("-sandbox", SANDBOX, "-display", "none", "-nic", "none"),
        *("-M", MACHINE, "-accel", accelerator, "-cpu", CPUS[machine.accelerator]),
        *("-m", f"{machine.memory_mib}M", "-smp", str(machine.cpus)),
        *("-kernel", f"{FILES}/kernel", "-initrd", f"{FILES}/initramfs", "-append", KERNEL_LINE),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=monitor,fd={QMP_FD}", "-mon", "chardev=monitor,mode=control"),
        *("-drive", f"file={FILES}/disk,if=none,id=disk,format=raw,readonly=on,file.locking=off"),
        *("-device", "virtio-blk-pci,drive=disk"),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=channel,fd={TRUNK_FD}"),
        *("-device", f"virtserialport,chardev=channel,name={CHANNEL}"),
        *(("-incoming", f"fd:{STATE_FD}") if is_restored else ()),
    ]


@contextmanager
def confined(
    machine: Machine, words: Sequence[str], *, identity: AgentIdentity, folder: Path
) -> Iterator[Launch]:
    """Yield how QEMU's command is started behind its walls; `folder` may take a device node."""
    options = ["--die-with-parent"]
    if machine.accelerator == KVM:
        options += ["--dev-bind", _kvm_device(identity, folder), KVM_DEVICE]
    with launch(
        _view(machine),
        [*becoming(identity), *words],
        bubblewrap=find_bubblewrap(),
        is_root=identity.is_switched,
        options=options,
    ) as prepared:
        yield prepared


def _view(machine: Machine) -> View:
    files = {"kernel": machine.kernel, "initramfs": machine.initramfs, "disk": machine.disk}
    system = (Path(name) for name in SYSTEM)
    return View(
        places=(
            *(_as_here(path) for path in system if path.exists()),
            Place(target="/etc", show=Show.DIRECTORY),
            Place(target="/etc/ld.so.cache", show=Show.COPY, source="/etc/ld.so.cache", mode=0o644),
            Place(target="/proc", show=Show.PROCESSES),
            Place(target="/dev", show=Show.DEVICES),
            Place(target="/run", show=Show.DIRECTORY),
            Place(target=FILES, show=Show.DIRECTORY),
            *(
                Place(target=f"{FILES}/{name}", show=Show.READ_ONLY, source=str(path))
                for name, path in files.items()
            ),
        ),
        home="/",
    )


def _as_here(path: Path) -> Place:
    if path.is_symlink():
        return Place(target=str(path), show=Show.LINK, source=str(path.readlink()))
    return Place(target=str(path), show=Show.READ_ONLY, source=str(path))


def _kvm_device(identity: AgentIdentity, folder: Path) -> str:
    """Return the device; for a root engine a node of it that the agent's user may open."""
    if not identity.is_switched:
        return KVM_DEVICE
    node = folder / "kvm"
    node.unlink(missing_ok=True)
    os.mknod(node, stat.S_IFCHR | 0o600, Path(KVM_DEVICE).stat().st_rdev)
    os.chown(node, identity.uid, identity.gid)
    return str(node)


__all__ = [
    "KVM",
    "KVM_DEVICE",
    "QMP_FD",
    "STATE_FD",
    "TCG",
    "TRUNK_FD",
    "Machine",
    "Qemu",
    "command",
    "confined",
    "find_qemu",
    "has_kvm",
]
