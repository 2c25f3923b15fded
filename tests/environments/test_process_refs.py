import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patchyard.clients.process import (
    ProcessRef,
    ProcessStat,
    descendants,
    identify,
    kill,
    kill_tree,
    marked,
    read_stat,
    wait_ended,
)
from patchyard.toolbox.spawning import spawn_detached
from timing import promised

TREE = """
import os, sys, time
sys.stdout.write(str(os.getpid()))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(5, b"%d\\n" % os.getpid())
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def test_a_number_used_again_is_not_mistaken_for_the_old_process() -> None:
    own = identify(os.getpid())
    assert own is not None
    other = ProcessRef(pid=own.pid, started=own.started - 1)
    assert own.is_alive
    assert not other.is_alive
    assert not kill(other, signal.SIGKILL)
    assert wait_ended(other, timeout_s=0)


def test_a_process_is_started_where_few_descriptors_are_allowed() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "from patchyard.toolbox.spawning import spawn_detached;"
        "import os; print(os.waitpid(spawn_detached(['/bin/true'], env={}, descriptors={}), 0)[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"0\n", 0), done.stderr


def test_an_unknown_number_is_nobody() -> None:
    assert identify(2**22 + 1) is None
    assert read_stat(2**22 + 1) is None
    assert not kill(ProcessRef(pid=2**22 + 1, started=1))


def test_an_ended_child_is_not_alive_before_it_is_reaped_either() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    reference = identify(child.pid)
    assert reference is not None
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not reference.is_alive
    assert child.wait(timeout=60) == 0


def test_a_detached_process_gets_exactly_the_descriptors_it_is_given() -> None:
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)  # as a careless parent would have left it
    reading, writing = os.pipe()
    code = "import os; os.write(9, ' '.join(sorted(os.listdir('/proc/self/fd'))).encode())"
    try:
        pid = spawn_detached(
            [sys.executable, "-I", "-S", "-c", code],
            env={"PATH": "/usr/bin:/bin"},
            descriptors={9: writing},
        )
        os.close(writing)
        seen = os.read(reading, 100).decode().split()
        assert os.waitpid(pid, 0) == (pid, 0)
    finally:
        os.close(leaked)
        os.close(reading)
    assert seen == ["0", "1", "2", "3", "9"]  # 3 is the listing itself


def test_a_detached_process_is_in_a_session_of_its_own() -> None:
    pid = spawn_detached(["/bin/sleep", "60"], env={}, descriptors={})
    reference = identify(pid)
    assert reference is not None
    assert os.getsid(pid) == pid != os.getsid(0)
    assert kill(reference)
    assert wait_ended(reference, timeout_s=promised(3))


def test_a_program_that_is_not_there_is_an_error_and_leaves_no_descriptor() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        spawn_detached(["/no/such/program"], env={}, descriptors={})
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_descendants_are_found_at_any_depth_without_zombies() -> None:
    stats = [
        ProcessStat(pid=2, parent=1, state="S", started=5),
        ProcessStat(pid=3, parent=2, state="Z", started=6),
        ProcessStat(pid=4, parent=3, state="R", started=7),
        ProcessStat(pid=5, parent=9, state="R", started=8),
    ]
    assert [one.pid for one in descendants(1, stats)] == [2, 4]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_tree_is_killed_with_what_forked_away_and_what_is_stopped(*, is_stopped: bool) -> None:
    reading, writing = os.pipe()
    marker = f"PATCHYARD_TEST_MARK={os.getpid()}-{is_stopped}"
    name, _, value = marker.partition("=")
    pid = spawn_detached(
        [sys.executable, "-I", "-S", "-c", TREE],
        env={name: value},
        descriptors={5: writing},
    )
    os.close(writing)
    root = identify(pid)
    with os.fdopen(reading) as pipe:
        daemon = identify(int(pipe.readline()))
    assert root is not None
    assert daemon is not None
    if is_stopped:
        kill(root, signal.SIGSTOP)
        kill(daemon, signal.SIGSTOP)
    assert kill_tree(root, marker=marker, timeout_s=promised(3))
    assert not daemon.is_alive
    assert not root.is_alive


def test_a_mark_is_found_whole_or_not_at_all() -> None:
    with subprocess.Popen(
        ["/bin/cat"],
        env={"PATCHYARD_TEST": "one"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"it runs\n")
        child.stdin.flush()
        child.stdout.readline()
        stat = read_stat(child.pid)
        assert stat is not None
        assert [one.pid for one in marked("PATCHYARD_TEST=one", [stat])] == [child.pid]
        assert marked("PATCHYARD_TEST=on", [stat]) == []
