"""Processes that end, stay or die at the wrong moment; mounts, clocks and disks around them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from patchyard.clients import process as processes
from patchyard.clients.clock import SystemClock
from patchyard.clients.disk import LocalDisk
from patchyard.clients.mounts import is_mounted, unmount
from patchyard.clients.process import (
    ProcessRef,
    ProcessStat,
    identify,
    kill,
    kill_tree,
    kill_while_starting,
    wait_ended,
)


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    running = subprocess.Popen(["sleep", "60"])
    yield running
    running.kill()
    running.wait()


def test_processes_that_others_hide_are_not_there(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: str, mode: str) -> object:
        if path != f"/proc/{child.pid}/stat":
            raise PermissionError(1, "Operation not permitted", path)  # as hidepid=1 has it
        return Path(path).open(mode)

    monkeypatch.setattr(processes, "open", opened, raising=False)

    assert [each.pid for each in processes.all_processes()] == [child.pid]
    assert identify(1) is None


def ref_of(running: "subprocess.Popen[bytes]") -> ProcessRef:
    found = identify(running.pid)
    assert found is not None
    return found


def test_a_process_that_stays_is_said_to_stay(child: "subprocess.Popen[bytes]") -> None:
    process = ref_of(child)
    assert wait_ended(process, timeout_s=0.01) is False
    assert kill(process) is True
    assert wait_ended(process, timeout_s=60) is True
    assert kill(process) is False
    assert wait_ended(process, timeout_s=60) is True


def test_a_process_whose_number_a_thread_has_now_is_gone() -> None:
    numbers: Queue[int] = Queue()
    done = threading.Event()

    def work() -> None:
        numbers.put(threading.get_native_id())
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        ended = ProcessRef(pid=numbers.get(timeout=60), started=1)
        assert kill(ended) is False
        assert wait_ended(ended, timeout_s=60) is True
    finally:
        done.set()
        thread.join()


def test_a_process_that_ends_while_it_is_signalled_is_gone(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ref_of(child)

    def too_late(_descriptor: int, _number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(signal, "pidfd_send_signal", too_late)
    assert kill(process) is False


def test_a_tree_that_does_not_die_in_time_is_said_to_stay(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ref_of(child)
    monkeypatch.setattr(processes, "marked", lambda _marker, _stats: [process])
    monkeypatch.setattr(processes, "kill", lambda *_: True)
    assert kill_tree(None, marker="A=b", timeout_s=0.01) is False
    assert process.is_alive


def test_an_orphan_in_the_middle_of_an_exec_is_killed_too(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ref_of(child)
    until = time.monotonic() + processes.EXEC_S / 2

    def shown(_marker: str, _stats: list[ProcessStat]) -> list[ProcessRef]:
        return [process] if time.monotonic() > until and process.is_alive else []

    monkeypatch.setattr(processes, "all_processes", list)
    monkeypatch.setattr(processes, "marked", shown)
    assert kill_tree(None, marker="A=b", timeout_s=60)
    assert not process.is_alive


def test_a_process_that_does_not_stop_is_killed_all_the_same(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ref_of(child)
    monkeypatch.setattr(processes, "STOP_TIMEOUT_S", 0.0)
    kill_while_starting(process)
    assert wait_ended(process, timeout_s=60)
    assert not process.is_alive


def test_a_mount_that_may_not_be_taken_away_is_an_error(tmp_path: Path) -> None:
    assert not is_mounted(tmp_path / "none")
    unmount(tmp_path / "none")
    tries = "from pathlib import Path; from patchyard.clients.mounts import unmount; "
    command = [sys.executable, "-c", f"{tries}unmount(Path('/proc'))"]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set", "-sys_admin", *command]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "unmounting /proc failed" in done.stderr


def test_ids_increase_even_within_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    assert clock.now() > 1_700_000_000
    assert clock.monotonic() <= clock.monotonic()
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    made = [clock.new_id() for _ in range(50)]
    assert made == sorted(set(made))


def test_a_disk_says_nothing_of_what_is_not_there(tmp_path: Path) -> None:
    disk = LocalDisk()
    none = str(tmp_path / "none")
    assert disk.is_trusted(none, frozenset({os.geteuid()})) is False
    assert disk.is_trusted(str(tmp_path), frozenset({os.geteuid()})) is True
    (disk_names, links, text) = disk.names(none), disk.links(none), disk.text(none)
    assert (disk_names, links, text) == ((), (), "")
