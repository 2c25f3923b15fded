"""What only virtual machines do: begin from one saved state, stand still, lose their warden."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from environments.test_environment_lives import STARTER
from environments.yards import VM, Adapter, Running, Start, Yard, held_still
from patchyard.clients.berths import MARK, from_details
from patchyard.clients.controls import open_control
from patchyard.clients.guest_toolbox import WatchedToolbox
from patchyard.clients.process import ProcessRef, all_processes, kill, marked, wait_ended
from patchyard.contracts.environment import Freezing
from patchyard.domain.codec import from_json
from patchyard.domain.environment import EnvironmentHandle, Limits, Mount
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from timing import promised

pytestmark = [pytest.mark.anyio, pytest.mark.service("qemu")]

DIFFERENT = """
import os, uuid
print(os.urandom(16).hex(), uuid.uuid4(), hash("text"))
print(open("/proc/sys/kernel/random/boot_id").read().strip())
print(open("/etc/machine-id").read().strip(), os.uname().nodename)
"""


@pytest.fixture(params=[VM])
def adapter(request: pytest.FixtureRequest, yard: Yard) -> Adapter:
    return yard.adapter(request.param)


def process(running: Running, name: str) -> ProcessRef:
    found = from_details(running.handle, name)
    assert found is not None
    return found


def folder(yard: Yard, running: Running) -> Path:
    return yard.station.runtime / running.handle.environment_id


def left_of(running: Running) -> list[ProcessRef]:
    return marked(f"{MARK}={running.handle.environment_id}", all_processes())


async def stood_still(running: Running) -> None:
    with pytest.raises(EnvironmentBroken, match="stands still"):
        await running.result("true")


async def test_two_machines_of_one_saved_state_are_not_alike(start: Start, yard: Yard) -> None:
    one, two = [(await (await start(yard.spec())).python(DIFFERENT)).split() for _ in range(2)]
    assert len(one) == len(two) == 6
    assert not set(one) & set(two)


async def test_its_clock_is_that_of_its_engine(start: Start, yard: Yard) -> None:
    before = time.time()
    running = await start(yard.spec())
    seen = float(await running.run("date +%s.%N"))
    assert before < seen < time.time() + 1


async def test_nothing_of_a_plan_is_in_the_saved_state(start: Start, yard: Yard) -> None:
    secret = "kept-for-this-machine-alone"
    (yard.workspace / "file").write_text(secret)
    yard.variables["TOKEN"] = secret
    running = await start(yard.spec())
    assert secret in await running.run("cat file; echo $TOKEN")
    states = list((yard.station.prepare() / "vm").glob("state-*"))
    assert states
    assert not any(secret.encode() in state.read_bytes() for state in states)


async def test_a_call_goes_on_while_its_engine_is_away(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    await running.run("mkfifo /tmp/gate")
    told = "echo began > began; read x < /tmp/gate; echo got $x | tee got"
    task = asyncio.create_task(running.result(told, call_id="01GATE"))
    while await running.run("cat began 2>/dev/null") != "began":
        continue
    task.cancel()
    await running.toolbox.close()
    again = await adapter.attach(running.handle)
    await again.call("01WORD", "execute_command", {"command": "echo word > /tmp/gate"})
    result = await again.attach("01GATE")
    await again.close()
    assert result is not None
    assert result["stdout"] == "got word\n"
    assert (yard.workspace / "got").read_text() == "got word\n"


async def test_a_machine_that_stands_still_breaks_its_calls_and_ends(
    start: Start, adapter: Adapter, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WatchedToolbox, "look_s", 0.2)
    running = await start(yard.spec())
    pausing = await open_control(folder(yard, running))
    await pausing.ask({"do": "pause"})
    async with asyncio.timeout(120):
        await stood_still(running)
    await adapter.end(running.handle)
    pausing.close()
    assert left_of(running) == []


async def test_a_machine_goes_on_when_whoever_paused_it_is_gone(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    pausing = await open_control(folder(yard, running))
    await pausing.ask({"do": "pause"})
    pausing.close()
    assert await running.run("echo on") == "on"


async def test_a_stopped_machine_is_ended(start: Start, adapter: Adapter, yard: Yard) -> None:
    running = await start(yard.spec())
    for name in ("init", "monitor"):
        kill(process(running, name), signal.SIGSTOP)
    await adapter.end(running.handle)
    assert left_of(running) == []
    assert not folder(yard, running).exists()


async def test_a_killed_machine_breaks_the_call_in_flight(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    task = asyncio.create_task(running.result("echo began > /tmp/x; sleep 300"))
    await running.run("until [ -s /tmp/x ]; do :; done")
    kill(process(running, "init"))
    with pytest.raises(EnvironmentBroken):
        await task
    with pytest.raises(EnvironmentBroken):
        await adapter.attach(running.handle)
    await adapter.end(running.handle)
    assert left_of(running) == []


async def test_a_machine_does_not_outlive_its_warden(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    kill(process(running, "monitor"))
    machine = process(running, "init")
    assert await asyncio.to_thread(wait_ended, machine, timeout_s=60)


async def test_a_machine_ends_with_its_toolbox(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    machine = process(running, "init")
    with pytest.raises(EnvironmentBroken):
        await running.run("kill -9 $PPID; sleep 30")
    assert await asyncio.to_thread(wait_ended, machine, timeout_s=60)


async def test_what_a_killed_engine_never_noted_is_ended_by_its_mark(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    details = {
        name: value
        for name, value in running.handle.details.items()
        if name not in {"init", "monitor"}
    }
    await adapter.end(replace(running.handle, details=details))
    assert left_of(running) == []


async def test_planning_reads_and_cannot_write(start: Start, yard: Yard) -> None:
    (yard.workspace / "file").write_text("as it is")
    running = await start(yard.spec(is_writable=False))
    assert await running.run("cat file") == "as it is"
    said = await running.run("echo more >> file; touch new; rm file; cat file")
    assert said.count("Read-only file system") == 3
    (yard.workspace / "file").write_text("changed at home")
    assert await running.run("cat file") == "changed at home"
    assert sorted(path.name for path in yard.workspace.iterdir()) == ["file"]


async def test_the_machine_itself_is_confined(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    machine = process(running, "init")
    place = Path("/proc", str(machine.pid))
    status = dict(
        line.split(":\t", 1)
        for line in (place / "status").read_text().splitlines()
        if ":\t" in line
    )
    assert status["Seccomp"] == "2"
    assert status["NoNewPrivs"] == "1"
    assert {status[name].strip("0") for name in ("CapPrm", "CapEff", "CapBnd")} == {""}
    assert "0" not in status["Uid"].split()
    own = Path("/proc/self/ns")
    for space in ("net", "pid", "ipc", "mnt", "uts"):
        assert (place / "ns" / space).readlink() != (own / space).readlink()
    seen = {each.name for each in (place / "root").iterdir()}  # of another process
    assert not {"home", "root", "tmp", "var"} & seen


async def test_the_guest_has_no_right_and_no_network(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    status = await running.run("cat /proc/self/status")
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert await running.run("id -u") == str(os.geteuid() or 60900)
    assert "Read-only file system" in await running.run("touch /usr/x /etc/x /x 2>&1 | tail -1")
    assert await running.run("ls /sys/class/net /dev/vda /dev/vport* 2>/dev/null") == ""
    devices = await running.run("tail -n +3 /proc/net/dev | cut -d: -f1")
    assert devices.split() == ["lo"]
    nested = await running.run("unshare --user true")
    assert "failed" in nested or "not permitted" in nested


async def test_ending_takes_no_longer_than_it_may(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    running = await start(yard.spec())
    await running.run("(setsid sh -c 'while :; do :; done' &)")
    async with asyncio.timeout(promised(3)):
        await adapter.end(running.handle)
    assert not process(running, "init").is_alive


async def test_what_is_mounted_read_only_is_brought_along(start: Start, yard: Yard) -> None:
    shown = yard.folder / "shown"
    (shown / "inner").mkdir(parents=True)
    (shown / "inner" / "file").write_text("brought")
    (shown / "link").symlink_to("inner/file")
    os.mkfifo(shown / "pipe")
    within = str(yard.workspace / "vendor")
    one = shown / "inner" / "file"
    running = await start(
        yard.spec(
            Mount(source=str(shown), target="/data/shown"),
            Mount(source=str(shown), target=within),
            Mount(source=str(one), target="/data/one"),
        )
    )
    assert await running.run("cat /data/shown/link vendor/inner/file /data/one") == "brought" * 3
    assert "Read-only" in await running.run("echo x > /data/one")
    assert "Read-only" in await running.run("touch vendor/new")
    await running.run("echo own > own")
    assert (yard.workspace / "own").read_text() == "own\n"
    assert not list((yard.workspace / "vendor").glob("*"))


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        (Mount(source="/usr/bin", target="/data", is_writable=True), "cannot be written to"),
        (Mount(source="/usr/lib", target="/data"), "more than the"),
    ],
)
async def test_a_mount_that_cannot_be_brought_is_refused_and_nothing_left(
    adapter: Adapter, yard: Yard, mount: Mount, said: str
) -> None:
    limits = Limits(memory_bytes=512 * 1024**2)
    with pytest.raises(EnvironmentUnavailable, match=said) as refused:
        await adapter.start(yard.spec(mount, limits=limits))
    assert refused.value.hint


DIES = """
async def main():
    handle = await adapter.start(spec)
    toolbox = await adapter.attach(handle)
    started = asyncio.Event()
    command = "mkfifo /tmp/gate; echo begun; read x < /tmp/gate; echo $x > got"
    call = asyncio.create_task(toolbox.call(
        "01CALL", "execute_command", {"command": command}, on_output=lambda *_: started.set()
    ))
    await started.wait()
    print(json.dumps(to_json(handle)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def died(script: str, yard: Yard) -> EnvironmentHandle:
    """The handle that an engine printed before it killed itself."""
    kind = f"vm={yard.station.machine_image}"
    words = [
        sys.executable,
        "-c",
        STARTER + script,
        kind,
        str(yard.folder),
        str(yard.station.shelf),
    ]
    # Where it is the first, it makes the saved state too.
    run = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    return from_json(EnvironmentHandle, json.loads(run.stdout.splitlines()[-1]))


async def test_a_call_survives_the_kill_of_its_engine_and_its_files_come_home(
    adapter: Adapter, yard: Yard
) -> None:
    handle = await asyncio.to_thread(died, DIES, yard)
    toolbox = await adapter.attach(handle)
    await toolbox.call("01WORD", "execute_command", {"command": "echo word > /tmp/gate"})
    result = await toolbox.attach("01CALL")
    assert result is not None
    assert result["success"] is True
    assert (yard.workspace / "got").read_text() == "word\n"
    await toolbox.close()
    await adapter.end(handle)
    assert marked(f"{MARK}={handle.environment_id}", all_processes()) == []


async def test_a_job_stands_still_with_its_files_at_home(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    job = {"command": "while :; do echo x >> counter; sleep 0.01; done", "background": True}
    await running.toolbox.call("count", "execute_command", job)
    await running.run("until [ -s counter ]; do sleep 0.01; done")
    async with held_still(running):
        at_home = (yard.workspace / "counter").read_text()
        assert at_home
        inside = await running.toolbox.call("look", "read_file", {"path": "counter"})
        assert inside["content"] == at_home
    grown = f"until [ $(wc -l < counter) -gt {at_home.count('x')} ]; do sleep 0.01; done; echo on"
    assert await running.run(grown) == "on"


async def test_a_machine_that_is_gone_keeps_no_checkpoint_waiting(
    start: Start, adapter: Adapter, yard: Yard
) -> None:
    assert isinstance(adapter, Freezing)
    running = await start(yard.spec())
    job = {"command": "sleep 300", "background": True}
    await running.toolbox.call("job", "execute_command", job)
    machine = process(running, "init")
    kill(machine)
    assert await asyncio.to_thread(wait_ended, machine, timeout_s=60)
    async with asyncio.timeout(120), adapter.frozen(running.handle, running.toolbox) as is_still:
        assert not is_still
