"""A control group for one environment on a host: where it may lie, what it counts, when it goes."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from patchyard.toolbox import grouping


def placed(filesystem: Path, membership: str) -> str:
    place = filesystem.parent / "membership"
    place.write_text(membership)
    found = grouping.parent(str(filesystem), str(place))
    return found.removeprefix(str(filesystem)) if found else "none"


@pytest.fixture
def filesystem(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True)
    for name, text in {"cgroup_procs": "", **files}.items():
        (folder / name.replace("_", ".", 1)).write_text(text)


def test_in_version_1_it_lies_in_the_users_own_group(filesystem: Path) -> None:
    group(filesystem / "pids/user")
    assert placed(filesystem, "3:cpu,cpuacct:/\n8:pids:/user\n0::/\n") == "/pids/user"
    assert placed(filesystem, "8:pids:/other\n") == "none"
    assert placed(filesystem, "3:cpu:/\n") == "none"


def test_in_version_2_it_lies_in_the_nearest_above_that_passes_the_controller_on(
    filesystem: Path,
) -> None:
    group(filesystem, cgroup_controllers="cpu pids", cgroup_subtree_control="cpu pids\n")
    group(filesystem / "user", cgroup_subtree_control="memory pids\n")
    group(filesystem / "user/slice/session", cgroup_subtree_control="")
    assert placed(filesystem, "0::/user/slice/session\n") == "/user"
    assert placed(filesystem, "0::/user\n") == ""
    assert placed(filesystem, "0::/\n") == "none"


def test_without_control_groups_there_is_none(tmp_path: Path) -> None:
    assert grouping.parent(str(tmp_path), str(tmp_path / "none")) == ""


@pytest.mark.service("control-groups")
def test_it_refuses_what_is_too_much_and_goes_when_it_is_empty(tmp_path: Path) -> None:
    grouping.end(str(tmp_path))  # nothing is noted, and nothing done
    words = ["/bin/sh", "-c", "read x; (sleep 0 & sleep 0 & wait) || echo refused; read x"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        grouping.begin(str(tmp_path), f"patchyard-test-{os.getpid()}", 2, shell.pid)
        made = Path((tmp_path / grouping.NOTE).read_text())
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        said = shell.stdout.readline()
        began = time.monotonic()
        grouping.end(str(tmp_path))
        waited_s = time.monotonic() - began
        was_there = made.exists()
    grouping.end(str(tmp_path))
    assert b"fork" in said
    assert (waited_s >= grouping.LEAVING_S, was_there, made.exists()) == (True, True, False)
