"""The `vm` kind: a virtual machine of QEMU's, restored as it was when it had just come up.

It shares nothing with this machine but one serial channel, over which its toolbox is reached and
the workspace is kept as a replica.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from patchyard.clients import cgroups
from patchyard.clients.belonging import is_own, require_own
from patchyard.clients.berths import (
    MARK,
    Berth,
    Station,
    agent_of,
    berth_directory,
    first_contact,
    from_details,
    group_of,
    remove_berth,
    require_filtered,
    to_details,
    try_out,
)
from patchyard.clients.bubblewrap import find_bubblewrap
from patchyard.clients.containers import home_of, variables_of
from patchyard.clients.controls import control
from patchyard.clients.copies import compiled_toolbox
from patchyard.clients.growth import HomeMeter
from patchyard.clients.guest_filling import fill, require_room
from patchyard.clients.guest_toolbox import GuestToolbox, attached
from patchyard.clients.guests import (
    ENTROPY_BYTES,
    MIB,
    OVERHEAD_BYTES,
    QEMU_TASKS,
    memory_of,
    refuse_unshown,
    told,
)
from patchyard.clients.holding import held_in_machine, unheld
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.interpreters import toolbox_interpreter
from patchyard.clients.machine_shelf import MACHINES
from patchyard.clients.machine_templates import (
    UNLOADABLE,
    Template,
    Templates,
    kernel_for,
)
from patchyard.clients.process import kill_tree
from patchyard.clients.qemu import KVM, find_qemu
from patchyard.clients.wardens import Runner, Start, end_machine
from patchyard.contracts.environment import Meter, Toolbox
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
    Mount,
    Readiness,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, StartBroken
from patchyard.toolbox.last_words import last_words

START_TIMEOUT_S = 60.0  # from the saved state to the toolbox's first answer
MOST_CPUS = 4
HELD_NOWHERE = ("temporary",)  # but by the memory that it lies in
FILLED_PART = 4  # of the memory goes to mounts, at most: one in so many
DAMAGED = "the saved state that it began with was damaged, and has been deleted"
TRY_AGAIN = "try again: the state is made anew, in half a minute where there is no KVM"
END_TIMEOUT_S = 3.0  # the design's bound for ending a tree

ELSEWHERE = "its processes are not this machine's; test_vm_lives.py shows it from inside"
BEFORE = "what is written here comes there before a call, not in it; test_vm_lives.py has its like"
PIPE = "a pipe in the workspace is not shared; test_vm_lives.py has its like"
COUNTED = "what a job writes comes home with calls, not by itself; test_vm_lives.py has its like"
DEVIATIONS: Mapping[str, str] = {
    "test_a_call_goes_on_while_nobody_is_connected": BEFORE,
    "test_a_call_survives_the_kill_of_the_engine_that_made_it": BEFORE,
    "test_a_job_stands_still_during_the_block_and_goes_on_after_it": COUNTED,
    "test_a_toolbox_that_is_gone_keeps_nobody_waiting": COUNTED,
    "test_ending_a_stopped_tree_works": ELSEWHERE,
    "test_ending_takes_along_what_forked_into_a_session_of_its_own": ELSEWHERE,
    "test_the_toolbox_adopts_and_reaps_what_commands_leave": PIPE,
    "test_what_a_dead_engine_left_frozen_goes_on_when_it_is_attached_to": COUNTED,
    "test_what_a_dead_engine_let_the_toolbox_stop_goes_on_by_itself": COUNTED,
}
"""Tests of the contract's suite that do not hold here, with the reason."""


