"""The suite's own look for what it left mounted."""

from pathlib import Path

from leftovers import left_outside, mounted_below

MOUNTS = """\
24 1 8:1 / / rw - ext4 /dev/sda1 rw
90 24 0:50 / /tmp/s/a\\040b/root rw,relatime - overlay none rw,lowerdir=/x,upperdir=/u,workdir=/w
91 24 0:51 / /var/lib/p/1/root rw - overlay none rw,lowerdir=/proc/self/fd/1,upperdir=/u
92 24 0:52 / /tmp/so/root rw - overlay none rw,lowerdir=/tmp/so/x,upperdir=/tmp/so/u,workdir=/w
"""


def test_mounts_are_known_by_their_place() -> None:
    found = mounted_below([Path("/tmp/s"), Path("/var/lib/p")], MOUNTS)
    assert found == [Path("/tmp/s/a b/root"), Path("/var/lib/p/1/root")]


def test_a_folder_without_a_home_has_left_nothing(tmp_path: Path) -> None:
    assert left_outside(tmp_path) == []
