"""The suite's own look for what it left mounted."""

from pathlib import Path

from leftovers import overlays_of

MOUNTS = """\
24 1 8:1 / / rw - ext4 /dev/sda1 rw
90 24 0:50 / /tmp/s/a\\040b/root rw,relatime - overlay none rw,lowerdir=/x,upperdir=/u,workdir=/w
91 24 0:51 / /var/lib/p/root rw - overlay none rw,lowerdir=/x:/tmp/s/home/bases/t,upperdir=/u
92 24 0:52 / /tmp/so/root rw - overlay none rw,lowerdir=/tmp/so/x,upperdir=/tmp/so/u,workdir=/w
93 24 0:53 / /tmp/s/proc rw - proc proc rw
"""


def test_overlays_are_known_by_their_place_and_by_what_they_are_made_of() -> None:
    found = overlays_of(Path("/tmp/s"), MOUNTS)
    assert found == [Path("/tmp/s/a b/root"), Path("/var/lib/p/root")]