class VmEnvironment:
    """Virtual machines on this one. Stateless."""

    kind = ExecutionEnvironment.VM

    def __init__(self, station: Station) -> None:
        self._station = station

    async def check(self) -> Readiness:
        """Start one of this machine's own programs and end it; say what it runs on."""
        return await try_out(self.kind, self._try_out())

    async def _try_out(self) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(prefix="patchyard-check-") as folder:
            workspace = Mount(source=folder, target="/srv/patchyard-check")
            spec = EnvironmentSpec(plan_id="", purpose="check", workspace=workspace)
            await self.end(await self.start(spec))
            return await self.described(spec)

    async def described(self, spec: EnvironmentSpec) -> Mapping[str, Any]:
        """See contracts.environment.Describing."""
        template = await self._template(spec, agent_of(spec, self._station))
        return {
            "qemu": find_qemu().version,
            "accelerator": template.machine.accelerator,
            "why": template.why,
            "note": _note(template),
            "kernel": str(template.machine.kernel),
            "visible": _described(spec, template),
            "limits": held_in_machine(),
        }

    async def foresee(
        self,
        *,
        image: str,
        runtime: str = "",  # noqa: ARG002 - it has none
        limits: Limits | None = None,
    ) -> None:
        """See contracts.environment.Foreseeing."""
        find_bubblewrap()
        find_qemu()
        kernel_for(image or self._station.machine_image)
        if limits is not None:
            _memory_of(limits)

    async def programs(self, checkout: str, *, image: str = "") -> Mapping[str, str]:
        """Return the disk by its content; see contracts.environment.Furnished."""
        spec = EnvironmentSpec(
            plan_id="", purpose="check", image=image, workspace=Mount(source="", target=checkout)
        )
        template = await self._template(spec, agent_of(spec, self._station))
        return {"image": template.machine.disk.name}

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one. Raises EnvironmentUnavailable with the cause, and leaves nothing then."""
        refuse_unshown(spec)
        _require_sources(spec)
        await asyncio.to_thread(require_room, spec.mounts, room=_room_of(spec.limits))
        identity = agent_of(spec, self._station)
        template = await self._template(spec, identity)
        environment_id = self._station.new_id()
        with contextlib.ExitStack() as undo:
            berth = Berth(self._station, environment_id, plan_id=spec.plan_id)
            undo.callback(berth.discard)
            likely = list(cgroups.own_places(environment_id))  # it may be killed in between
            berth.handle(self.kind, spec.workspace.target, {"group": likely})
            group = _make_group(environment_id, template)
            undo.callback(cgroups.remove_group, group)
            details: dict[str, Any] = {"group": list(group), "source": spec.workspace.source}
            details |= {"is_writable": spec.workspace.is_writable}
            details |= {"unheld": list(unheld(spec.limits, (), nowhere=HELD_NOWHERE))}
            details |= {"memory_mib": template.machine.memory_mib}
            berth.handle(self.kind, spec.workspace.target, details)
            with contextlib.ExitStack() as stack:
                start = Start(berth.directory, stack)
                undo.callback(start.kill)
                state = stack.enter_context(template.state.open("rb"))
                start.spawn(
                    template.machine,
                    Runner(identity=identity, python=toolbox_interpreter().path, code=self._code()),
                    listener=berth.listener,
                    grace_s=spec.orphan_grace_s,
                    state=state.fileno(),
                )
                try:
                    await _succeed(start, berth, group, spec, identity)
                except StartBroken as error:
                    if UNLOADABLE in error.message:
                        await self._templates().forget(template.state, state.fileno())
                        raise StartBroken(f"{error.message} ({DAMAGED})", hint=TRY_AGAIN) from error
                    raise
            undo.pop_all()
        details |= {"init": to_details(start.machine), "monitor": to_details(start.warden)}
        return berth.handle(self.kind, spec.workspace.target, details)

    async def attach(self, handle: EnvironmentHandle) -> Toolbox:
        """Connect to a started one. Raises EnvironmentBroken when it is gone."""
        require_own(self._station, handle)
        init = from_details(handle, "init")
        if init is None or not init.is_alive:
            raise EnvironmentBroken("the vm environment has ended")
        cgroups.thaw(group_of(handle))
        return await attached(self._station, handle)

    def frozen(
        self,
        handle: EnvironmentHandle,  # noqa: ARG002 - what runs there is stopped from inside
        toolbox: Toolbox,
    ) -> AbstractAsyncContextManager[bool]:
        """Keep it still; see contracts.environment.Freezing."""
        assert isinstance(toolbox, GuestToolbox)  # noqa: S101 - what `attach` returned
        return toolbox.still()

    def meter(self, handle: EnvironmentHandle) -> Meter:
        """Count what comes home; see contracts.environment.Measuring."""
        return HomeMeter(handle)

    async def end(self, handle: EnvironmentHandle) -> None:
        """Kill the machine. Raises EnvironmentBroken if it stays."""
        directory = berth_directory(self._station, handle.environment_id)
        if not is_own(self._station, handle):
            remove_berth(directory)
            return
        init, monitor = from_details(handle, "init"), from_details(handle, "monitor")
        if init is None and monitor is None:  # its engine was killed before it knew them
            mark = f"{MARK}={handle.environment_id}"
            await asyncio.to_thread(kill_tree, None, marker=mark, timeout_s=END_TIMEOUT_S)
        group = group_of(handle)
        cgroups.thaw(group)
        if not await asyncio.to_thread(end_machine, init, monitor):
            raise EnvironmentBroken(
                f"environment {handle.environment_id} did not end within {END_TIMEOUT_S:g} s",
                hint=f"process {init.pid if init else '?'} waits inside the kernel; try again",
            )
        await asyncio.to_thread(cgroups.remove_group, group)
        remove_berth(directory)

    def _code(self) -> Path:
        return compiled_toolbox(self._station.prepare(), toolbox_interpreter().path)

    def _templates(self) -> Templates:
        shelf = self._station.prepare()
        return Templates(shelf / MACHINES, shelf)

    async def _template(self, spec: EnvironmentSpec, identity: AgentIdentity) -> Template:
        find_bubblewrap()
        return await self._templates().template(
            spec.image or self._station.machine_image,
            memory_mib=_memory_of(spec.limits),
            cpus=min(os.cpu_count() or 1, MOST_CPUS),
            identity=identity,
        )


async def _succeed(
    start: Start,
    berth: Berth,
    group: tuple[str, ...],
    spec: EnvironmentSpec,
    identity: AgentIdentity,
) -> None:
    """Make it the machine of `spec`. Raises EnvironmentUnavailable with the cause."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            machine = await start.begun()
            await asyncio.to_thread(cgroups.join_group, group, machine.pid)
            async with control(berth.directory) as asking:
                berth.close_listener()
                if spec.mounts:
                    room = _room_of(spec.limits)
                    await asyncio.to_thread(fill, berth.directory, spec.mounts, room=room)
                what = told(
                    spec,
                    identity,
                    now=time.time(),
                    entropy=os.urandom(ENTROPY_BYTES),
                    machine_id=os.urandom(16).hex(),
                )
                await asking.tell(what, timeout_s=START_TIMEOUT_S)
                variables = variables_of(spec, {}, home=home_of(spec))
                hello = await first_contact(berth.path, variables)
        require_filtered(hello, "the virtual machine")
    except (EnvironmentBroken, OSError, TimeoutError) as error:
        await asyncio.to_thread(start.kill)
        why = last_words(str(error)) or f"nothing came within {START_TIMEOUT_S:g} s"
        kind = EnvironmentUnavailable if isinstance(error, TimeoutError) else StartBroken
        raise kind(
            f"the virtual machine did not start: {why}",
            hint="`agents env check vm` says what works here",
        ) from error


