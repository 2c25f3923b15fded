"""Each wall of `process`, tried from inside, with the same try outside where that is cheap."""

import asyncio
import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from environments.yards import Running, Start, Yard, starting
from patchyard.clients import cgroups
from patchyard.domain.environment import Limits, Mount
from patchyard.environments.process import ProcessEnvironment

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

IS_ROOT = os.geteuid() == 0

SYSCALL = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": %s, "aarch64": %s}[platform.machine()]
result = libc.syscall(numbers, *%s)
print(result, os.strerror(ctypes.get_errno()) if result < 0 else "")
"""


async def refused(running: Running, x86_64: int, aarch64: int, *arguments: int) -> str:
    """Return what the kernel answered to a system call made inside."""
    return await running.python(SYSCALL % (x86_64, aarch64, arguments))


def holding_python(top: str) -> set[str]:
    """The entries of a folder below which the interpreter lies: it is shown."""
    prefixes = (Path(prefix) for prefix in (sys.prefix, sys.base_prefix))
    return {each.relative_to(top).parts[0] for each in prefixes if each.is_relative_to(top)}


async def outside(command: list[str]) -> str:
    """Return what a command writes when no wall is around it."""
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


async def test_processes_of_the_machine_are_not_there(start: Start, yard: Yard) -> None:
    sleeper = await asyncio.create_subprocess_exec("/bin/sleep", "60")
    running = await start(yard.spec())
    pids = (await running.run("cd /proc; ls -d [0-9]*")).split()
    said = await running.run(f"kill -9 {sleeper.pid}")
    assert sleeper.returncode is None
    sleeper.kill()
    await sleeper.wait()
    assert "1" in pids
    assert len(pids) < 6
    assert "No such process" in said


async def test_sockets_of_the_machine_cannot_be_reached(start: Start, yard: Yard) -> None:
    path, name = f"{yard.folder}/host.sock", f"\0{yard.folder.name}"
    code = (
        "import socket\n"
        f"for place in ({path!r}, {name!r}):\n"
        "    try:\n"
        "        socket.socket(socket.AF_UNIX).connect(place); print('reached')\n"
        "    except OSError as error:\n"
        "        print(error.strerror)\n"
    )
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as abstract:
        for listener, place in ((by_path, path), (abstract, name)):
            listener.bind(place)
            listener.listen()
        control = await outside([sys.executable, "-c", code])
        running = await start(yard.spec())
        said = await running.python(code)
    assert control.split() == ["reached", "reached"]
    assert said.splitlines() == ["No such file or directory", "Connection refused"]


async def test_there_is_no_network_but_loopback_works(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    with socket.create_server(("127.0.0.1", 0)) as outside:
        code = (
            "import socket\n"
            f"for address in (('127.0.0.1', {outside.getsockname()[1]}), ('192.0.2.1', 80)):\n"
            "    try:\n"
            "        socket.create_connection(address, 2); print('reached')\n"
            "    except OSError as error:\n"
            "        print(error.strerror)\n"
            "server = socket.create_server(('127.0.0.1', 0))\n"
            "socket.create_connection(server.getsockname()); print('loopback')\n"
        )
        said = await running.python(code)
    assert said.splitlines() == ["Connection refused", "Network is unreachable", "loopback"]


async def test_of_the_disk_only_what_is_allowed_is_seen(start: Start, yard: Yard) -> None:
    (yard.folder / "secret").write_text("secret")
    running = await start(yard.spec())
    assert await running.run(f"ls {yard.folder}") == "workspace"
    for top in ("/mnt", "/srv", "/media"):
        assert set((await running.run(f"ls {top}")).split()) <= holding_python(top)
    assert (await running.run("cat /etc/shadow; ls /boot /sys")).count("No such file") == 3
    assert "root:x:0" in await running.run("cat /etc/passwd")
    assert len((await running.run("cat /etc/passwd")).splitlines()) == 3


async def test_the_real_home_is_not_seen(start: Start, yard: Yard) -> None:
    home = Path(os.environ["HOME"])
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("secret")
    running = await start(yard.spec())
    assert "No such file" in await running.run(f"ls {home}/.ssh")
    assert await running.run("cd && pwd && touch mine && ls") == "/home/agent\nmine"


@pytest.mark.parametrize("place", ["", "/home/agent/src/project"])
async def test_the_home_inside_is_the_agents_own_and_closed(
    start: Start, yard: Yard, place: str
) -> None:
    running = await start(yard.spec(target=place or None))
    own = str(yard.workspace.stat().st_uid)
    assert (await running.run("stat -c '%u %a' ~; touch ~/x")).split() == [own, "700"]


async def test_passwords_of_an_index_in_a_toolchain_are_not_seen(yard: Yard) -> None:
    venv = yard.folder / "tool"
    (venv / "bin").mkdir(parents=True)
    for name in ("pyvenv.cfg", "pip.conf", "bin/x"):
        (venv / name).write_text("[global]\nindex-url = https://me:secret@index.invalid/simple\n")
    station = replace(yard.station, search_path=f"{venv}/bin:{yard.station.search_path}")
    async with starting(ProcessEnvironment(station)) as start:
        running = await start(yard.spec())
        said = await running.run(f"{venv}/bin/x; cat {venv}/pip.conf")
    assert (said.count("Permission denied"), "secret" in said) == (2, False)


async def test_a_program_planted_in_the_checkout_does_not_come_before_the_systems(
    yard: Yard,
) -> None:
    planted = yard.workspace / "bin"
    planted.mkdir()
    (planted / "git").write_text("#!/bin/sh\necho planted\n")
    (planted / "git").chmod(0o755)
    station = replace(yard.station, search_path=f"{planted}:{yard.station.search_path}")
    environment = ProcessEnvironment(station)
    handle = await environment.start(yard.spec())
    try:
        toolbox = await environment.attach(handle)
        running = Running(environment, handle, toolbox)
        assert "git version" in await running.run("git --version")
        await toolbox.close()
    finally:
        await environment.end(handle)


@pytest.mark.service("root")
async def test_a_setuid_bit_gives_nothing(start: Start, yard: Yard) -> None:
    program = yard.workspace / "become-root"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    agent = yard.workspace.stat().st_uid
    control = ["setpriv", "--reuid", str(agent), "--clear-groups", str(program), "-u"]
    said = await outside(control)
    running = await start(yard.spec())
    assert said == "0"
    assert await running.run("./become-root -u") == str(agent)


async def test_no_namespace_of_users_can_be_made(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    assert "Operation not permitted" in await running.run("unshare --user true")
    assert "Operation not permitted" in await refused(running, 56, 220, 0x10000011, 0, 0, 0, 0)
    assert "Function not implemented" in await refused(running, 435, 435, 0, 0)


async def test_dangerous_system_calls_are_refused(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    calls = {
        "ptrace": (101, 117, 0, 0, 0, 0),
        "process_vm_readv": (310, 270, 1, 0, 0, 0, 0, 0),
        "keyctl": (250, 219, 0, -3, 0),
        "add_key": (248, 217, 0, 0, 0, 0, 0),
        "bpf": (321, 280, 0, 0, 0),
        "io_uring_setup": (425, 425, 1, 0),
        "userfaultfd": (323, 282, 0),
        "perf_event_open": (298, 241, 0, 0, -1, -1, 0),
        "mount": (165, 40, 0, 0, 0, 0, 0),
        "open_by_handle_at": (304, 265, -100, 0, 0),
        "setns": (308, 268, 0, 0),
        "ioctl(TIOCSTI)": (16, 29, -1, 0x5412, 0),
        "ioctl(TIOCSTI with more bits)": (16, 29, -1, 0x100005412, 0),
        "ioctl(TIOCLINUX)": (16, 29, -1, 0x541C, 0),
        "open_tree_attr": (467, 467, -100, 0, 0, 0, 0),
    }
    answers = {name: await refused(running, *call) for name, call in calls.items()}
    assert {name for name, text in answers.items() if "Operation not permitted" not in text} == (
        set()
    ), answers


async def test_sockets_to_a_hypervisor_are_not_supported(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    said = await running.python(
        "import socket\nfor family in (1, 2, 10, 16, 40, 38, 17):\n"
        "    try:\n        socket.socket(family, socket.SOCK_DGRAM).close(); print('made')\n"
        "    except OSError as error:\n        print(error.strerror)\n"
        "for family in (1, 40, 30, 17):\n"
        "    try:\n        socket.socketpair(family, socket.SOCK_DGRAM); print('pair')\n"
        "    except OSError as error:\n        print(error.strerror)\n"
    )
    refused = ["Address family not supported by protocol"] * 3
    assert said.splitlines() == [*["made"] * 4, *refused, "pair", *refused]


async def test_calls_of_another_numbering_are_deadly(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    code = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 | 101, 0, 0, 0, 0)"
    result = await running.result(f'exec python3 -c "{code}"')
    x32 = platform.machine() == "x86_64"  # other machines have one numbering, and no such call
    assert result.get("signal") == ("SIGSYS" if x32 else None)


async def test_nothing_can_be_typed_into_a_terminal(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    said = await running.python(
        "import fcntl, os, pty, struct, termios\n"
        "own, other = pty.openpty()\n"
        "print(len(fcntl.ioctl(own, termios.TIOCGWINSZ, bytes(8))))\n"
        "for request in (termios.TIOCSTI, termios.TIOCSTI | 1 << 32, 0x541C):\n"
        "    try:\n        fcntl.ioctl(other, request & 0xFFFFFFFF, b'x'); print('typed')\n"
        "    except OSError as error:\n        print(error.errno)\n"
    )
    assert said.splitlines() == ["8", "1", "1", "1"]
    assert "No such device" in await running.run("cat < /dev/tty")


async def test_the_toolbox_cannot_be_read(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    said = await running.run(
        "for f in mem environ maps; do cat /proc/1/$f >/dev/null; done; ls /proc/1/fd; cat "
        "/proc/self/environ > /dev/null && echo own"
    )
    assert said.count("Permission denied") == 4
    assert "own" in said


async def test_the_agent_is_nobody_in_particular(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    status = await running.run("cat /proc/self/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert fields["Uid"].split() == [str(yard.workspace.stat().st_uid)] * 4
    if IS_ROOT:
        assert fields["CapBnd"] == "0" * 16
        assert fields["Groups"].split() == []
        assert "0" not in fields["Uid"].split()


async def test_the_system_cannot_be_written(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    for place in ("/", "/usr", "/etc", "/opt", "/dev", "/run/patchyard", "/root", "/run"):
        said = await running.run(f"touch {place}/x 2>&1")
        assert "Read-only" in said or "denied" in said, place


async def test_tools_of_a_developer_work(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    await running.run(
        "git init -q . && git config user.email a@b.c && git config user.name a && "
        "echo x > file && git add file && git commit -q -m x"
    )
    assert await running.run("git log --format=%s") == "x"
    assert "[1]" in await running.run("git diff --stat; python3 -c 'print([1])'")
    assert (
        await running.python(
            "import multiprocessing as m, tempfile, ssl, sqlite3, threading\n"
            "q = m.Queue(); p = m.Process(target=q.put, args=(7,)); p.start()\n"
            "print(q.get()); p.join()"
        )
        == "7"
    )


@pytest.mark.service("node")
async def test_node_works(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    code = "new (require('worker_threads').Worker)('console.log(42)', {eval: true})"
    assert await running.run(f'node -e "{code}"') == "42"


async def test_planning_can_write_nothing_but_memory(start: Start, yard: Yard) -> None:
    (yard.workspace / "module.py").write_text("x = 1\n")
    running = await start(yard.spec(is_writable=False))
    said = await running.run("touch new; rm -f module.py; echo > module.py")
    assert said.count("Read-only file system") == 3
    assert await running.run("python3 -c 'import module; print(module.x)'; touch /tmp/y ~/z") == "1"
    assert [path.name for path in yard.workspace.iterdir()] == ["module.py"]
    written = await running.toolbox.call("01W", "write_file", {"path": "a", "content": "b"})
    assert written["error"] == "READ_ONLY"


async def test_the_workspace_appears_at_the_path_of_the_checkout(start: Start, yard: Yard) -> None:
    real = yard.folder / "real"
    (real / "project").mkdir(parents=True)
    (real / "project/original").write_text("never seen")
    (yard.folder / "linked").symlink_to("real")
    for target in (real / "project", yard.folder / "linked/project"):
        running = await start(yard.spec(target=str(target)))
        assert await running.run("pwd; ls; touch here; cd ..; ls") == f"{target}\nproject"
        assert (yard.workspace / "here").exists()
        (yard.workspace / "here").unlink()
    assert [path.name for path in (real / "project").iterdir()] == ["original"]


async def test_mounts_nest_and_are_read_only_unless_said(start: Start, yard: Yard) -> None:
    for name in ("layer", "shared"):
        (yard.folder / name).mkdir()
        (yard.folder / name).chmod(0o777)
        (yard.workspace / name).mkdir()
    (yard.folder / "layer/installed").write_text("yes")
    running = await start(
        yard.spec(
            Mount(source=f"{yard.folder}/layer", target=f"{yard.workspace}/layer"),
            Mount(
                source=f"{yard.folder}/shared",
                target=f"{yard.workspace}/shared",
                is_writable=True,
            ),
        )
    )
    assert await running.run("cat layer/installed; touch shared/new") == "yes"
    assert "Read-only file system" in await running.run("touch layer/new")
    assert (yard.folder / "shared/new").exists()


async def test_a_narrow_umask_of_the_engine_closes_nothing(start: Start, yard: Yard) -> None:
    before = os.umask(0o077)
    try:
        running = await start(yard.spec(target=f"{yard.folder}/deep/er/project"))
    finally:
        os.umask(before)
    assert await running.run("pwd") == f"{yard.folder}/deep/er/project"


async def test_memory_is_bounded(start: Start, yard: Yard) -> None:
    running = await start(yard.spec(limits=Limits(memory_bytes=200 * 1024**2)))
    result = await running.result("python3 -c 'x = bytearray(800 * 1024 ** 2); print(len(x))'")
    assert result["success"] is False
    assert await running.run("echo lives") == "lives"


async def test_the_number_of_processes_is_bounded(start: Start, yard: Yard) -> None:
    running = await start(yard.spec(limits=Limits(processes=30)))
    said = await running.python(
        "import os, time\ncount = 0\ntry:\n"
        "    while count < 100:\n"
        "        if os.fork() == 0:\n            time.sleep(30); os._exit(0)\n"
        "        count += 1\nexcept OSError as error:\n    print(error.strerror)\n"
    )
    assert said == "Resource temporarily unavailable"


@pytest.mark.service("control-groups")
async def test_a_frozen_tree_ends(start: Start, yard: Yard) -> None:
    running = await start(yard.spec())
    group = tuple(running.handle.details["group"])
    assert cgroups.freeze(group)
    await running.adapter.end(running.handle)
    assert not any(os.access(directory, os.F_OK) for directory in group)


async def test_what_is_seen_is_listed(yard: Yard) -> None:
    rows = ProcessEnvironment(yard.station).describe(yard.spec())
    by_path = {row["path"]: row for row in rows}
    assert by_path[str(yard.workspace)]["access"] == "writable"
    assert not [row for row in rows if row["source"].startswith(os.environ["HOME"] + "/")]


async def test_what_is_left_out_of_path_is_listed_with_the_reason(yard: Yard) -> None:
    secret = yard.folder / ".ssh/bin"
    secret.mkdir(parents=True)
    station = replace(yard.station, home=str(yard.folder), search_path=f"{secret}:/usr/bin")
    rows = ProcessEnvironment(station).describe(yard.spec())
    assert rows[0]["path"] == str(secret)
    assert rows[0]["access"] == "not shown: it touches a place of credentials"
