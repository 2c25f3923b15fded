"""What a virtual machine begins with: files made once, and a state saved once it was up.

All lies in one folder by content hash. A state is saved before any workspace or secret came.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchyard.clients.boot import boot_id
from patchyard.clients.controls import control
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.guest_disks import disk_of, make_disk
from patchyard.clients.guest_kernels import CURE, GuestKernel, find_kernel
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.initramfs import digest_facts, initramfs
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.locks import locked_patiently
from patchyard.clients.machine_shelf import KINDS
from patchyard.clients.qemu import KVM, TCG, Machine, find_qemu, has_kvm
from patchyard.clients.toolbox import bind_listener
from patchyard.clients.wardens import Runner, Start
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.toolbox.wire import loaded

KVM_TIMEOUT_S = 15.0  # to come up: where it works at all it takes 2
BOOT_TIMEOUT_S = 120.0  # without it, on a busy machine
SAVE_TIMEOUT_S = 60.0
KEPT_S = 14 * 24 * 3600.0  # that a file stays which no machine starts from
SYSTEM = Path("/")
FOR_ALL = 0o644  # the agent's user reads it
UNLOADABLE = "load of migration failed"  # QEMU's words for a state that it cannot read
SPARE_BYTES = 1024**3  # that the disk must have left


@dataclass(frozen=True, kw_only=True)
class Template:
    """A machine that can be started as it was when it had just come up."""

    machine: Machine
    state: Path
    why: str  # it runs with this accelerator
    said: str  # of what its disk is made


class Templates:
    """The folder of one installation."""

    def __init__(self, folder: Path, shelf: Path) -> None:
        """`shelf` is where compiled toolboxes are kept."""
        self._folder = folder
        self._shelf = shelf

    async def template(
        self, image: str, *, memory_mib: int, cpus: int, identity: AgentIdentity
    ) -> Template:
        """Return the one for an image folder ("" is this machine itself), made where it is not.

        Raises EnvironmentUnavailable with the cause, UsageError for what is wrong in that folder.
        """
        find_qemu()
        kernel = kernel_for(image)
        python, code = self._code()
        self._folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        async with locked_patiently(self._folder / ".lock"):
            disk, said = await asyncio.to_thread(self._disk, image)
            first = await asyncio.to_thread(self._initramfs, kernel, python, code)
            machine = Machine(
                kernel=kernel.path,
                initramfs=first,
                disk=disk,
                accelerator=TCG,
                memory_mib=memory_mib,
                cpus=cpus,
            )
            made = await self._state(machine, kernel, identity)
            self._use(disk, first, made.state)
        return replace(made, said=said)

    async def forget(self, state: Path, opened: int) -> None:
        """Delete a saved state that turned out to be damaged, unless another one is there by now.

        `opened` is a descriptor of it.
        """
        async with locked_patiently(self._folder / ".lock"):
            _forget(state, opened)

    def _use(self, *files: Path) -> None:
        """Date the use of these; delete what nobody has used for a while."""
        for file in files:
            os.utime(file)
        oldest = time.time() - KEPT_S
        for file in self._folder.iterdir():
            if file.name.startswith(KINDS) and file.stat().st_mtime < oldest:
                file.unlink()

    def _code(self) -> tuple[str, Path]:
        python = toolbox_interpreter().path
        return python, compiled_toolbox(self._shelf, python)

    def _disk(self, image: str) -> tuple[Path, str]:
        source = disk_of(Path(image) if image else None)
        place = self._folder / f"disk-{source.digest[:16]}"
        if not place.exists():
            self._require_room()
            with tempfile.TemporaryDirectory(dir=self._folder) as made:
                tree, file = Path(made, "tree"), Path(made, "disk")
                tree.mkdir(mode=0o755)
                source.fill(tree)
                make_disk(tree, file)
                _kept(file, place, mode=FOR_ALL)
        return place, source.said

    def _require_room(self) -> None:
        free = shutil.disk_usage(self._folder).free
        if free < SPARE_BYTES:
            raise EnvironmentUnavailable(
                f"{free / 1024**2:.0f} MiB are free at {self._folder}, and a virtual machine's"
                f" files take up to {SPARE_BYTES / 1024**2:.0f}",
                hint="`agents gc` returns what no plan needs; or set PATCHYARD_HOME elsewhere",
            )

    def _initramfs(self, kernel: GuestKernel, python: str, code: Path) -> Path:
        place = self._folder / f"initramfs-{_digest(digest_facts(kernel), python, code.name)}"
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=self._folder) as made:
                file = Path(made, "initramfs")
                file.write_bytes(initramfs(kernel, python=python, code=code))
                _kept(file, place, mode=FOR_ALL)
        return place

    async def _state(
        self, machine: Machine, kernel: GuestKernel, identity: AgentIdentity
    ) -> Template:
        """Return the saved state, made anew where there is none, with the best accelerator."""
        why = self._why_not_kvm(kernel)
        if not why:
            quick = replace(machine, accelerator=KVM)
            try:
                state = await self._saved(quick, identity, timeout_s=KVM_TIMEOUT_S)
            except EnvironmentBroken as error:
                why = f"{error.message} (with KVM)"
                self._note(kernel, why)
            else:
                return Template(machine=quick, state=state, why="KVM works", said="")
        try:
            state = await self._saved(machine, identity, timeout_s=BOOT_TIMEOUT_S)
        except EnvironmentBroken as error:
            raise EnvironmentUnavailable(
                error.message, hint="see `agents env check vm`; the kernel may not fit"
            ) from error
        return Template(machine=machine, state=state, why=why, said="")

    def _why_not_kvm(self, kernel: GuestKernel) -> str:
        if not has_kvm():
            return "there is no /dev/kvm that this user may use"
        try:
            noted: dict[str, Any] = loaded(self._noted(kernel).read_text())
        except (FileNotFoundError, ValueError):
            return ""
        return str(noted["why"]) if noted.get("boot") == boot_id() else ""

    def _note(self, kernel: GuestKernel, why: str) -> None:
        self._noted(kernel).write_text(json.dumps({"boot": boot_id(), "why": why}))

    def _noted(self, kernel: GuestKernel) -> Path:
        return self._folder / f"kvm-{_digest(digest_facts(kernel), find_qemu().version)}"

    async def _saved(self, machine: Machine, identity: AgentIdentity, *, timeout_s: float) -> Path:
        """Return the saved state. Raises EnvironmentBroken when the machine does not come up."""
        files = (machine.kernel.stat().st_mtime_ns, machine.initramfs.name, machine.disk.name)
        key = _digest(find_qemu().version, *machine.facts, *files)
        place = self._folder / f"state-{key}"
        if place.exists():
            return place
        self._require_room()
        with tempfile.TemporaryDirectory(dir=self._folder) as made:
            folder = Path(made)
            file = folder / "state"
            await self._save(machine, identity, folder, file, timeout_s=timeout_s)
            _kept(file, place, mode=0o600)
        return place

    async def _save(
        self,
        machine: Machine,
        identity: AgentIdentity,
        folder: Path,
        file: Path,
        *,
        timeout_s: float,
    ) -> None:
        python, code = self._code()
        with contextlib.ExitStack() as stack:
            start = Start(folder, stack)
            stack.callback(start.kill)
            listener, _ = bind_listener(folder)
            stack.enter_context(listener)
            save = stack.enter_context(file.open("wb"))
            start.spawn(
                machine,
                Runner(identity=identity, python=python, code=code),
                listener=listener,
                grace_s=timeout_s + SAVE_TIMEOUT_S,
                save=save.fileno(),
            )
            await start.begun()
            async with control(folder) as asking:
                await asking.ask({"do": "ready"}, timeout_s=timeout_s)
                answer = await asking.ask({"do": "save"}, timeout_s=SAVE_TIMEOUT_S)
            if answer.get("is_whole") is not True:
                raise EnvironmentUnavailable(
                    f"the state of the virtual machine cannot be saved: {str(answer)[:300]}",
                    hint="look whether the disk that holds PATCHYARD_HOME is full",
                )


def kernel_for(image: str) -> GuestKernel:
    """Return the kernel of an image folder, else this machine's. Raises EnvironmentUnavailable."""
    if image and not Path(image).is_dir():
        raise EnvironmentUnavailable(
            f"there is no folder {image} for a virtual machine",
            hint="bring it back, or name another: PATCHYARD_VM_IMAGE, or"
            " `agents resource remove NAME` and `agents resource add vm-image NAME --image FOLDER`",
        )
    kernel = find_kernel(Path(image)) if image else None
    kernel = kernel or find_kernel(SYSTEM)
    if kernel is None:
        raise EnvironmentUnavailable("there is no kernel for a virtual machine", hint=CURE)
    return kernel


def _forget(state: Path, opened: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(state.stat(), os.fstat(opened)):
            state.unlink()


def _kept(file: Path, place: Path, *, mode: int) -> None:
    """Move a file to its place, where no power cut leaves half of it under that name."""
    file.chmod(mode)
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    file.rename(place)


def _digest(*facts: object) -> str:
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


__all__ = [
    "BOOT_TIMEOUT_S",
    "KVM_TIMEOUT_S",
    "SAVE_TIMEOUT_S",
    "UNLOADABLE",
    "Template",
    "Templates",
    "kernel_for",
]