def _memory_of(limits: Limits) -> int:
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return memory_of(limits, host_bytes=host)


def _room_of(limits: Limits) -> int:
    """Return how many bytes of files a machine of this size takes beside the workspace."""
    return _memory_of(limits) * MIB // FILLED_PART


def _note(template: Template) -> str:
    """Return what a person should know of how it runs here."""
    if template.machine.accelerator == KVM:
        return "with KVM"
    return f"with TCG, many times slower than KVM: {template.why}"


def _make_group(environment_id: str, template: Template) -> tuple[str, ...]:
    """Bound QEMU itself: a guest that breaks into it gets no more than a guest."""
    memory = template.machine.memory_mib * 1024 * 1024 + OVERHEAD_BYTES
    membership = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    limits = Limits(memory_bytes=memory, processes=QEMU_TASKS)
    return cgroups.make_group(f"patchyard-{environment_id}", limits, membership=membership)


def _require_sources(spec: EnvironmentSpec) -> None:
    for mount in (spec.workspace, *spec.mounts):
        if not os.access(mount.source, os.F_OK):
            raise EnvironmentUnavailable(
                f"there is no {mount.source} to bring into the virtual machine",
                hint="look whether it was removed meanwhile",
            )


def _described(spec: EnvironmentSpec, template: Template) -> list[dict[str, str]]:
    """Return a row (path, access, source) for each place that `spec` shows."""
    return [
        {"path": "/", "access": "read-only", "source": template.said},
        {"path": spec.workspace.target, "access": "a copy, kept equal", "source": "the workspace"},
        *(
            {"path": path, "access": "empty, in memory", "source": ""}
            for path in ("/dev/shm", "/home", "/tmp", "/var/tmp")  # noqa: S108 - inside
        ),
    ]


__all__ = [
    "DEVIATIONS",
    "END_TIMEOUT_S",
    "HELD_NOWHERE",
    "MOST_CPUS",
    "START_TIMEOUT_S",
    "VmEnvironment",
]
