"""What does not fit into a virtual machine is known before one is started."""

import os
from pathlib import Path

import pytest

from patchyard.clients.guest_filling import require_room
from patchyard.domain.environment import Mount
from patchyard.domain.errors import EnvironmentUnavailable

ROOM = 3000


def mount(place: Path) -> Mount:
    return Mount(source=str(place), target="/data")


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """A folder with just as much as there is room for."""
    vendor = tmp_path / "vendor"
    (vendor / "deep").mkdir(parents=True)
    (vendor / "one").write_bytes(b"x" * 2000)
    (vendor / "deep/two").write_bytes(b"x" * 1000)
    return vendor


def test_what_is_sent_once_counts_once_and_what_is_not_sent_counts_nothing(vendor: Path) -> None:
    os.link(vendor / "one", vendor / "deep/one")
    os.mkfifo(vendor / "pipe")
    (vendor / "link").symlink_to("/usr")
    require_room([mount(vendor)], room=ROOM)
    require_room([mount(vendor / "one"), mount(vendor / "one")], room=2000)
    require_room([mount(vendor / "gone")], room=0)
    with pytest.raises(EnvironmentUnavailable):
        require_room([mount(vendor / "deep/two")] * 2, room=1999)  # no link: it is sent twice


@pytest.mark.parametrize("name", ["more", "deep/more"])
def test_a_byte_too_many_is_refused_with_the_cure(vendor: Path, name: str) -> None:
    (vendor / name).write_bytes(b"x")
    for mounts in ([mount(vendor)], [mount(vendor / name), mount(vendor / "one"), mount(vendor)]):
        with pytest.raises(EnvironmentUnavailable, match="more than the") as refused:
            require_room(mounts, room=ROOM)
        assert "mount less" in refused.value.hint


def test_a_file_of_many_gigabytes_is_refused_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 40)
    with pytest.raises(EnvironmentUnavailable):
        require_room([mount(tmp_path / "huge")], room=1 << 30)
