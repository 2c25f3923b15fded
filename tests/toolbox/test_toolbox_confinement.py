"""What the toolbox gives up, in processes of their own: none of it can be taken back."""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from services import ordinary_python

AGENT = 60_998

STATUS = """
import ctypes, json, os, resource, sys
from patchyard.toolbox import confinement
from patchyard.toolbox.settings import Settings

def show(**more):
    status = dict(line.split(":\\t", 1) for line in open("/proc/thread-self/status"))
    kept = {name: status[name].split() for name in ("Uid", "Gid", "Groups", "NoNewPrivs")}
    sets = {name: int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")}
    print(json.dumps({**kept, **sets, "CapBnd": int(status["CapBnd"], 16), **more}), flush=True)
"""


def run(code: str, *prefix: str) -> Any:
    done = subprocess.run(
        [*prefix, *(ordinary_python() if prefix else (sys.executable,)), "-c", STATUS + code],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


CONFINE = """
given = json.dumps({"listen_fd": -1, "workspace": "/", **json.loads(%r)})
confinement.confine(Settings(given))
"""


def confined(code: str = "show()", *prefix: str, **settings: object) -> Any:
    return run(CONFINE % json.dumps(settings) + code, *prefix)


@pytest.mark.service("root")
def test_root_becomes_the_agent_with_no_group_and_no_capability() -> None:
    found = confined(uid=AGENT, gid=AGENT + 1)
    assert found["Uid"] == [str(AGENT)] * 4
    assert found["Gid"] == [str(AGENT + 1)] * 4
    assert found["Groups"] == []
    assert found["NoNewPrivs"] == ["1"]
    assert {found[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd")} == {0}
    assert confined(uid=AGENT)["Gid"] == [str(AGENT)] * 4


@pytest.mark.service("root")
@pytest.mark.service("ordinary-user")
def test_who_may_not_become_the_agent_is_refused() -> None:
    plain = ("setpriv", "--reuid", "60997", "--regid", "60997", "--clear-groups")
    code = """
def tries():
    try:
        confinement._become(ctypes.CDLL(None, use_errno=True), 60_996, 60_996)
    except PermissionError as error:
        return error.errno
show(errno=tries())
"""
    assert run(code, *plain)["errno"] == 1


@pytest.mark.service("ordinary-user")
def test_an_ordinary_user_becomes_itself() -> None:
    own = os.geteuid() or 60_997
    prefix = ("setpriv", "--reuid", str(own), "--regid", str(own), "--clear-groups")
    found = confined("show()", *(prefix if os.geteuid() == 0 else ()), uid=own)
    assert (found["Uid"], found["CapEff"], found["CapPrm"]) == ([str(own)] * 4, 0, 0)


@pytest.mark.service("root")
def test_a_home_that_is_missing_is_made_as_the_agent_and_one_that_is_there_stays() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        for _ in range(2):
            confined(f"confinement.make_home({folder!r} + '/home'); show()", uid=AGENT)
            facts = Path(folder, "home").stat()
            assert (facts.st_uid, facts.st_gid) == (AGENT, AGENT)
            assert stat.S_IMODE(facts.st_mode) == 0o700
        confined("confinement.make_home('/nowhere/to/be/found'); show()", uid=AGENT)


def test_limits_are_lowered_and_never_raised() -> None:
    code = """
limits = {name: resource.getrlimit(getattr(resource, name)) for name in wanted}
show(limits=limits)
"""
    before = "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
    given = json.dumps({"rlimits": {"RLIMIT_NOFILE": 500, "RLIMIT_CORE": 0, "RLIMIT_CPU": 1}})
    names = "wanted = ['RLIMIT_NOFILE', 'RLIMIT_CORE']\n"
    found = run(before + CONFINE % given + names + code)
    assert found["limits"] == {"RLIMIT_NOFILE": [100, 100], "RLIMIT_CORE": [0, 0]}


def test_processor_time_is_limited_command_by_command() -> None:
    code = """
own = resource.getrlimit(resource.RLIMIT_CPU)
limits = {"RLIMIT_CPU": 7, "RLIMIT_CORE": 0}
confinement.limit_next(limits)
reading, writing = os.pipe()
script = "read x; ulimit -S -t; ulimit -H -t"
pid = os.posix_spawn("/bin/sh", ["sh", "-c", script + ">&2"], {}, file_actions=[
    (os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, 1, 2)])
confinement.limit_command(pid, limits)
same = resource.getrlimit(resource.RLIMIT_CPU)[1] == own[1]
hard = resource.prlimit(pid, resource.RLIMIT_CPU)
os.close(writing), os.kill(pid, 9), os.waitpid(pid, 0)
confinement.limit_next(limits)
confinement.limit_command(pid, limits)  # it has ended already
confinement.limit_next(limits)
confinement.limit_command(0, limits)  # none was started
show(hard=hard, same=same)
"""
    found = run(code)
    assert (found["hard"], found["same"]) == ([7, 8], True)


def test_a_step_that_the_kernel_refuses_is_an_error() -> None:
    code = """
try:
    confinement._prctl(ctypes.CDLL(None, use_errno=True), 12345, 1)
except OSError as error:
    show(errno=error.errno, message=str(error))
"""
    found = run(code)
    assert found["errno"] == 22
    assert "prctl 12345" in found["message"]
